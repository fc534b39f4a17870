// SPDX-License-Identifier: MIT OR Apache-2.0
// What every kind of transport must do, as a list of scenarios over two ends in one process.
#pragma once

#include <lend/transport/any.hpp>
#include <lend/transport/waiting.hpp>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/two_ends.hpp"

namespace lend::test {

using Ends = std::pair<AnyTransport, AnyTransport>;
/// Two ends with these options, which name no kind.
using MakeEnds = std::function<Ends(TransportOptions const&)>;

struct Scenario {
  char const* sentence;
  void (*run)(MakeEnds const&);
};
[[nodiscard]] std::vector<Scenario> const& scenarios_of_transports();

/// A wait that ends long before a test does.
inline Deadline patience() {
  return within(std::chrono::seconds{30});
}

inline std::span<std::byte const> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text});
}
inline std::string text_of(Received const& message) {
  return {reinterpret_cast<char const*>(message.bytes().data()), message.bytes().size()};
}

template <IsTransport T>
void send(T& transport, std::string_view text) {
  must(send_message(transport, bytes_of(text), patience()));
}
/// The same, and polls `peer`, which tells what it freed once its earlier words are acknowledged.
template <IsTransport T>
void send_beside(T& peer, T& transport, std::string_view text) {
  auto const piece = bytes_of(text);
  for (auto const deadline = patience(); !must(try_send(transport, {&piece, 1})); must(peer.poll()))
    REQUIRE_FALSE(deadline.has_passed());
}
template <IsTransport T>
std::string receive(T& transport) {
  auto const message = must(receive_message(transport, patience()));
  REQUIRE_FALSE(message.is_end());
  return text_of(message);
}
/// Whether a device may acknowledge what was sent after the peer has it.
inline bool acknowledges_late() {
  return open_test_device().kind() != DeviceKind::soft;
}

/// Polls until nothing is left that came, or was acknowledged, late. One of a set is not armed.
template <IsTransport T>
void settle(T& end) {
  auto const deadline = patience();
  for (;;) {
    while (must(end.poll())) continue;
    auto const is_quiet = end.arm();
    if (!is_quiet && is_quiet.error() == Errc::invalid_argument) return;
    if (must(is_quiet)) return;
    REQUIRE_FALSE(deadline.has_passed());
  }
}
/// Sends numbered messages until there is no room; how many. At first there may be room for fewer
/// than `at_least`, as a pool grants more of what has come.
template <IsTransport T>
int fill(T& transport, int first = 0, int at_least = 0) {
  auto const deadline = patience();
  for (int count = 0;;) {
    auto const text = std::to_string(first + count);
    std::span<std::byte const> const piece = bytes_of(text);
    if (must(try_send(transport, {&piece, 1}))) {
      REQUIRE(++count < 10'000);
      continue;
    }
    if (count >= at_least) return count;
    REQUIRE_FALSE(deadline.has_passed());
    static_cast<void>(must(transport.poll()));
  }
}

}  // namespace lend::test
