// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <transport/buffers.hpp>

#include <utility>

namespace lend::transport {

Result<Buffers> Buffers::allocate(ProtectionDomain const& domain, std::uint32_t count,
                                  std::uint32_t message_bytes) {
  LEND_TRY(memory, domain.allocate(count * stride(message_bytes)));
  LEND_TRY(bytes, memory.mutable_bytes());
  return Buffers{std::move(memory), bytes.data(), count, message_bytes};
}

}  // namespace lend::transport
