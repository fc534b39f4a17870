// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: nothing about a transfer depends on its size: not a message of 1 GiB, not a byte whose
// offset takes more than 32 bits.
// Method: a forked peer; words that are known by their place; sparse regions of 6 GiB, of which the
// pages that nobody touches cost nothing.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "support/peer_process.hpp"
#include "support/sanitizers.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t gib = std::size_t{1} << 30;

#if LEND_TEST_ASAN || LEND_TEST_TSAN
constexpr std::size_t longest = 64 * mib;  // every byte has others that shadow it
#else
constexpr std::size_t longest = gib;
#endif

/// As long as the device carries, but on hardware not beyond what a small guest can pin.
std::size_t message_length(Context const& context) {
  auto const most = std::size_t{context.port().message_bytes_max};
  return std::min(most, context.kind() == DeviceKind::soft ? longest : 8 * mib);
}

/// Where words lie by which a message is known: at its end, and often enough to notice a part that
/// is lost or moved. Between them the sender's pages are those that nobody touched.
template <class Visit>
void for_each_mark(std::size_t length, Visit&& visit) {
  for (std::size_t at = 0; at < length - 8; at += 64 * 1024) visit(at);
  visit(length - 8);
}
std::uint64_t value_at(std::size_t place) {
  return place * 0x9e37'79b9'7f4a'7c15 | 1;
}
std::uint64_t number_in(MemoryRegion const& memory, std::size_t place) {
  std::uint64_t number = 0;
  std::memcpy(&number, must(memory.bytes(place, sizeof number)).data(), sizeof number);
  return number;
}
void write_number(MemoryRegion& memory, std::size_t place) {
  auto const value = value_at(place);
  std::memcpy(must(memory.mutable_bytes(place, sizeof value)).data(), &value, sizeof value);
}

/// Private bytes of which only what is touched exists.
class Untouched {
 public:
  explicit Untouched(std::size_t length)
      : length_{length},
        start_{::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)} {
    REQUIRE(start_ != MAP_FAILED);
  }
  Untouched(Untouched const&) = delete;
  Untouched& operator=(Untouched const&) = delete;
  ~Untouched() { ::munmap(start_, length_); }
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(start_), length_};
  }

 private:
  std::size_t length_;
  void* start_;
};

int receive_long(Wire const& wire) {
  auto end = one_end(wire);
  auto const length = message_length(end.context);
  auto memory = must(end.domain.allocate(length));
  PollingScope scope{end.channel};
  auto received = must(scope.post_receive(memory.scatter()));
  if (!wire.say()) return 1;
  if (must(received.wait(within(60s))).bytes != length) return 2;
  must(scope.finish());
  bool is_whole = true;
  for_each_mark(length, [&](std::size_t at) {
    is_whole = is_whole && number_in(memory, at) == value_at(at);
  });
  if (!is_whole) return 3;
  return wire.hear() ? 0 : 4;
}

constexpr std::size_t sparse = 6 * gib;
constexpr std::array<std::size_t, 6> places{
    0, 2 * gib - 4, 4 * gib - 4, 4 * gib + 64, 5 * gib + 123, sparse - 8};

/// 6 GiB of the device's own, or of this process's.
struct Sparse {
  Sparse(ProtectionDomain const& domain, bool is_owned)
      : bytes{is_owned ? 1 : sparse},
        // SAFETY: the tests agree over a socket whose turn it is.
        region{is_owned ? must(domain.unsafe_allocate_exposed(sparse, RemoteAccess::read_write))
                        : must(domain.unsafe_register_exposed(bytes.bytes(),
                                                              RemoteAccess::read_write))} {}

  Untouched bytes;
  MemoryRegion region;  // ends before its bytes
};

/// The numbers are in their places, and nothing where an offset of 32 bits would have put them.
int be_written(Wire const& wire, bool is_owned) {
  auto end = one_end(wire);
  Sparse memory{end.domain, is_owned};
  if (!wire.put(must(memory.region.remote()).encode()) || !wire.hear()) return 1;
  for (auto const place : places)
    if (number_in(memory.region, place) != value_at(place)) return 2;
  for (auto const place : places)
    if (place > 4 * gib && number_in(memory.region, place - 4 * gib) != 0 && place != sparse - 8)
      return 3;
  return wire.say() && wire.hear() ? 0 : 4;
}

}  // namespace

