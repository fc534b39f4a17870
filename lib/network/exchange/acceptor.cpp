// SPDX-License-Identifier: MIT OR Apache-2.0
// One loop over those that prove themselves and those that have.
#include <base/giving_up.hpp>
#include <network/exchange/acceptor.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace lend::network {

Result<Acceptor> Acceptor::open(Socket listening, AdmissionLimits limits, Secret secret,
                                Purpose purpose) {
  std::vector<Socket> sockets;
  sockets.push_back(std::move(listening));
  LEND_TRY(admission, Admission::open(std::move(sockets), std::move(secret), purpose, limits));
  LEND_TRY(poller, Poller::create());
  LEND_TRYV(poller.watch(admission->descriptor(), EPOLLIN, admission.get()));
  return Acceptor{std::move(admission), std::move(poller)};
}

Result<Peer> Acceptor::accept(Greeting const& ours, Deadline deadline) {
  begin(Clock::now());
  struct Ending {
    Acceptor& acceptor;
    ~Ending() { acceptor.end(); }
  } const ending{*this};
  for (;;) {
    expire(Clock::now());
    offer_endpoint(ours, Clock::now());
    if (auto served = wait_and_serve(deadline); !served) {
      withdraw_offer(StatusCode::failed,
                     "came when the listener failed: " + served.error().message());
      return served.error();
    }
    for (auto& one : guests_) {
      if (one.stage != Stage::agreed) continue;
      auto accepted = std::move(one.peer);
      poller_.forget(accepted.socket.fd.get());
      one.stage = Stage::closed;
      return accepted;
    }
    if (!deadline.has_passed()) continue;
    withdraw_offer(StatusCode::too_slow, "did not agree before the deadline");
    return too_late(deadline);
  }
}

/// No client was served since the last call: that time does not count against their patience.
void Acceptor::begin(Clock::time_point now) noexcept {
  admission_->forget_rejected();
  admission_->excuse(now - ended_);
}

/// However the call ends, also by std::bad_alloc: no client keeps our endpoint, or a complete frame
/// that was not looked at.
void Acceptor::end() noexcept {
  for (auto& one : guests_) {
    if (one.stage == Stage::waiting || !one.peer.socket.fd) continue;
    poller_.forget(one.peer.socket.fd.get());
    one.stage = Stage::closed;
  }
  erase_closed();
  ended_ = Clock::now();
}

void Acceptor::expire(Clock::time_point now) {
  for (auto& one : guests_)
    if (one.stage == Stage::offered && now - one.since >= admission_->limits().patience)
      reject(one, StatusCode::too_slow, "did not agree in time");
  erase_closed();
}

void Acceptor::offer_endpoint(Greeting const& ours, Clock::time_point now) {
  for (auto& one : guests_) {
    if (one.stage == Stage::offered) break;
    auto const& socket = one.peer.socket;
    auto status = validate(one.peer.greeting, ours);
    if (status.code != StatusCode::agreed) {
      reject(one, status.code, std::move(status.text));
    } else if (!sends_at_once(socket, encode(ours, one.peer.sealing.get()))) {
      reject(one, StatusCode::failed, "closed the connection before the greeting");
    } else {
      poller_.watch_again(socket.fd.get(), event_input, &one);
      one.stage = Stage::offered;
      one.since = now;
      break;
    }
  }
  erase_closed();
}

void Acceptor::withdraw_offer(StatusCode code, std::string const& clause) {
  for (auto& one : guests_)
    if (one.stage == Stage::offered || one.stage == Stage::agreed) reject(one, code, clause);
  erase_closed();
}

/// When to look again although no socket is ready.
Deadline Acceptor::next_event() const noexcept {
  for (auto const& one : guests_)
    if (one.stage == Stage::offered) return until(one.since + admission_->limits().patience);
  return Deadline::never();
}

Result<void> Acceptor::wait_and_serve(Deadline deadline) {
  LEND_TRY(events, poller_.ready(sooner(deadline, next_event())));
  for (auto const& event : events)
    if (event.data.ptr != admission_.get()) serve(*static_cast<Guest*>(event.data.ptr));
  erase_closed();
  return admission_->serve([this](Admission::Client& client) { return admit(client); });
}

/// A client has sent its greeting, or something else.
Status Acceptor::admit(Admission::Client& client) {
  if (client.reader.kind() != FrameKind::greeting)
    return {StatusCode::foreign, "sent a frame out of turn"};
  auto greeting = client.reader.greeting();
  if (!greeting) return {StatusCode::foreign, greeting.error().message()};
  auto& one = guests_.emplace_back();
  // One that waits its turn is not read, only watched for its end.
  auto const watched = poller_.watch(client.socket.fd.get(), EPOLLRDHUP, &one);
  if (!watched) {
    guests_.pop_back();
    return {StatusCode::failed, "came when this failed: " + watched.error().message()};
  }
  one.peer = {std::move(client.socket), std::move(client.sealing), std::move(greeting).value()};
  if (one.peer.sealing) one.reader.open_by(*one.peer.sealing);
  admission_->hold(guests_.size());
  return {StatusCode::agreed, {}};
}

void Acceptor::serve(Guest& one) {
  if (one.stage == Stage::waiting)
    return reject(one, StatusCode::failed, "closed the connection while it waited for its turn");
  auto const arrived = read_available(one.peer.socket, one.reader);
  if (!arrived) {
    bool const hung_up = arrived.error() == Errc::peer_lost;
    return reject(one, hung_up ? StatusCode::failed : StatusCode::foreign,
                  arrived.error().message());
  }
  if (!arrived.value()) return;
  on_agreement(one);
  one.reader.restart();
}

void Acceptor::on_agreement(Guest& one) {
  if (one.reader.kind() != FrameKind::status)
    return reject(one, StatusCode::foreign, "sent a frame out of turn");
  auto const status = one.reader.status();
  if (!status) return reject(one, StatusCode::foreign, status.error().message());
  if (status.value().code != StatusCode::agreed)
    return reject(one, StatusCode::failed, "rejected this side, which " + status.value().text);
  one.stage = Stage::agreed;
}

void Acceptor::reject(Guest& one, StatusCode code, std::string clause) {
  poller_.forget(one.peer.socket.fd.get());
  admission_->reject(one.peer.socket, one.peer.sealing.get(), code, std::move(clause));
  one.stage = Stage::closed;
}

void Acceptor::erase_closed() {
  std::erase_if(guests_, [](Guest const& one) { return one.stage == Stage::closed; });
  admission_->hold(guests_.size());
}

Error Acceptor::too_late(Deadline deadline) const {
  auto const& rejected = admission_->last_rejected();
  std::string const last = rejected.empty() ? "" : "; last rejected: " + rejected;
  return base::gave_up(deadline, "no peer connected to " + address(),
                       "; start the connecting side or wait longer" + last);
}

}  // namespace lend::network
