// SPDX-License-Identifier: MIT OR Apache-2.0
// Pairs of connected messages in one io_context, of each kind of transport.
#pragma once

#include <lend/asio/messages.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "asio/streams.hpp"

namespace lend::test {

struct MessagesPair {
  asio::messages a, b;
};

template <class Transports>
MessagesPair messages_pair(net::io_context& io, Transports transports) {
  auto const made = [&](auto& transport) {
    return asio::messages{io.get_executor(), AnyTransport{std::move(transport)}};
  };
  return {made(transports.first), made(transports.second)};
}
/// Of few messages at a time.
inline MessagesPair messages_pair(net::io_context& io, TransportKind kind) {
  TransportOptions options;
  options.window = 8;
  options.message_bytes_max = 4'096;
  if (kind == TransportKind::memory) return messages_pair(io, must(memory_transports(options)));
  options.keep_alive = 20ms;
  options.wait = Wait::event;  // as what is connected in an io_context
  if (kind == TransportKind::credit_ring && open_test_device().capabilities().immediates)
    return messages_pair(io, ends<CreditRing>(options, options));
  if (kind == TransportKind::read_ring) return messages_pair(io, ends<ReadRing>(options, options));
  return messages_pair(io, ends<SendReceive>(options, options));
}
/// By turns.
inline MessagesPair any_messages_pair(net::io_context& io) {
  return messages_pair(io, GENERATE(TransportKind::memory, TransportKind::send_receive,
                                    TransportKind::credit_ring, TransportKind::read_ring));
}

inline std::string text_of(Received const& received) {
  auto const bytes = received.bytes();
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

/// What the last operation by a callback came to.
struct MessageEnding {
  error_code code{};
  Received message{};
  int calls = 0;
  auto note() {
    return [this](error_code what, Received received) {
      code = what;
      message = std::move(received);
      ++calls;
    };
  }
  auto note_sent() {
    return [this](error_code what) {
      code = what;
      ++calls;
    };
  }
};

/// Sends "0", "1", … until one waits, to which `last` comes. How many were sent.
inline int send_until_one_waits(net::io_context& io, asio::messages& messages,
                                MessageEnding& last) {
  messages.spin_for(0us);
  for (int sent = 0;; ++sent) {
    int const before = last.calls;
    auto const text = std::to_string(sent);
    messages.async_send(net::buffer(text), last.note_sent());
    io.restart();
    io.poll();
    if (last.calls == before) return sent;
    REQUIRE_FALSE(last.code);
    REQUIRE(sent < 1'000);
  }
}

/// Runs until the next message has come.
inline std::string next_text(net::io_context& io, asio::messages& messages) {
  MessageEnding end;
  messages.async_receive(end.note());
  run_until(io, [&] { return end.calls > 0; });
  REQUIRE_FALSE(end.code);
  return text_of(end.message);
}

}  // namespace lend::test
