// SPDX-License-Identifier: MIT OR Apache-2.0
// One poll loop over the listening socket and a bounded set of half-done strangers.
#include <base/giving_up.hpp>
#include <network/reception.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend {

using Clock = Deadline::Clock;

Result<Reception::Admitted> Reception::admit(Terms const& terms, Deadline deadline) {
  begin(Clock::now());
  struct Ending {
    Reception& reception;
    ~Ending() { reception.end(); }
  } const ending{*this};
  for (;;) {
    expire(Clock::now());
    choose(terms, Clock::now());
    if (auto served = wait_and_serve(terms, deadline); !served) {
      end_offer(VerdictCode::failed, "came when the listener failed: " + served.error().message());
      return served.error();
    }
    for (auto& stranger : strangers_) {
      if (stranger.stage != Stage::agreed) continue;
      Admitted admitted{std::move(stranger.socket), stranger.greeting.endpoint};
      stranger.stage = Stage::left;
      forget_those_who_left();
      return admitted;
    }
    forget_those_who_left();
    if (!deadline.has_passed()) continue;
    end_offer(VerdictCode::too_slow, "did not agree before the deadline");
    return too_late(deadline);
  }
}

/// Nobody was served since the last call; that is not the strangers' fault.
void Reception::begin(Clock::time_point now) noexcept {
  last_wrong_.clear();
  room_ = limits_.strangers_max;
  for (auto& stranger : strangers_) stranger.since += now - ended_;
}

/// However the call ends, for want of memory too: nobody keeps its offer, or a frame of which that
/// kept us from hearing.
void Reception::end() noexcept {
  std::erase_if(strangers_, [](Stranger const& one) {
    return one.stage == Stage::chosen || one.stage == Stage::agreed || one.stage == Stage::left ||
           one.reader.complete();
  });
  ended_ = Clock::now();
}

void Reception::expire(Clock::time_point now) {
  for (auto& stranger : strangers_) {
    if (now - stranger.since < limits_.greeting_longest) continue;
    if (stranger.stage == Stage::greeting)
      turn_away(stranger, VerdictCode::too_slow, "did not finish its greeting in time");
    if (stranger.stage == Stage::chosen)
      turn_away(stranger, VerdictCode::too_slow, "did not agree in time");
  }
  forget_those_who_left();
}

void Reception::choose(Terms const& terms, Clock::time_point now) {
  auto const is_chosen = [](Stranger const& one) { return one.stage == Stage::chosen; };
  if (std::any_of(strangers_.begin(), strangers_.end(), is_chosen)) return;
  for (auto& stranger : strangers_) {
    if (stranger.stage != Stage::waiting) continue;
    auto const frame = encode(terms.ours);
    // Its socket's buffer is empty: the frame fits, or this is no peer.
    auto const sent = ::send(stranger.socket.fd.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(frame.size())) {
      turn_away(stranger, VerdictCode::failed, "hung up before it was greeted");
      continue;
    }
    stranger.stage = Stage::chosen;
    stranger.since = now;
    break;
  }
  forget_those_who_left();
}

void Reception::end_offer(VerdictCode code, std::string const& clause) {
  for (auto& stranger : strangers_)
    if (stranger.stage == Stage::chosen || stranger.stage == Stage::agreed)
      turn_away(stranger, code, clause);
  forget_those_who_left();
}

/// Whether a newcomer has a place, be it that of a stranger that had its chance.
bool Reception::has_room(Clock::time_point now) const noexcept {
  if (strangers_.size() < room_) return true;
  return std::any_of(strangers_.begin(), strangers_.end(), [&](Stranger const& one) {
    return one.stage == Stage::greeting && now - one.since >= limits_.greeting_shortest;
  });
}

/// When to look again although nothing was heard.
Deadline Reception::next_event() const noexcept {
  bool const full = strangers_.size() >= room_;
  auto const now = Clock::now();
  auto soonest = Deadline::never();
  for (auto const& stranger : strangers_) {
    if (stranger.stage == Stage::waiting) continue;
    soonest = sooner(soonest, until(stranger.since + limits_.greeting_longest));
    auto const replaceable = stranger.since + limits_.greeting_shortest;
    if (full && stranger.stage == Stage::greeting && replaceable > now)
      soonest = sooner(soonest, until(replaceable));
  }
  return soonest;
}

