// SPDX-License-Identifier: MIT OR Apache-2.0
// One poll loop over the listening socket and a bounded set of pending connections.
#include <base/giving_up.hpp>
#include <network/exchange/acceptor.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend::network {

using Clock = Deadline::Clock;

Result<Peer> Acceptor::accept(Greeting const& ours, Deadline deadline) {
  begin(Clock::now());
  struct Ending {
    Acceptor& acceptor;
    ~Ending() { acceptor.end(); }
  } const ending{*this};
  for (;;) {
    expire(Clock::now());
    offer_endpoint(ours, Clock::now());
    if (auto served = wait_and_serve(ours, deadline); !served) {
      withdraw_offer(StatusCode::failed,
                     "came when the listener failed: " + served.error().message());
      return served.error();
    }
    for (auto& one : pending_) {
      if (one.stage != Stage::agreed) continue;
      auto accepted = std::move(one.peer);
      one.stage = Stage::closed;
      erase_closed();
      return accepted;
    }
    erase_closed();
    if (!deadline.has_passed()) continue;
    withdraw_offer(StatusCode::too_slow, "did not agree before the deadline");
    return too_late(deadline);
  }
}

/// No connection was served since the last call: that time does not count against their patience.
void Acceptor::begin(Clock::time_point now) noexcept {
  last_rejected_.clear();
  room_ = limits_.pending_max;
  for (auto& one : pending_) one.since += now - ended_;
}

/// However the call ends, also by std::bad_alloc: no connection keeps our endpoint, or a complete
/// frame that was not looked at.
void Acceptor::end() noexcept {
  std::erase_if(pending_, [](PendingConnection const& one) {
    return one.stage == Stage::offered || one.stage == Stage::agreed ||
           one.stage == Stage::closed || one.reader.complete();
  });
  ended_ = Clock::now();
}

void Acceptor::expire(Clock::time_point now) {
  for (auto& one : pending_) {
    if (now - one.since < limits_.patience) continue;
    if (is_greeting(one)) reject(one, StatusCode::too_slow, "did not finish its greeting in time");
    if (one.stage == Stage::offered) reject(one, StatusCode::too_slow, "did not agree in time");
  }
  erase_closed();
}

void Acceptor::offer_endpoint(Greeting const& ours, Clock::time_point now) {
  auto const is_offered = [](PendingConnection const& one) { return one.stage == Stage::offered; };
  if (std::any_of(pending_.begin(), pending_.end(), is_offered)) return;
  for (auto& one : pending_) {
    if (one.stage != Stage::waiting) continue;
    if (!send_at_once(one, encode(ours, one.peer.sealing.get()))) continue;
    one.stage = Stage::offered;
    one.since = now;
    break;
  }
  erase_closed();
}

void Acceptor::withdraw_offer(StatusCode code, std::string const& clause) {
  for (auto& one : pending_)
    if (one.stage == Stage::offered || one.stage == Stage::agreed) reject(one, code, clause);
  erase_closed();
}

/// Whether a newcomer has a place: a free one, or that of a connection whose patience is over.
bool Acceptor::has_room(Clock::time_point now) const noexcept {
  if (pending_.size() < room_) return true;
  return std::any_of(pending_.begin(), pending_.end(), [&](PendingConnection const& one) {
    return is_greeting(one) && now >= replaceable_from(one);
  });
}

/// When to look again although no socket is ready.
Deadline Acceptor::next_event() const noexcept {
  bool const full = pending_.size() >= room_;
  auto const now = Clock::now();
  auto soonest = Deadline::never();
  for (auto const& one : pending_) {
    if (one.stage == Stage::waiting) continue;
    soonest = sooner(soonest, until(one.since + limits_.patience));
    if (full && is_greeting(one) && replaceable_from(one) > now)
      soonest = sooner(soonest, until(replaceable_from(one)));
  }
  return soonest;
}

Result<void> Acceptor::wait_and_serve(Greeting const& ours, Deadline deadline) {
  polled_.clear();
  for (auto const& one : pending_) {
    // One that waits its turn is not read, only watched for its end.
    bool const is_read = one.stage != Stage::waiting;
    auto const events = static_cast<short>(is_read ? POLLIN | POLLRDHUP : POLLRDHUP);
    polled_.push_back({one.peer.socket.fd.get(), events, 0});
  }
  bool const room = has_room(Clock::now());
  polled_.push_back({room ? listening_.fd.get() : -1, POLLIN, 0});

  LEND_TRY(ready, wait_for(polled_, sooner(deadline, next_event())));
  if (!ready) return success();
  bool const newcomers = polled_.back().revents != 0;  // or an error, which accept(2) tells
  for (std::size_t at = 0; at + 1 < polled_.size(); ++at)
    if (polled_[at].revents != 0) serve(pending_[at], ours);
  erase_closed();
  if (!newcomers) return success();
  return take_newcomers();
}

