// SPDX-License-Identifier: MIT OR Apache-2.0
// Two connected channels in one process, on the device that LEND_TEST_DEVICE names (default: soft).
// One thread at a time.
#pragma once

#include <lend/lend.hpp>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "support/catch.hpp"

namespace lend::test {

/// The value, or a failed test that says why there is none.
template <class T>
T must(Result<T> result) {
  if (!result.has_value()) FAIL(result.error().message());
  return std::move(result).assume_value();
}
inline void must(Result<void> result) {
  if (!result.has_value()) FAIL(result.error().message());
}

/// The error of a call that must fail.
template <class T>
Error error_of(Result<T> const& result) {
  if (result.has_value()) FAIL("this call was expected to fail");
  return result.assume_error();
}

inline Context open_test_device() {
  char const* const name = std::getenv("LEND_TEST_DEVICE");
  return must(open_device(name == nullptr ? DeviceChoice::soft() : DeviceChoice::named(name)));
}

/// Channels `a` and `b` of one protection domain, connected to each other.
struct TwoEnds {
  Context context;
  ProtectionDomain domain;
  Channel a;
  Channel b;
};

inline TwoEnds two_ends(ChannelOptions const& options = {}) {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  PreparedChannel one = must(prepare_channel(domain, options));
  PreparedChannel other = must(prepare_channel(domain, options));
  Endpoint const endpoint = one.endpoint();
  Channel a = must(std::move(one).handshake(other.endpoint()));
  Channel b = must(std::move(other).handshake(endpoint));
  return {context, domain, std::move(a), std::move(b)};
}

inline ChannelOptions options_with_depth(std::uint32_t depth) {
  ChannelOptions options;
  options.queue_pair.send_depth = depth;
  options.queue_pair.receive_depth = depth;
  return options;
}

/// Writes `text` at `offset` of memory that is not on loan.
inline void put(MemoryRegion& memory, std::size_t offset, std::string_view text) {
  auto const bytes = must(memory.mutable_bytes(offset, text.size()));
  std::memcpy(bytes.data(), text.data(), text.size());
}
inline std::string text_at(MemoryRegion const& memory, std::size_t offset, std::size_t length) {
  auto const bytes = must(memory.bytes(offset, length));
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

/// A region that looks right and that no peer ever exposed.
inline RemoteRegion nobody(std::size_t length) {
  return {0x1000, length, 0xbad'0bad};
}

}  // namespace lend::test
