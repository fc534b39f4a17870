// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport is used under the name that it was moved away from.
#include <lend/network/meeting.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/memory.hpp>
#include <lend/transport/send_receive.hpp>
#include <lend/transport/waiting.hpp>

#include <array>
#include <future>

#include "cases.hpp"
#include "looped.hpp"
#include "support/sanitizers.hpp"

// A transport is asked for a message under the name it was moved away from.
ABORT_CASE(transport_asked_after_move, "a transport was used after it had been moved from") {
  LEND_TRY(ends, lend::memory_transports());
  lend::MemoryTransport const elsewhere{std::move(ends.first)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  LEND_TRYV(lend::without_value(ends.first.try_receive()));
  return lend::success();
}

// The same behind one type.
ABORT_CASE(any_transport_asked_after_move, "an AnyTransport was used after it had been moved") {
  LEND_TRY(ends, lend::memory_transports());
  lend::AnyTransport any{std::move(ends.first)};
  lend::AnyTransport const elsewhere{std::move(any)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return any.limits().window > 0 ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A stream is read on under the name it was moved away from in the middle of a message.
ABORT_CASE(stream_read_after_move, "an AnyTransport was used after it had been moved") {
  LEND_TRY(ends, lend::memory_transports());
  LEND_TRYV(lend::send_message(ends.second, std::array<std::byte, 3>{}));
  lend::ByteStream stream{lend::AnyTransport{std::move(ends.first)}};
  LEND_TRY(shown, stream.try_peek());
  stream.consume(shown.size() - 1);
  lend::ByteStream const elsewhere{std::move(stream)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  LEND_TRY(after, stream.try_peek());
  return after.empty() ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

// A prepared transport is asked for its terms under the name it was moved away from.
ABORT_CASE(prepared_transport_asked_after_move,
           "a prepared transport was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(prepared, lend::SendReceive::prepare(looped.domain));
  lend::PreparedSendReceive const elsewhere{std::move(prepared)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return prepared.terms() == elsewhere.terms() ? lend::success()
                                               : lend::Result<void>{lend::Errc::denied};
}

// A meeting is asked for its note under the name it was moved away from.
ABORT_CASE(meeting_asked_after_move, "a Meeting was used after it had been moved from") {
  LEND_TRY(looped, Looped::make());
  LEND_TRY(one, lend::channel_builder().protection_domain(looped.domain).build());
  LEND_TRY(other, lend::channel_builder().protection_domain(looped.domain).build());
  LEND_TRY(listener, lend::Listener::open("127.0.0.1:0"));
  auto met = std::async(std::launch::async, [&, &peer = other] {
    return lend::meet(listener.address(), peer.endpoint(), {},
                      lend::within(std::chrono::seconds{30}));
  });
  LEND_TRYV(lend::without_value(
      listener.meet(one.endpoint(), {}, lend::within(std::chrono::seconds{30}))));
  LEND_TRY(meeting, met.get());
  lend::Meeting const elsewhere{std::move(meeting)};
  // NOLINTNEXTLINE(bugprone-use-after-move): that is what is tested.
  return meeting.note().empty() ? lend::success() : lend::Result<void>{lend::Errc::denied};
}

#if LEND_TEST_ASAN  // which alone stops stray accesses
namespace {

/// Both ends of a ring, and a message that one has received from the other.
struct Ring {
  Looped looped;
  lend::CreditRing one;
  lend::CreditRing other;
  lend::Received message;

  static lend::Result<Ring> make() {
    LEND_TRY(looped, Looped::make());
    LEND_TRY(a, lend::CreditRing::prepare(looped.domain));
    LEND_TRY(b, lend::CreditRing::prepare(looped.domain));
    auto const endpoint = a.endpoint();
    auto const terms = a.terms();
    LEND_TRY(one, std::move(a).handshake(b.endpoint(), b.terms()));
    LEND_TRY(other, std::move(b).handshake(endpoint, terms));
    LEND_TRYV(lend::send_message(one, std::array<std::byte, 16>{}));
    LEND_TRY(message, lend::receive_message(other));
    return Ring{std::move(looped), std::move(one), std::move(other), std::move(message)};
  }
};

}  // namespace

// A message of a ring is read after its room was given back: the peer may write there.
ABORT_CASE(stray_read_of_a_free_ring_cell, R"re(use-after-poison(.|\n)*READ of size 1)re") {
  LEND_TRY(ring, Ring::make());
  auto const volatile* const stray = ring.message.bytes().data();
  if (*stray != std::byte{}) return lend::Errc::disagreement;
  ring.message = lend::Received{};
  return *stray == std::byte{} ? lend::success() : lend::Result<void>{lend::Errc::disagreement};
}

// The same by the transport, which copies such a message for the program.
ABORT_CASE(stray_send_of_a_free_ring_cell, R"re(use-after-poison(.|\n)*READ of size 16)re") {
  LEND_TRY(ring, Ring::make());
  auto const stray = ring.message.bytes();
  ring.message = lend::Received{};
  return lend::send_message(ring.other, stray);
}
#endif
