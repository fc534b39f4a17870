// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a stream gives the bytes that were written, whatever the parts, and ends only where the
// peer finished. Method: two ends in memory, the device's part played at once.
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/memory.hpp>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "support/seed.hpp"
#include "transport/conformance.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

std::pair<ByteStream, ByteStream> streams(std::uint32_t message = 10, MemoryFaults faults = {}) {
  auto [a, b] = must(memory_transports({.window = 4, .message_bytes_max = message}, faults));
  return {ByteStream{AnyTransport{std::move(a)}}, ByteStream{AnyTransport{std::move(b)}}};
}

std::size_t try_write(ByteStream& stream, std::string_view text) {
  auto const piece = bytes_of(text);
  return must(stream.try_write({&piece, 1}));
}

std::string try_read(ByteStream& stream, std::size_t most) {
  std::string text(most, '\0');
  auto const taken = must(stream.try_read(std::as_writable_bytes(std::span{text})));
  text.resize(taken.bytes);
  return text;
}

/// An end whose peer sends a message before each receive, until it has sent all, and receives all
/// at each poll, if it reads.
class Flooded {
 public:
  struct Peer {
    MemoryTransport end;
    std::string message;
    int left = 100'000;
    bool reads = false;
  };
  Flooded(MemoryTransport own, std::shared_ptr<Peer> peer)
      : own_{std::move(own)}, peer_{std::move(peer)} {}

  Result<Received> try_receive() noexcept {
    if (peer_->left > 0) {
      auto const piece = bytes_of(peer_->message);
      LEND_TRY(is_sent, try_send(peer_->end, {&piece, 1}));
      peer_->left -= is_sent;
    }
    return own_.try_receive();
  }
  Result<Draft> try_draft(std::size_t least, std::size_t most) noexcept {
    return own_.try_draft(least, most);
  }
  Result<void> finish_sending() noexcept { return own_.finish_sending(); }
  void disconnect() noexcept { own_.disconnect(); }
  Result<bool> poll() noexcept {
    while (peer_->reads) {
      LEND_TRY(received, peer_->end.try_receive());
      if (!received) break;
    }
    return own_.poll();
  }
  Result<bool> arm() noexcept { return own_.arm(); }
  Result<int> descriptor() const noexcept { return own_.descriptor(); }
  Deadline look_again() const noexcept { return own_.look_again(); }
  std::uint32_t sends_in_flight() const noexcept { return own_.sends_in_flight(); }
  TransportLimits const& limits() const noexcept { return own_.limits(); }

 private:
  MemoryTransport own_;
  std::shared_ptr<Peer> peer_;
};

std::pair<AnyTransport, std::shared_ptr<Flooded::Peer>> flooded(std::string message) {
  auto [a, b] = must(memory_transports({.window = 4, .message_bytes_max = 10}));
  auto peer = std::make_shared<Flooded::Peer>(Flooded::Peer{std::move(b), std::move(message)});
  return {AnyTransport{Flooded{std::move(a), peer}}, peer};
}

}  // namespace

static_assert(!std::is_copy_constructible_v<ByteStream>);

TEST_CASE("a write goes as far as there is room, a read as far as there are bytes", "[stream]") {
  auto [a, b] = streams();
  std::string const text = "0123456789abcdefghijABCDEFGHIJklmnopqrstuvwxyz";

  CHECK(try_write(a, text) == 40);
  CHECK(try_write(a, "x") == 0);
  CHECK(try_read(b, 3) == "012");
  CHECK(try_read(b, 0).empty());
  CHECK(try_read(b, 20) == "3456789abcdefghijABC");
  CHECK(try_write(a, text.substr(40)) == 6);
  CHECK(try_read(b, 100) == text.substr(23));
  CHECK(try_read(b, 100).empty());
  CHECK(try_write(a, "") == 0);
}

TEST_CASE("pieces are written one after the other, however they are cut", "[stream]") {
  auto [a, b] = streams(4);
  std::array const pieces{bytes_of(""),      bytes_of("abc"), bytes_of(""),
                          bytes_of("defgh"), bytes_of("i"),   bytes_of("")};
  CHECK(must(a.try_write(pieces)) == 9);
  CHECK(try_read(b, 20) == "abcdefghi");
}

TEST_CASE("bytes are read in place, and stay until they are consumed", "[stream]") {
  auto [a, b] = streams();
  CHECK(must(b.try_peek()).empty());
  CHECK(try_write(a, "hello, peer") == 11);
  CHECK(must(b.try_peek()).size() == 10);
  b.consume(7);
  auto const rest = must(b.try_peek());
  CHECK(std::string(reinterpret_cast<char const*>(rest.data()), rest.size()) == "pee");
  b.consume(100);  // at most what was shown
  CHECK(try_read(b, 10) == "r");
  b.consume(1);
  must(a.finish_writing());
  CHECK(must(b.try_peek()).empty());
  CHECK(b.is_at_end());
}

TEST_CASE("a draft is written in place and read as other bytes", "[stream]") {
  auto [a, b] = streams();
  CHECK(try_write(a, "one") == 3);
  auto draft = must(a.try_draft(1, 100));
  CHECK(draft.bytes().size() == 10);
  std::memcpy(draft.bytes().data(), "two", 3);
  must(std::move(draft).send(3));
  CHECK(try_read(b, 10) == "onetwo");
}

