// SPDX-License-Identifier: MIT OR Apache-2.0
// Two connected channels in one process, on the device that LEND_TEST_DEVICE names (default: soft),
// connected by endpoints where it can, else by rdma_cm. One thread at a time.
#pragma once

#include <lend/lend.hpp>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "support/by_cm.hpp"
#include "support/catch.hpp"
#include "support/scenarios.hpp"

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

/// Channels `a` and `b` of one protection domain, connected to each other.
struct TwoEnds {
  Context context;
  ProtectionDomain domain;
  Channel a;
  Channel b;
};

/// `options`, by which the bytes of small sends, too, are on loan until their completion. A test of
/// what is copied asks for inline bytes.
inline ChannelOptions without_copies(ChannelOptions options = {}) {
  if (!options.queue_pair.inline_bytes) options.queue_pair.inline_bytes = 0;
  return options;
}

/// Two channels of `domain`, connected to each other, of these very options.
inline std::pair<Channel, Channel> connected_as_asked(ProtectionDomain const& domain,
                                                      ChannelOptions const& of_one,
                                                      ChannelOptions const& of_other) {
  for (int tries = 1; !domain.context().capabilities().endpoints; ++tries) {
    PreparedChannel one = must(prepare_channel(domain, of_one));
    PreparedChannel other = must(prepare_channel(domain, of_other));
    auto both = try_connect_by_cm(one.take_queue_pair(), other.take_queue_pair());
    if (!both && tries < 3) continue;
    REQUIRE(both.has_value());
    Channel a = must(std::move(one).adopt(std::move(both->first)));
    Channel b = must(std::move(other).adopt(std::move(both->second)));
    return {std::move(a), std::move(b)};
  }
  PreparedChannel one = must(prepare_channel(domain, of_one));
  PreparedChannel other = must(prepare_channel(domain, of_other));
  Endpoint const endpoint = one.endpoint();
  Channel a = must(std::move(one).handshake(other.endpoint()));
  Channel b = must(std::move(other).handshake(endpoint));
  return {std::move(a), std::move(b)};
}

/// The same, without_copies() unless `of_one` or `of_other` asks for them.
inline std::pair<Channel, Channel> connected(ProtectionDomain const& domain,
                                             ChannelOptions const& of_one,
                                             ChannelOptions const& of_other) {
  return connected_as_asked(domain, without_copies(of_one), without_copies(of_other));
}

inline TwoEnds two_ends(ChannelOptions const& options = {}) {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  auto [a, b] = connected(domain, options, options);
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

/// Whether `error` says that the peer is gone: found out by retrying, or told by rdma_cm.
inline bool is_loss_of_peer(Error const& error) {
  return error == Errc::peer_lost ||
         (error.work() != nullptr && error.work()->status == WorkStatus::retry_exceeded);
}

/// A region that looks right and that no peer ever exposed.
inline RemoteRegion nobody(std::size_t length) {
  return {0x1000, length, 0xbad'0bad};
}

/// Posts work on `a` that fails with a reason of its own: a write of [0, 8) that the peer refuses,
/// or, where nobody tells of that, a receive of [0, 4) for a message of eight bytes.
inline PendingWork post_failing(TwoEnds& ends, PollingScope& scope, MemoryRegion& memory) {
  if (ends.context.capabilities().acknowledges)
    return must(scope.post_write({memory.gather(0, 8), nobody(8)}));
  PendingWork work = must(scope.post_receive(memory.scatter(0, 4)));
  must(ends.b.send(memory.gather(8, 8)));
  return work;
}

}  // namespace lend::test
