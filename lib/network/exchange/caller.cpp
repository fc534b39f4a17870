// SPDX-License-Identifier: MIT OR Apache-2.0
#include <base/giving_up.hpp>
#include <network/exchange/caller.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend::network {

Result<std::unique_ptr<Caller>> Caller::begin(std::span<std::string const> addresses,
                                              std::unique_ptr<Offer> offer, Deadline deadline,
                                              ExchangeOptions const& options) {
  if (addresses.empty()) return Error{Errc::invalid_argument, "no address to connect to"};
  LEND_TRY(secret, Secret::of(options.secret));
  std::vector<SocketAddress> listener;
  for (auto const& address : addresses) {
    LEND_TRY(one, numeric_address_at(address));
    listener.push_back(one);
  }
  LEND_TRY(poller, Poller::create());
  auto caller = std::make_unique<Caller>(listener, std::move(secret), std::move(offer), deadline,
                                         std::move(poller));
  LEND_TRYV(caller->dial());
  return caller;
}

Caller::Caller(std::span<SocketAddress const> addresses, Secret secret,
               std::unique_ptr<Offer> offer, Deadline deadline, Poller poller)
    : secret_{std::move(secret)},
      offer_{std::move(offer)},
      deadline_{deadline},
      poller_{std::move(poller)},
      back_off_{back_off_shortest} {
  for (auto const& address : addresses) candidates_.push_back({address});
}

Result<bool> Caller::advance() {
  auto const now = Clock::now();
  if (step_ == Step::pausing && now >= due_ && !deadline_.has_passed()) {
    LEND_TRYV(dial());
  }
  LEND_TRY(events, poller_.ready(Deadline{now}));
  if (step_ == Step::dialing && (!events.empty() || now >= due_)) {
    LEND_TRYV(on_dialed(events.empty() ? ETIMEDOUT : outcome_of_attempt(socket_.fd.get())));
  }
  while (step_ == Step::greeting || step_ == Step::settling) {
    LEND_TRY(has, has_frame());
    if (!has) break;
    if (step_ == Step::settling) {
      LEND_TRYV(joint_outcome(greeter_->peer(), Result<void>{success()},
                              settled_status(greeter_->peer(), greeter_->reader())));
      return true;
    }
    auto const has_agreed = greeter_->take();
    if (!has_agreed && !greeter_->gave_way()) return has_agreed.error();
    if (!has_agreed) come_again(has_agreed.error());
    if (has_agreed && has_agreed.value()) {
      LEND_TRYV(connect_end());
    }
  }
  if (deadline_.has_passed()) return late();
  if (step_ == Step::settling && now >= due_) return fell_silent(greeter_->peer());
  auto const is_timed = step_ != Step::greeting;
  poller_.wake_at(is_timed ? sooner(deadline_, Deadline{due_}) : deadline_);
  return false;
}

Result<void> Caller::dial() {
  auto attempt = begin_attempt(candidates_[next_].address);
  while (!attempt) {
    LEND_TRY(goes_on, turn_to_next(attempt.error()));
    if (!goes_on) return success();
    attempt = begin_attempt(candidates_[next_].address);
  }
  socket_ = std::move(attempt).value();
  LEND_TRYV(poller_.watch(socket_.fd.get(), EPOLLOUT, this));
  step_ = Step::dialing;
  due_ = Clock::now() + attempt_longest(candidates_.size() - next_, deadline_);
  poller_.wake_at(sooner(deadline_, Deadline{due_}));
  return success();
}

Result<void> Caller::on_dialed(int why) {
  if (why != 0) {
    poller_.forget(socket_.fd.get());
    LEND_TRY(goes_on, turn_to_next(Error::from_errno("connect to " + socket_.address, why)));
    return goes_on ? dial() : success();
  }
  LEND_TRYV(check_listener(socket_));
  poller_.watch_again(socket_.fd.get(), event_input, this);
  greeter_.emplace(std::move(socket_), offer_->greeting(), secret_, Purpose::connect);
  step_ = Step::greeting;
  return greeter_->begin();
}

/// Whether the next address is dialed at once; else again from the first one, after a pause.
/// Errors:  of the first, where no time mends that of any.
Result<bool> Caller::turn_to_next(Error const& why) {
  if (why == Errc::exhausted && !may_pass(why.os_error())) return why;
  auto& one = candidates_[next_];
  one.refusal = words_for(why.os_error());
  one.hopeless.reset();
  if (!may_pass(why.os_error())) one.hopeless = why;
  gave_way_.clear();
  next_ = (next_ + 1) % candidates_.size();
  if (next_ != 0) return true;
  if (std::ranges::all_of(candidates_, [](auto const& each) { return each.hopeless.has_value(); }))
    return *candidates_.front().hopeless;
  pause();
  return false;
}

/// To a listener that gave way to others.
void Caller::come_again(Error const& why) {
  gave_way_ = why.message();
  poller_.forget(greeter_->peer().socket.fd.get());
  greeter_.reset();
  pause();
}

void Caller::pause() noexcept {
  socket_ = {};
  step_ = Step::pausing;
  due_ = Clock::now() + back_off_;
  back_off_ = std::min<std::chrono::milliseconds>(2 * back_off_, back_off_longest);
  poller_.wake_at(sooner(deadline_, Deadline{due_}));
}

Result<bool> Caller::has_frame() {
  auto const& socket = greeter_->peer().socket;
  auto arrived = read_available(socket, greeter_->reader());
  if (arrived) return arrived;
  if (arrived.error() == Errc::peer_lost) return exchange_lost(socket.address, 0);
  return refused(socket, arrived.error().message());
}

/// This end, and tells the listener.
Result<void> Caller::connect_end() {
  auto const& peer = greeter_->peer();
  auto const outcome = offer_->connect(peer.greeting);
  auto const status = encode(status_of(outcome), peer.sealing.get());
  LEND_TRYV(network::offer(peer.socket, status, within(std::chrono::seconds{0})));
  if (!outcome) {
    bool const is_gone = has_hung_up(peer.socket.fd.get());
    return joint_outcome(peer, outcome,
                         is_gone ? Result<Status>{exchange_lost(peer.socket.address, 0)}
                                 : Result<Status>{Status{StatusCode::ready, {}}});
  }
  step_ = Step::settling;
  due_ = Clock::now() + status_patience;
  return success();
}

Result<std::unique_ptr<Caller>> finished(std::unique_ptr<Caller>& caller) {
  if (caller == nullptr)
    return Error{Errc::stale_handle, "this connecting is over, or was moved from"};
  auto const is_connected = caller->advance();
  if (is_connected && !is_connected.value()) return std::unique_ptr<Caller>{};
  auto over = std::move(caller);
  if (!is_connected) return is_connected.error();
  return over;
}

Error Caller::late() const {
  if (greeter_) return exchange_late(greeter_->peer().socket.address, deadline_);
  if (!gave_way_.empty()) return base::gave_up(deadline_, gave_way_);
  std::string refusals, listener;
  for (auto const& each : candidates_) {
    auto const refusal = each.refusal.empty() ? "no answer" : each.refusal;
    bool const is_first = listener.empty();
    listener += (is_first ? "" : " or ") + each.address.to_text();
    refusals += (is_first ? "" : "; ") + refusal;
  }
  return base::gave_up(deadline_, "no peer listened at " + listener,
                       " (" + refusals + "); start the listening side or wait longer");
}

}  // namespace lend::network