TEST_CASE("the longest message arrives whole", "[two_process]") {
  PeerProcess peer{receive_long};
  auto end = one_end(peer.wire());
  auto const length = message_length(end.context);
  Untouched const bytes{length};
  auto memory = must(end.domain.register_memory(bytes.bytes()));
  for_each_mark(length, [&](std::size_t at) { write_number(memory, at); });
  REQUIRE(peer.wire().hear());

  must(end.channel.send(memory.gather(), within(60s)));

  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("a peer reaches memory of any pages", "[two_process]") {
  auto const pages = GENERATE(Pages::transparent, Pages::huge_2m, Pages::huge_1g);
  constexpr std::size_t length = 3 * mib;
  {
    auto const context = open_test_device();
    auto const domain = must(context.allocate_protection_domain());
    auto const possible = domain.allocate(length, {.pages = pages});
    if (!possible) return skip(context, ("cannot: " + possible.error().message()).c_str());
  }
  PeerProcess peer{[&](Wire const& wire) {
    auto end = one_end(wire);
    // SAFETY: looked at only when the other side has said that it is done.
    auto memory = must(
        end.domain.unsafe_allocate_exposed(length, RemoteAccess::read_write, {.pages = pages}));
    if (!wire.put(must(memory.remote()).encode()) || !wire.hear()) return 1;
    return text_at(memory, length - 4, 4) == "huge" && wire.say() && wire.hear() ? 0 : 2;
  }};
  auto end = one_end(peer.wire());
  auto memory = must(end.domain.allocate(64));
  put(memory, 0, "huge");
  std::array<std::byte, RemoteRegion::encoded_size> told{};
  REQUIRE(peer.wire().take(told));
  auto const remote = must(RemoteRegion::decode(told));

  must(end.channel.write({memory.gather(0, 4), remote.slice(length - 4, 4)}));
  REQUIRE(peer.wire().say());
  REQUIRE(peer.wire().hear());
  must(end.channel.read({memory.scatter(8, 4), remote.slice(length - 4, 4)}));

  CHECK(text_at(memory, 8, 4) == "huge");
  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("bytes beyond 4 GiB of a region are written and read where they lie", "[two_process]") {
  if (auto const context = open_test_device(); context.kind() != DeviceKind::soft)
    return skip(context, "pins every page that it registers, and 6 GiB are too many");
  bool const is_owned = GENERATE(true, false);
  CAPTURE(is_owned);
  PeerProcess peer{[&](Wire const& wire) { return be_written(wire, is_owned); }};
  auto end = one_end(peer.wire());
  Sparse own{end.domain, is_owned};
  auto& memory = own.region;
  std::array<std::byte, RemoteRegion::encoded_size> told{};
  REQUIRE(peer.wire().take(told));
  auto const remote = must(RemoteRegion::decode(told));
  REQUIRE(remote.size() == sparse);

  for (auto const place : places) {
    write_number(memory, place);
    must(end.channel.write({memory.gather(place, 8), remote.slice(place, 8)}));
  }
  REQUIRE(peer.wire().say());
  REQUIRE(peer.wire().hear());
  for (auto const place : places) {
    must(end.channel.read({memory.scatter(3 * gib, 8), remote.slice(place, 8)}));
    CHECK(number_in(memory, 3 * gib) == value_at(place));
  }

  REQUIRE(peer.wire().say());
  CHECK(peer.exit_status() == 0);
}

TEST_CASE("an element beyond what a message carries is refused, and goes in chunks",
          "[two_process]") {
  auto ends = two_ends();
  auto const most = std::size_t{ends.context.port().message_bytes_max};
  if (ends.context.kind() != DeviceKind::soft)
    return skip(ends.context, "pins every page that it registers, and 6 GiB are too many");
  auto memory = must(ends.domain.allocate(sparse));

  for (auto const length : {most + 1, 4 * gib, 4 * gib + 8, sparse}) {
    auto const error = error_of(ends.a.send(memory.gather(0, length)));
    INFO(error.message());
    CHECK(error == Errc::invalid_argument);
    CHECK(error.message().find(std::to_string(length) + " bytes, the port carries at most " +
                               std::to_string(most)) != std::string::npos);
    CHECK(error.message().find("chunks()") != std::string::npos);
  }
  CHECK(error_of(ends.a.send({memory.gather(0, gib), memory.gather(gib, gib),
                              memory.gather(2 * gib, gib), memory.gather(3 * gib, gib)})) ==
        Errc::invalid_argument);
  CHECK(error_of(ends.a.send(memory.gather(sparse - 8, 9))) == Errc::invalid_argument);
  CHECK(memory.loans() == 0);

  put(memory, 5 * gib, "beyond");
  std::size_t pieces = 0;
  PollingScope scope{ends.b};
  for (auto const piece : memory.chunks(most)) {
    if (++pieces != 6) continue;
    auto received = must(scope.post_receive(memory.scatter(4 * gib + 1, 6)));
    must(ends.a.send(must(piece.split_at(6)).head.gather()));
    CHECK(must(received.wait(within(20s))).bytes == 6);
  }
  must(scope.finish());
  CHECK(pieces == sparse / most);
  CHECK(text_at(memory, 4 * gib + 1, 6) == "beyond");
}
