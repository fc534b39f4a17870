// SPDX-License-Identifier: MIT OR Apache-2.0
#include "caller.hpp"

#include <lend/transport/waiting.hpp>

#include <algorithm>

#include "wire.hpp"

lend::Result<bool> Caller::start(Request const& request, Done done) {
  auto const bytes = RequestHeader::bytes + request.bytes;
  LEND_TRY(draft, transport_.try_draft(bytes, bytes));
  if (!draft) return false;

  // Written where the device reads it.
  RequestHeader const header{.id = ++last_id_,
                             .work_us = static_cast<std::uint32_t>(request.work.count()),
                             .left_us = static_cast<std::uint32_t>(request.patience.count())};
  encode(header, draft.bytes());
  std::ranges::fill(draft.bytes().subspan(RequestHeader::bytes), request.content);
  LEND_TRYV(std::move(draft).send(bytes));
  calls_.emplace(header.id, Call{lend::within(request.patience), std::move(done)});
  return true;
}

lend::Result<void> Caller::wait() {
  for (;;) {
    LEND_TRY(has_received, receive());
    bool const has_expired = expire();
    if (has_received || has_expired) return lend::success();
    auto changed = wait_for_change(transport_, soonest());
    // What came before a loss is received before its error.
    if (changed || changed.error() != lend::Errc::timed_out) {
      LEND_TRYV(lend::without_value(receive()));
      return changed;
    }
  }
}

/// Answers in whatever order they come.
lend::Result<bool> Caller::receive() {
  for (bool has_any = false;; has_any = true) {
    LEND_TRY(message, transport_.try_receive());
    if (!message) return has_any;
    if (message.is_end()) return lend::Error{lend::Errc::peer_lost, "the server has finished"};
    auto const answer = answer_in(message.bytes());
    if (!answer) return lend::Error{lend::Errc::incompatible_peer, "not an answer"};
    auto call = calls_.extract(answer->id);
    if (!call.empty()) call.mapped().done(answer->sum);  // else it came too late
  }
}

/// The server may still work on them: its answers find no call.
bool Caller::expire() {
  auto const expired = [](auto const& entry) { return entry.second.deadline.has_passed(); };
  bool has_any = false;
  for (auto at = calls_.begin(); (at = std::find_if(at, calls_.end(), expired)) != calls_.end();) {
    auto const done = std::move(at->second.done);
    at = calls_.erase(at);
    done(lend::Errc::timed_out);
    has_any = true;
  }
  return has_any;
}

lend::Deadline Caller::soonest() const noexcept {
  auto soonest = lend::Deadline::never();
  for (auto const& [id, call] : calls_) soonest = sooner(soonest, call.deadline);
  return soonest;
}