Result<void> Reception::wait_and_serve(Terms const& terms, Deadline deadline) {
  polled_.clear();
  for (auto const& stranger : strangers_) {
    // One that waits its turn is not read, only watched for leaving.
    bool const listen_to = stranger.stage != Stage::waiting;
    auto const events = static_cast<short>(listen_to ? POLLIN | POLLRDHUP : POLLRDHUP);
    polled_.push_back({stranger.socket.fd.get(), events, 0});
  }
  bool const room = has_room(Clock::now());
  polled_.push_back({room ? listening_.fd.get() : -1, POLLIN, 0});

  LEND_TRY(ready, wait_for(polled_, sooner(deadline, next_event())));
  if (!ready) return success();
  bool const newcomers = polled_.back().revents != 0;  // or an error, which accept(2) tells
  for (std::size_t at = 0; at + 1 < polled_.size(); ++at)
    if (polled_[at].revents != 0) serve(strangers_[at], terms);
  forget_those_who_left();
  if (!newcomers) return success();
  return receive_newcomers();
}

/// Reads at most one frame, so that endless senders take turns with everybody else.
void Reception::serve(Stranger& stranger, Terms const& terms) {
  if (stranger.stage == Stage::waiting)
    return turn_away(stranger, VerdictCode::failed, "hung up while it waited for its turn");
  while (!stranger.reader.complete()) {
    auto const room = stranger.reader.room();
    auto const got = ::recv(stranger.socket.fd.get(), room.data(), room.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) return turn_away(stranger, VerdictCode::failed, "hung up during the exchange");
    auto const took = stranger.reader.took(static_cast<std::size_t>(got));
    if (!took) return turn_away(stranger, VerdictCode::foreign, took.error().message());
  }
  heard(stranger, terms);
  stranger.reader.restart();
}

/// A whole frame has come.
void Reception::heard(Stranger& stranger, Terms const& terms) {
  auto const& reader = stranger.reader;
  if (stranger.stage == Stage::greeting) {
    if (reader.kind() != FrameKind::greeting)
      return turn_away(stranger, VerdictCode::foreign, "gave a verdict before any greeting");
    auto greeting = reader.greeting();
    if (!greeting) return turn_away(stranger, VerdictCode::foreign, greeting.error().message());
    auto verdict = judge(greeting.value(), terms);
    if (verdict.code != VerdictCode::agreed)
      return turn_away(stranger, verdict.code, std::move(verdict.text));
    stranger.greeting = std::move(greeting).value();
    stranger.greeting.secret.clear();
    stranger.stage = Stage::waiting;
    return;
  }
  if (reader.kind() != FrameKind::verdict)
    return turn_away(stranger, VerdictCode::foreign, "sent its greeting twice");
  auto const verdict = reader.verdict();
  if (!verdict) return turn_away(stranger, VerdictCode::foreign, verdict.error().message());
  if (verdict.value().code != VerdictCode::agreed)
    return turn_away(stranger, VerdictCode::failed,
                     "turned us down: this side " + verdict.value().text);
  stranger.stage = Stage::agreed;
}

Result<void> Reception::receive_newcomers() {
  auto const now = Clock::now();
  while (has_room(now)) {
    auto taken = take_connection(listening_.fd.get());
    if (!taken) {
      bool const is_short = taken.error() == Errc::exhausted;
      if (!is_short || std::none_of(strangers_.begin(), strangers_.end(), is_greeting))
        return taken.error();
      // Also where nobody else waits: accept(2) looks for a descriptor first. Newcomers take the
      // places that there are, as silent strangers have had their chance.
      room_ = strangers_.size();
      make_room(now);
      return success();
    }
    if (!taken.value().fd) return success();
    if (strangers_.size() >= room_) make_room(now);
    room_ = limits_.strangers_max;  // until descriptors are short again
    strangers_.push_back(Stranger{.socket = std::move(taken).value(), .since = now});
  }
  return success();
}

void Reception::make_room(Clock::time_point now) {
  for (auto& stranger : strangers_) {
    if (stranger.stage != Stage::greeting) continue;
    if (now - stranger.since < limits_.greeting_shortest) continue;
    turn_away(stranger, VerdictCode::too_slow, "did not finish its greeting while others waited");
    break;
  }
  forget_those_who_left();
}

void Reception::turn_away(Stranger& stranger, VerdictCode code, std::string clause) {
  last_wrong_ = stranger.socket.address + " " + clause;
  part_with(stranger.socket, Verdict{code, std::move(clause)});
  stranger.socket.fd = UniqueFd{};
  stranger.stage = Stage::left;
}

void Reception::forget_those_who_left() {
  std::erase_if(strangers_, [](Stranger const& one) { return one.stage == Stage::left; });
}

Error Reception::too_late(Deadline deadline) const {
  std::string const last = last_wrong_.empty() ? "" : "; the last stranger, " + last_wrong_;
  return gave_up(deadline, "no peer came to " + address(),
                 "; start the connecting side or wait longer" + last);
}

}  // namespace lend
