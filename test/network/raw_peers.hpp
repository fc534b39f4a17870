// SPDX-License-Identifier: MIT OR Apache-2.0
// Both ends of an exchange for tests, on loopback or in a socket pair, without any device.
// One thread at a time.
#pragma once

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <network/exchange/acceptor.hpp>
#include <network/exchange/exchange.hpp>

#include <algorithm>
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

/// An endpoint that could be one, with this number of a queue pair.
inline Endpoint endpoint_of(std::uint32_t number) {
  Endpoint endpoint;
  endpoint.queue_pair_number = QueuePairNumber::truncated(number);
  endpoint.mtu_bytes = 1024;
  endpoint.send_depth = endpoint.receive_depth = 16;
  return endpoint;
}

inline network::Greeting greeting_with(std::uint32_t endpoint) {
  return {endpoint_of(endpoint)};
}

/// A secret, and another one.
inline constexpr char const* right_secret = "open sesame, for those inside";
inline constexpr char const* wrong_secret = "open barley, for those outside";

/// Whether this lend was built with secrets.
inline bool has_secrets() {
  return network::Secret::of(right_secret).has_value();
}

inline Bytes bytes_of(network::Frame const& frame) {
  return {frame.bytes().begin(), frame.bytes().end()};
}
inline Bytes joined(Bytes first, Bytes const& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
inline Bytes bytes_of(std::string_view text) {
  auto const bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}
/// All that a peer without a secret says before it agrees, or before its status: hello and
/// greeting.
inline Bytes introduction(network::Greeting const& greeting) {
  return joined(bytes_of(encode(network::Hello{.nonce = {std::byte{7}}})),
                bytes_of(encode(greeting)));
}
inline constexpr std::size_t introduction_bytes = network::hello_bytes + network::greeting_bytes;
inline Bytes good_greeting(std::uint32_t endpoint = 2) {
  return introduction(greeting_with(endpoint));
}
/// The hello of a peer that has a secret. Its key is the base point, of a private key of 1.
inline Bytes secret_hello(network::PublicKey const& key = {std::byte{9}}) {
  return bytes_of(encode(network::Hello{.nonce = {std::byte{7}}, .key = key, .has_secret = true}));
}
/// A greeting whose endpoint was damaged on its way.
inline Bytes damaged_greeting() {
  auto bytes = good_greeting();
  bytes.back() ^= std::byte{1};
  return bytes;
}
inline Bytes agreed() {
  return bytes_of(encode(network::Status{network::StatusCode::agreed, {}}));
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
inline std::pair<network::Socket, network::Socket> socket_pair() {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
  return {network::Socket{base::UniqueFd{ends[0]}, "one end"},
          network::Socket{base::UniqueFd{ends[1]}, "the other end"}};
}

/// Sends without asking what became of it.
inline void say(network::Socket const& socket, std::span<std::byte const> bytes) {
  static_cast<void>(::send(socket.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

/// Everything up to the end of the stream, or up to `count` bytes.
inline Bytes hear(network::Socket const& socket, std::size_t count = SIZE_MAX) {
  Bytes heard;
  auto const deadline = within(patience);
  while (heard.size() < count) {
    pollfd waiting{socket.fd.get(), POLLIN, 0};
    if (!must(network::wait_for({&waiting, 1}, deadline))) FAIL("the other side said nothing more");
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
inline network::FrameReader frame_in(std::span<std::byte const> bytes) {
  network::FrameReader reader;
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

/// The greeting that follows the hello at the head of `bytes`.
inline network::Greeting greeting_in(std::span<std::byte const> bytes) {
  return must(frame_in(bytes.subspan(network::hello_bytes)).greeting());
}

inline network::Socket loopback_listener(std::string_view address = "127.0.0.1:0") {
  return must(
      network::open_listening(must(network::resolve(must(network::parse_address(address))))));
}

inline network::Socket dial(std::string const& address) {
  return must(network::reach(address, within(patience)));
}

/// Takes the next connection and tells it what a listener says that gives its place to another.
inline void send_away(network::Socket const& listening) {
  pollfd waiting{listening.fd.get(), POLLIN, 0};
  REQUIRE(must(network::wait_for({&waiting, 1}, within(patience))));
  auto const client = must(network::take_connection(listening.fd.get()));
  network::send_rejection(client, {network::StatusCode::too_slow, "was slow"}, nullptr);
}

/// A name that is known, and always has these addresses.
inline network::LookUp always(std::vector<network::SocketAddress> candidates) {
  return [candidates = std::move(candidates)]() -> Result<std::vector<network::SocketAddress>> {
    return candidates;
  };
}

/// A good peer in a thread of its own: it connects and agrees.
class GoodPeer {
 public:
  explicit GoodPeer(std::string address, std::uint32_t endpoint = 2)
      : thread_{[this, address = std::move(address), endpoint] {
          auto const theirs =
              network::greet_listener(dial(address), greeting_with(endpoint), within(patience));
          if (theirs) greeted_ = theirs.value().greeting.endpoint;
          if (!theirs) wrong_ = theirs.error().message();
        }} {}
  GoodPeer(GoodPeer const&) = delete;
  GoodPeer& operator=(GoodPeer const&) = delete;
  ~GoodPeer() {
    if (thread_.joinable()) thread_.join();
  }

  /// What the listener said its endpoint was; zeros with a reason in wrong() if it did not.
  Endpoint const& greeted() {
    if (thread_.joinable()) thread_.join();
    return greeted_;
  }
  std::string const& wrong() const { return wrong_; }

 private:
  Endpoint greeted_{};
  std::string wrong_;
  std::thread thread_;
};

}  // namespace lend::test
