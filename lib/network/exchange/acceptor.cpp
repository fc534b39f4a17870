// SPDX-License-Identifier: MIT OR Apache-2.0
// One loop over those that prove themselves and those that have.
#include <base/giving_up.hpp>
#include <network/exchange/acceptor.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lend::network {

namespace {

constexpr std::chrono::hours longest_patience{24 * 365};  // in nanoseconds it can be added

/// Clients that prove nothing take no more of those that the process may have.
std::size_t half_of_descriptors() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  return std::max<std::size_t>(1, limit.rlim_cur / 2);
}

}  // namespace

Result<Acceptor> Acceptor::open(Socket listening, AdmissionLimits limits, Secret secret,
                                Purpose purpose) {
  std::vector<Socket> sockets;
  sockets.push_back(std::move(listening));
  LEND_TRY(admission, Admission::open(std::move(sockets), std::move(secret), purpose, limits));
  LEND_TRY(poller, Poller::create());
  LEND_TRYV(poller.watch(admission->descriptor(), EPOLLIN, admission.get()));
  return Acceptor{std::move(admission), std::move(poller)};
}

// ---- one peer, which is waited for ----

Result<Peer> Acceptor::accept(Greeting const& ours, Deadline deadline) {
  begin_call(Clock::now());
  struct Ending {
    Acceptor& acceptor;
    ~Ending() { acceptor.end_call(); }
  } const ending{*this};
  for (;;) {
    expire(Clock::now());
    offer(1, [&](Guest const&) -> Result<Greeting> { return ours; });
    if (auto served = serve(sooner(deadline, Deadline{next_event()})); !served) {
      withdraw_offer(StatusCode::failed,
                     "came when the listener failed: " + served.error().message());
      return served.error();
    }
    for (auto& one : guests_) {
      if (one.stage != Stage::agreed) continue;
      auto accepted = std::move(one.peer);
      poller_.forget(accepted.socket.fd.get());
      one.stage = Stage::closed;
      admission_->note_connected();
      return accepted;
    }
    if (!deadline.has_passed()) continue;
    withdraw_offer(StatusCode::too_slow, "did not agree before the deadline");
    return too_late(deadline);
  }
}

/// No client was served since the last call: that time does not count against their patience.
void Acceptor::begin_call(Clock::time_point now) noexcept {
  admission_->forget_rejected();
  admission_->excuse(now - ended_);
}

/// However the call ends, also by std::bad_alloc: no client keeps our endpoint, or a complete frame
/// that was not looked at.
void Acceptor::end_call() noexcept {
  for (auto& one : guests_) {
    if (!is_connecting(one)) continue;
    poller_.forget(one.peer.socket.fd.get());
    one.stage = Stage::closed;
  }
  erase_closed();
  ended_ = Clock::now();
}

void Acceptor::withdraw_offer(StatusCode code, std::string const& clause) {
  for (auto& one : guests_)
    if (is_connecting(one)) reject(one, code, clause);
  erase_closed();
}

Error Acceptor::too_late(Deadline deadline) const {
  std::string const last = last_rejected().empty() ? "" : "; last rejected: " + last_rejected();
  return base::gave_up(deadline, "no peer connected to " + address(),
                       "; start the connecting side or wait longer" + last);
}

// ---- many peers, in an event loop ----

Result<void> Acceptor::begin(Prepare prepare, ListenerLimits const& limits) {
  if (has_begun()) return Error{Errc::invalid_argument, "this listener accepts by poll() already"};
  if (limits.unproven_max == 0 || limits.connecting_max == 0 || limits.patience.count() <= 0)
    return Error{Errc::invalid_argument, "the limits of a listener are 1 or more each"};
  admission_->forget_rejected();
  admission_->set_limits(
      {.pending_max = std::min(limits.unproven_max, half_of_descriptors()),
       .patience = std::min<std::chrono::milliseconds>(limits.patience, longest_patience)});
  prepare_ = std::move(prepare);
  connecting_max_ = limits.connecting_max;
  return success();
}

Result<std::optional<Acceptor::Connected>> Acceptor::poll() {
  if (!has_begun()) return Error{Errc::invalid_argument, "a listener polls after begin()"};
  // However the call ends, also by an exception of the program's.
  struct Ending {
    Acceptor& acceptor;
    ~Ending() {
      acceptor.due_ = acceptor.next_expiry();
      acceptor.poller_.wake_at(Deadline{acceptor.next_event()});
    }
  } const ending{*this};
  auto const now = Clock::now();
  // The time in which the program should have called and did not counts against none.
  auto const unattended =
      Admission::unattended(now, due_, std::exchange(polled_, now), admission_->limits().patience);
  for (auto& one : guests_) one.since += unattended;
  auto const served = serve(Deadline{now});
  // One in a call: the kernel may take a second to find its hardware address.
  auto const agreed = std::ranges::find(guests_, Stage::agreed, &Guest::stage);
  if (agreed != guests_.end()) connect(*agreed);
  expire(Clock::now());
  offer(connecting_max_, [this](Guest& one) { return prepare(one); });
  auto connected = take_connected();
  if (!served && !connected) return served.error();
  return connected;
}

Result<Greeting> Acceptor::prepare(Guest& one) {
  auto const& theirs = one.peer.greeting;
  one.id = ++arrivals_;
  LEND_TRY(offer, prepare_({.id = one.id,
                            .address = name_of(one.peer.socket),
                            .endpoint = theirs.endpoint,
                            .note = std::as_bytes(std::span{theirs.note})}));
  one.offer = std::move(offer);
  return one.offer->greeting();
}

