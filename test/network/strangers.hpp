// SPDX-License-Identifier: MIT OR Apache-2.0
// Both ends of an exchange for tests, on loopback or in a socket pair, without any device.
// One thread at a time.
#pragma once

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <network/exchange.hpp>
#include <network/reception.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

/// Long for a good peer on the busiest machine; only a test that fails waits for it.
inline constexpr auto patience = 60s;

using Bytes = std::vector<std::byte>;

/// An endpoint of bytes that all have this value; the one of zeros is not accepted.
inline EndpointBytes endpoint_of(unsigned value) {
  EndpointBytes endpoint;
  endpoint.fill(static_cast<std::byte>(value));
  return endpoint;
}

inline Result<void> refuse_zeros(std::span<std::byte const> bytes) {
  if (bytes.front() == std::byte{0}) return Error{Errc::incompatible_peer, "all zeros"};
  return success();
}

inline Terms terms_with(unsigned endpoint, std::string secret = "open sesame") {
  return {Greeting{std::move(secret), endpoint_of(endpoint)}, &refuse_zeros};
}

template <std::size_t N>
Bytes bytes_of(std::array<std::byte, N> const& frame) {
  return {frame.begin(), frame.end()};
}
inline Bytes bytes_of(std::string_view text) {
  auto const bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}
inline Bytes good_greeting(unsigned endpoint = 2) {
  return bytes_of(encode(terms_with(endpoint).ours));
}
inline Bytes agreed() {
  return bytes_of(encode(Verdict{VerdictCode::agreed, {}}));
}

inline std::size_t open_descriptors() {
  auto* const directory = ::opendir("/proc/self/fd");
  REQUIRE(directory != nullptr);
  std::size_t count = 0;
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

/// A connected pair of stream sockets.
inline std::pair<Socket, Socket> socket_pair() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
  return {Socket{UniqueFd{ends[0]}, "one end"}, Socket{UniqueFd{ends[1]}, "the other end"}};
}

/// Sends without asking what became of it.
inline void say(Socket const& socket, std::span<std::byte const> bytes) {
  static_cast<void>(::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

/// Everything up to the end of the stream, or up to `count` bytes.
inline Bytes hear(Socket const& socket, std::size_t count = SIZE_MAX) {
  Bytes heard;
  auto const deadline = within(patience);
  while (heard.size() < count) {
    pollfd waiting{socket.fd.get(), POLLIN, 0};
    if (!must(wait_for({&waiting, 1}, deadline))) FAIL("the other side said nothing more");
    std::array<std::byte, 512> piece;
    auto const wanted = std::min(piece.size(), count - heard.size());
    auto const got = ::recv(socket.fd.get(), piece.data(), wanted, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) break;
    heard.insert(heard.end(), piece.begin(), piece.begin() + got);
  }
  return heard;
}

/// The frame at the head of `bytes`.
inline FrameReader frame_in(std::span<std::byte const> bytes) {
  FrameReader reader;
  while (!reader.complete()) {
    auto const room = reader.room();
    auto const count = std::min(room.size(), bytes.size());
    if (count == 0) FAIL("no whole frame");
    std::copy_n(bytes.begin(), count, room.begin());
    must(reader.took(count));
    bytes = bytes.subspan(count);
  }
  return reader;
}

inline Socket loopback_listener(std::string_view address = "127.0.0.1:0") {
  return must(open_listening(must(resolve(must(parse_address(address))))));
}

inline Socket dial(std::string const& address) {
  return must(reach(address, must(resolve(must(parse_address(address)))), within(patience)));
}

/// A good peer in a thread of its own: it connects and agrees.
class GoodPeer {
 public:
  explicit GoodPeer(std::string address, unsigned endpoint = 2)
      : thread_{[this, address = std::move(address), endpoint] {
          auto const socket = dial(address);
          auto const theirs = greet_listener(socket, terms_with(endpoint), within(patience));
          if (theirs) greeted_ = theirs.value();
          if (!theirs) wrong_ = theirs.error().message();
        }} {}
  GoodPeer(GoodPeer const&) = delete;
  GoodPeer& operator=(GoodPeer const&) = delete;
  ~GoodPeer() {
    if (thread_.joinable()) thread_.join();
  }

  /// What the listener said its endpoint was; zeros with a reason in wrong() if it did not.
  EndpointBytes const& greeted() {
    if (thread_.joinable()) thread_.join();
    return greeted_;
  }
  std::string const& wrong() const { return wrong_; }

 private:
  EndpointBytes greeted_{};
  std::string wrong_;
  std::thread thread_;
};

}  // namespace lend::test
