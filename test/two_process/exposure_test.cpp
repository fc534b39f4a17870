// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the end of an exposure, or the recall of a loan, stops a peer in the middle of writing: no
// byte changes any more.
// Method: a forked peer writes blocks, each all one number, until a write fails.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Number = std::uint64_t;
constexpr std::size_t block = 8192;  // more than one packet on every device

/// Writes block after block. What ended it, as text.
int keep_writing(Wire const& wire) {
  auto end = one_end(wire);
  auto memory = must(end.domain.allocate(block));
  std::array<std::byte, RemoteRegion::encoded_size> told{};
  if (!wire.take(told)) return 1;
  auto const remote = must(RemoteRegion::decode(told));
  for (Number number = 1;; ++number) {
    auto const bytes = must(memory.mutable_bytes());
    for (std::size_t at = 0; at < block; at += sizeof number)
      std::memcpy(bytes.data() + at, &number, sizeof number);
    auto const written = end.channel.write({memory.gather(), remote}, within(20s));
    if (!written.has_error()) continue;
    auto const* const work = written.error().work();
    bool const is_refusal = work != nullptr && work->status == WorkStatus::remote_access;
    return wire.put_text(is_refusal ? "refused" : written.error().message()) ? 0 : 2;
  }
}

/// The number that the peer wrote last, while it may be writing. The bytes may be on loan, which
/// AddressSanitizer would refuse.
[[gnu::no_sanitize_address, gnu::noinline]] Number latest(std::byte const* bytes) {
  auto const* const words = reinterpret_cast<Number const volatile*>(bytes);
  return words[block / sizeof(Number) - 1];
}

}  // namespace

TEST_CASE("the end of an exposure stops a peer that keeps writing", "[two_process]") {
  bool const owned = GENERATE(true, false);
  CAPTURE(owned);
  PeerProcess peer{keep_writing};
  auto end = one_end(peer.wire());
  std::vector<std::byte> own(owned ? 0 : block);
  auto memory = owned ? must(end.domain.allocate(block)) : must(end.domain.register_memory(own));
  auto const* const bytes = must(memory.bytes()).data();
  // SAFETY: until it ends, the bytes are looked at as the peer's, a word at a time.
  auto exposure = must(memory.unsafe_expose(RemoteAccess::write));
  REQUIRE(peer.wire().put(exposure.remote().encode()));
  auto const deadline = within(20s);
  while (latest(bytes) < 20 && !deadline.has_passed()) std::this_thread::yield();
  REQUIRE(latest(bytes) >= 20);

  must(exposure.finish());
  std::vector<std::byte> const before{bytes, bytes + block};
  auto const ended_by = peer.wire().take_text();
  CAPTURE(ended_by);

  REQUIRE_FALSE(ended_by.empty());
  if (end.context.capabilities().acknowledges) {
    CHECK(ended_by == "refused");
    CHECK(std::memcmp(before.data(), bytes, block) == 0);
  } else {
    // A segment that was being placed may land an instant after the end, and no block after it.
    CHECK(latest(bytes) <= latest(before.data()) + 1);
  }
  CHECK(memory.mutable_bytes().has_value());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("a recall stops a peer that keeps writing, and the bytes are the program's",
          "[two_process]") {
  PeerProcess peer{keep_writing};
  auto end = one_end(peer.wire());
  if (lacks(end.context, &DeviceCapabilities::peer_loans)) return;
  auto memory = must(end.domain.allocate(block));
  auto const* const bytes = must(memory.bytes()).data();
  PollingScope scope{end.channel};
  auto loan = must(scope.post_lend(memory.scatter(0, block)));
  REQUIRE(peer.wire().put(loan.remote().encode()));
  auto const deadline = within(20s);
  while (latest(bytes) < 20 && !deadline.has_passed()) std::this_thread::yield();
  REQUIRE(latest(bytes) >= 20);

  must(loan.recall(within(10s)));
  std::vector<std::byte> const before{bytes, bytes + block};
  auto const ended_by = peer.wire().take_text();

  CHECK(ended_by == "refused");
  CHECK(std::memcmp(before.data(), bytes, block) == 0);
  CHECK(memory.mutable_bytes().has_value());
  CHECK(peer.exit_status() == 0);
}