/// Our end, and tells the client.
void Acceptor::connect(Guest& one) {
  auto const made = one.offer->connect(one.peer.greeting);
  auto const status = status_of(made);
  if (!made) return reject(one, status.code, status.text);
  if (!sends_at_once(one.peer.socket, encode(status, one.peer.sealing.get())))
    return reject(one, StatusCode::failed, "closed the connection before it was connected");
  one.stage = Stage::settling;
  one.since = Clock::now();
}

std::optional<Acceptor::Connected> Acceptor::take_connected() {
  auto const found = std::ranges::find(guests_, Stage::connected, &Guest::stage);
  if (found == guests_.end()) return std::nullopt;
  Connected connected{found->id, std::move(found->offer)};
  guests_.erase(found);
  admission_->note_connected();
  return connected;
}

// ---- both ----

void Acceptor::expire(Clock::time_point now) {
  for (auto& one : guests_) {
    if (!is_awaited(one) || now - one.since < admission_->limits().patience) continue;
    reject(
        one, StatusCode::too_slow,
        one.stage == Stage::offered ? "did not agree in time" : "did not connect its end in time");
  }
  erase_closed();
}

template <class Make>
void Acceptor::offer(std::size_t connecting_max, Make const& make) {
  auto connecting = static_cast<std::size_t>(std::ranges::count_if(guests_, is_connecting));
  for (auto& one : guests_) {
    if (connecting >= connecting_max) break;
    if (one.stage != Stage::waiting) continue;
    Result<Greeting> const ours = make(one);
    if (!ours) {
      reject(one, StatusCode::failed, "was refused: " + ours.error().message());
      continue;
    }
    auto status = validate(one.peer.greeting, ours.value());
    if (status.code != StatusCode::agreed) {
      reject(one, status.code, std::move(status.text));
    } else if (!sends_at_once(one.peer.socket, encode(ours.value(), one.peer.sealing.get()))) {
      reject(one, StatusCode::failed, "closed the connection before the greeting");
    } else {
      poller_.watch_again(one.peer.socket.fd.get(), event_input, &one);
      one.stage = Stage::offered;
      one.since = Clock::now();
      ++connecting;
    }
  }
  erase_closed();
}

Acceptor::Clock::time_point Acceptor::next_expiry() const noexcept {
  auto soonest = Clock::time_point::max();
  for (auto const& one : guests_)
    if (is_awaited(one)) soonest = std::min(soonest, one.since + admission_->limits().patience);
  return soonest;
}

Acceptor::Clock::time_point Acceptor::next_event() const noexcept {
  std::size_t connecting = 0;
  bool waits = false;
  for (auto const& one : guests_) {
    // The next call goes on with it, or gives it out.
    if (one.stage == Stage::agreed || one.stage == Stage::connected) return Clock::now();
    waits = waits || one.stage == Stage::waiting;
    connecting += is_connecting(one);
  }
  return waits && connecting < connecting_max_ ? Clock::now() : next_expiry();
}

Result<void> Acceptor::serve(Deadline deadline) {
  LEND_TRY(events, poller_.ready(deadline));
  for (auto const& event : events)
    if (event.data.ptr != admission_.get()) read(*static_cast<Guest*>(event.data.ptr));
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
  hold_places();
  return {StatusCode::agreed, {}};
}

/// One frame at most: the others take turns.
void Acceptor::read(Guest& one) {
  if (one.stage == Stage::waiting)
    return reject(one, StatusCode::failed, "closed the connection while it waited for its turn");
  if (one.stage == Stage::agreed) return;  // our end goes first
  auto const arrived = read_available(one.peer.socket, one.reader);
  if (!arrived) {
    bool const hung_up = arrived.error() == Errc::peer_lost;
    return reject(one, hung_up ? StatusCode::failed : StatusCode::foreign,
                  arrived.error().message());
  }
  if (!arrived.value()) return;
  on_status(one);
  one.reader.restart();
}

void Acceptor::on_status(Guest& one) {
  if (one.reader.kind() != FrameKind::status)
    return reject(one, StatusCode::foreign, "sent a frame out of turn");
  auto const status = one.reader.status();
  if (!status) return reject(one, StatusCode::foreign, status.error().message());
  auto const code = status.value().code;
  if (one.stage == Stage::offered && code == StatusCode::agreed) {
    one.stage = Stage::agreed;
  } else if (one.stage == Stage::settling && code == StatusCode::ready) {
    poller_.forget(one.peer.socket.fd.get());
    one.stage = Stage::connected;
  } else {
    reject(one, StatusCode::failed, "rejected this side, which " + status.value().text);
  }
}

void Acceptor::reject(Guest& one, StatusCode code, std::string clause) {
  poller_.forget(one.peer.socket.fd.get());
  admission_->reject(one.peer.socket, one.peer.sealing.get(), code, std::move(clause));
  one.stage = Stage::closed;
}

void Acceptor::erase_closed() {
  std::erase_if(guests_, [](Guest const& one) { return one.stage == Stage::closed; });
  hold_places();
}

void Acceptor::hold_places() noexcept {
  admission_->hold(
      static_cast<std::size_t>(std::ranges::count(guests_, Stage::waiting, &Guest::stage)));
}

}  // namespace lend::network