void Acceptor::serve(PendingConnection& one, Greeting const& ours) {
  if (one.stage == Stage::waiting)
    return reject(one, StatusCode::failed, "closed the connection while it waited for its turn");
  auto const arrived = read_available(one.peer.socket, one.reader);
  if (!arrived) {
    bool const hung_up = arrived.error() == Errc::peer_lost;
    return reject(one, hung_up ? StatusCode::failed : StatusCode::foreign,
                  arrived.error().message());
  }
  if (!arrived.value()) return;
  on_frame(one, ours);
  one.reader.restart();
}

/// A whole frame has arrived.
void Acceptor::on_frame(PendingConnection& one, Greeting const& ours) {
  auto const kind = one.reader.kind();
  if (one.stage == Stage::hello && kind == FrameKind::hello) return on_hello(one);
  if (one.stage == Stage::proof && kind == FrameKind::proof) return on_proof(one);
  if (one.stage == Stage::greeting && kind == FrameKind::greeting) return on_greeting(one, ours);
  if (one.stage == Stage::offered && kind == FrameKind::status) return on_agreement(one);
  if (one.stage == Stage::hello || kind != FrameKind::status)
    return reject(one, StatusCode::foreign, "sent a frame out of turn");
  auto const status = one.reader.status();
  if (!status) return reject(one, StatusCode::foreign, status.error().message());
  reject(one, StatusCode::failed, "rejected this side, which " + status.value().text);
}

void Acceptor::on_hello(PendingConnection& one) {
  auto& peer = one.peer;
  auto status = answer_hello(peer.socket, one.reader, secret_, purpose_, peer.sealing);
  if (status.code != StatusCode::agreed) return reject(one, status.code, std::move(status.text));
  one.stage = peer.sealing ? Stage::proof : Stage::greeting;
}

void Acceptor::on_proof(PendingConnection& one) {
  if (!one.peer.sealing->is_proved_by(one.reader.proof())) {
    auto status = another_secret();
    return reject(one, status.code, std::move(status.text));
  }
  one.reader.open_by(*one.peer.sealing);
  one.stage = Stage::greeting;
}

void Acceptor::on_greeting(PendingConnection& one, Greeting const& ours) {
  auto greeting = one.reader.greeting();
  if (!greeting) return reject(one, StatusCode::foreign, greeting.error().message());
  auto status = validate(greeting.value(), ours);
  if (status.code != StatusCode::agreed) return reject(one, status.code, std::move(status.text));
  one.peer.greeting = std::move(greeting).value();
  one.stage = Stage::waiting;
}

void Acceptor::on_agreement(PendingConnection& one) {
  auto const status = one.reader.status();
  if (!status) return reject(one, StatusCode::foreign, status.error().message());
  if (status.value().code != StatusCode::agreed)
    return reject(one, StatusCode::failed, "rejected this side, which " + status.value().text);
  one.stage = Stage::agreed;
}

bool Acceptor::send_at_once(PendingConnection& one, Frame const& frame) {
  if (sends_at_once(one.peer.socket, frame)) return true;
  reject(one, StatusCode::failed, "closed the connection before the greeting");
  return false;
}

Result<void> Acceptor::take_newcomers() {
  auto const now = Clock::now();
  while (has_room(now)) {
    auto taken = take_connection(listening_.fd.get());
    if (!taken) {
      bool const is_short = taken.error() == Errc::exhausted;
      if (!is_short || std::none_of(pending_.begin(), pending_.end(), is_greeting))
        return taken.error();
      // Also if no client waits: accept(2) first looks for a descriptor. New clients take the
      // present places, because silent connections have had theirs.
      room_ = pending_.size();
      make_room(now);
      return success();
    }
    if (!taken.value().fd) return success();
    if (pending_.size() >= room_) make_room(now);
    room_ = limits_.pending_max;  // until descriptors are short again
    pending_.push_back(
        PendingConnection{.peer = {.socket = std::move(taken).value()}, .since = now});
    auto& newcomer = pending_.back();
    if (auto const user = check_user(newcomer.peer.socket.fd.get()); !user)
      reject(newcomer, StatusCode::foreign, user.error().message());
  }
  return success();
}

void Acceptor::make_room(Clock::time_point now) {
  for (auto& one : pending_) {
    if (!is_greeting(one) || now < replaceable_from(one)) continue;
    reject(one, StatusCode::too_slow, "did not finish its greeting while others waited");
    break;
  }
  erase_closed();
}

void Acceptor::reject(PendingConnection& one, StatusCode code, std::string clause) {
  last_rejected_ = one.peer.socket.address + " " + clause;
  send_rejection(one.peer.socket, Status{code, std::move(clause)}, one.peer.sealing.get());
  one.peer.socket.fd = base::UniqueFd{};
  one.stage = Stage::closed;
}

void Acceptor::erase_closed() {
  std::erase_if(pending_, [](PendingConnection const& one) { return one.stage == Stage::closed; });
}

Error Acceptor::too_late(Deadline deadline) const {
  std::string const last = last_rejected_.empty() ? "" : "; last rejected: " + last_rejected_;
  return base::gave_up(deadline, "no peer connected to " + address(),
                       "; start the connecting side or wait longer" + last);
}

}  // namespace lend::network
