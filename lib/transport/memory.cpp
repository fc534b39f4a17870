// SPDX-License-Identifier: MIT OR Apache-2.0
// Each end one thread at a time.
#include <lend/transport/memory.hpp>
#include <transport/end.hpp>
#include <transport/memory_line.hpp>
#include <transport/terms.hpp>

#include <new>
#include <utility>

namespace lend {

MemoryTransport::MemoryTransport(std::unique_ptr<transport::End> end) noexcept
    : TransportBase{std::move(end)} {}

Result<std::pair<MemoryTransport, MemoryTransport>> memory_transports(
    TransportOptions const& options, MemoryFaults const& faults) try {
  LEND_TRY(terms, transport::terms_of(options, TransportKind::memory));
  LEND_TRY(wire, transport::MemoryWire::make(faults, terms.window + transport::word_receives,
                                             terms.message_bytes_max));
  TransportLimits const limits{
      .kind = terms.kind,
      .send_bytes_max = terms.message_bytes_max,
      .receive_bytes_max = terms.message_bytes_max,
      .window = terms.window,
      .hold_max = terms.window - terms.window / 4,
      .hold_bytes_max = std::uint64_t{terms.window - terms.window / 4} * terms.message_bytes_max,
      .wait = options.wait,
  };
  auto const sizes = flow::CreditSizes::of(terms.window);
  auto const end = [&](std::size_t side) {
    return MemoryTransport{
        std::make_unique<transport::End>(std::make_unique<transport::MemoryLine>(wire, side),
                                         limits, transport::End::Sizes{.out = sizes, .in = sizes})};
  };
  return std::pair{end(0), end(1)};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

}  // namespace lend