TEST_CASE("an end is read after all bytes, and each way by itself", "[stream]") {
  auto [a, b] = streams();
  CHECK(try_write(a, "last words") == 10);
  must(a.finish_writing());
  auto const piece = bytes_of("x");
  CHECK(error_of(a.try_write({&piece, 1})) == Errc::finished);
  std::array<std::byte, 4> room;
  for (int i = 0; i < 3; ++i) CHECK_FALSE(must(b.try_read(room)).at_end);
  for (int i = 0; i < 3; ++i) CHECK(must(b.read_some(room, patience())).at_end);

  CHECK(try_write(b, "answer") == 6);
  CHECK(try_read(a, 10) == "answer");
  CHECK(error_of(a.finish(within(1ms))) == Errc::timed_out);
  must(b.finish_writing());
  must(a.finish(patience()));
  must(b.finish(patience()));
}

TEST_CASE("a stream that breaks is no end: what came before is read first", "[stream]") {
  auto [a, b] = streams();
  {
    ByteStream gone = std::move(a);
    CHECK(try_write(gone, "half a file") == 11);
  }
  CHECK(try_read(b, 100) == "half a file");
  std::array<std::byte, 4> room;
  CHECK(error_of(b.read_some(room, patience())) == Errc::peer_lost);
  CHECK_FALSE(b.is_at_end());
  CHECK(error_of(b.write(room, patience())) == Errc::peer_lost);
}

TEST_CASE("a wait of a stream that is given up has moved no byte, or says how many", "[stream]") {
  auto [a, b] = streams();
  std::array<std::byte, 4> room;
  CHECK(error_of(b.read_some(room, within(1ms))) == Errc::timed_out);
  std::string const text(100, 'x');
  CHECK(must(a.write(bytes_of(text), within(1ms))) == 40);
  CHECK(error_of(a.write(bytes_of(text), within(1ms))) == Errc::timed_out);
  CHECK(try_read(b, 100).size() == 40);
  CHECK(must(a.write(bytes_of("more"), patience())) == 4);
  CHECK(try_read(b, 100) == "more");
  CHECK(must(b.read_some({}, patience())).bytes == 0);
}

TEST_CASE("a peer that sends without end keeps finish() from no deadline", "[stream]") {
  auto [end, peer] = flooded("more");
  CHECK(error_of(finish(end, within(0ms))) == Errc::timed_out);
  Cancellation stopping;
  stopping.cancel();
  CHECK(error_of(finish(end, Deadline::never().unless(stopping))) == Errc::cancelled);
  CHECK(peer->left > 90'000);
  peer->left = 0;
  must(peer->end.finish_sending());
  must(finish(end, patience()));
}

TEST_CASE("a peer that sends empty messages without end keeps a read from no deadline",
          "[stream]") {
  auto [end, peer] = flooded("");
  ByteStream stream{std::move(end)};
  CHECK(try_read(stream, 10).empty());
  std::array<std::byte, 4> room;
  CHECK(error_of(stream.read_some(room, within(0ms))) == Errc::timed_out);
  CHECK(peer->left > 90'000);
  peer->message = "full";
  CHECK(must(stream.read_some(room, patience())).bytes == 4);
}

TEST_CASE("a peer that makes room without end keeps a write from no deadline", "[stream]") {
  auto [end, peer] = flooded("");
  peer->left = 0;
  peer->reads = true;
  ByteStream stream{std::move(end)};
  std::string const text(10'000, 'x');
  auto const written = must(stream.write(bytes_of(text), within(0ms)));
  CHECK(written >= 40);
  CHECK(written < 200);
  CHECK(must(stream.write(bytes_of(text), patience())) == text.size());
}

TEST_CASE("two threads stream seeded bytes both ways in parts of every length", "[stream]") {
  for (auto const seed : seeds(2)) {
    INFO("LEND_TEST_SEED=" << seed);
    auto [a, b] = streams(64, {.late_polls = static_cast<std::uint32_t>(seed % 2)});
    constexpr std::size_t total = 30'000;
    // No assertion in here: two threads run it.
    auto const stream_both_ways = [seed](ByteStream& stream) {
      std::mt19937 own{static_cast<std::uint32_t>(seed)}, peers = own, lengths = own;
      std::size_t sent = 0, got = 0;
      std::array<std::byte, 300> out, in;
      for (bool at_end = false; !at_end || sent < total;) {
        if (sent < total) {
          auto ahead = own;
          auto const length = std::min<std::size_t>(lengths() % out.size() + 1, total - sent);
          for (std::size_t i = 0; i < length; ++i) out[i] = std::byte(ahead());
          std::span<std::byte const> const part = std::span{out}.first(length);
          auto const written = stream.try_write({&part, 1});
          if (!written) return false;
          own.discard(written.value());
          sent += written.value();
          if (sent == total && !stream.finish_writing()) return false;
        }
        auto const taken = stream.try_read(std::span{in}.first(lengths() % in.size() + 1));
        if (!taken) return false;
        at_end = at_end || taken.value().at_end;
        for (std::size_t i = 0; i < taken.value().bytes; ++i)
          if (in[i] != std::byte(peers())) return false;
        got += taken.value().bytes;
        if (taken.value().bytes == 0 && !at_end && !stream.wait_for_change(patience()))
          return false;
      }
      return got == total && stream.finish(patience()).has_value();
    };
    bool is_right = false;
    std::thread other{[&, &there = b] { is_right = stream_both_ways(there); }};
    CHECK(stream_both_ways(a));
    other.join();
    CHECK(is_right);
  }
}
