// SPDX-License-Identifier: MIT OR Apache-2.0
#include "server.hpp"

#include <lend/transport/waiting.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <utility>

#include "wire.hpp"

using namespace std::chrono_literals;
using Clock = lend::Deadline::Clock;

/// A request stays where it came until it is answered.
struct Work {
  lend::Received request;
  RequestHeader header;
};
using Held = std::multimap<Clock::time_point, Work>;  // by when it ends

static lend::Result<void> hold(lend::Received request, Held& held) {
  auto const header = request_in(request.bytes());
  if (!header) return lend::Error{lend::Errc::incompatible_peer, "not a request"};
  // Work that takes longer than its caller waits is given up when that one does.
  std::chrono::microseconds const time{std::min(header->work_us, header->left_us)};
  held.emplace(Clock::now() + time, Work{std::move(request), *header});
  return lend::success();
}

/// Written where the device reads it. False: no room now.
static lend::Result<bool> answer(lend::AnyTransport& transport, Work const& work) {
  if (work.header.left_us <= work.header.work_us) return true;  // the caller has given up
  LEND_TRY(draft, transport.try_draft(AnswerHeader::bytes, AnswerHeader::bytes));
  if (!draft) return false;
  auto const content = work.request.bytes().subspan(RequestHeader::bytes);
  encode(AnswerHeader{work.header.id, sum_of(content)}, draft.bytes());
  LEND_TRYV(std::move(draft).send(AnswerHeader::bytes));
  return true;
}

/// Takes what has come, but no more than a server may hold: then its client waits.
static lend::Result<void> take_requests(lend::AnyTransport& transport, Held& held, bool& is_open) {
  while (is_open && held.size() < transport.limits().hold_max) {
    LEND_TRY(request, transport.try_receive());
    if (!request) break;
    is_open = !request.is_end();
    if (is_open) {
      LEND_TRYV(hold(std::move(request), held));
    }
  }
  return lend::success();
}

/// Whether there was any, or its answer had no room.
enum class Answered : std::uint8_t { none_due, some, no_room };
static lend::Result<Answered> answer_due(lend::AnyTransport& transport, Held& held) {
  auto answered = Answered::none_due;
  while (!held.empty() && held.begin()->first <= Clock::now()) {
    LEND_TRY(is_done, answer(transport, held.begin()->second));
    if (!is_done) return Answered::no_room;
    held.erase(held.begin());
    answered = Answered::some;
  }
  return answered;
}

lend::Result<void> serve(lend::AnyTransport transport) {
  Held held;
  for (bool is_open = true;;) {
    LEND_TRYV(take_requests(transport, held, is_open));
    LEND_TRY(answered, answer_due(transport, held));
    if (answered == Answered::some) continue;  // there may be requests to take again
    if (!is_open && held.empty()) return finish(transport, lend::within(10s));
    bool const is_working = answered == Answered::none_due && !held.empty();
    auto const until = is_working ? lend::Deadline{held.begin()->first} : lend::Deadline::never();
    auto changed = wait_for_change(transport, until);
    if (!changed && changed.error() != lend::Errc::timed_out) return changed;
  }
}
