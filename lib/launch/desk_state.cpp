// SPDX-License-Identifier: MIT OR Apache-2.0
// One epoll loop over the listening socket, the connections and a timer.
#include <base/giving_up.hpp>
#include <launch/desk_state.hpp>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace lend::launch {

namespace {

/// The process at the other end of a local socket; none: it has a port.
std::string local_peer(int fd) {
  ucred other{};
  socklen_t size = sizeof other;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0 || other.pid <= 0) return {};
  return "process " + std::to_string(other.pid);
}

timespec time_of(Deadline::Clock::duration duration) {
  // A time of 0 would stop the timer.
  auto const left = std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
  return {static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
}

}  // namespace

Result<std::unique_ptr<DeskState>> DeskState::open(std::string_view address, std::string group,
                                                   network::Secret secret, Deadline deadline) {
  if (group.size() > network::group_name_max)
    return Error{Errc::invalid_argument,
                 "the name of the group has " + std::to_string(group.size()) + " bytes; " +
                     std::to_string(network::group_name_max) + " is the most"};
  LEND_TRY(found, network::find_candidates(
                      std::string{address}, [&] { return network::candidates_at(address, false); },
                      deadline));
  auto const candidates = network::as_others_come(address, std::move(found));
  LEND_TRY(listening, network::open_all_listening(candidates));
  network::SocketFile file{candidates.front()};
  auto state = std::make_unique<DeskState>(std::move(file), std::move(listening), std::move(group),
                                           std::move(secret));
  state->epoll_ = base::UniqueFd{::epoll_create1(EPOLL_CLOEXEC)};
  if (!state->epoll_) return Error::from_errno("epoll_create1", errno);
  state->timer_ = base::UniqueFd{::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
  if (!state->timer_) return Error::from_errno("timerfd_create", errno);
  LEND_TRYV(state->watch(state->timer_.get(), EPOLLIN, &state->timer_));
  for (auto const& one : state->listening_) {
    LEND_TRYV(state->watch(one.fd.get(), 0, &state->listening_));
  }
  return state;
}

DeskState::DeskState(network::SocketFile file, std::vector<network::Socket> listening,
                     std::string group, network::Secret secret) noexcept
    : file_{std::move(file)},
      listening_{std::move(listening)},
      group_{std::move(group)},
      secret_{std::move(secret)} {}

DeskState::~DeskState() {
  end(network::StatusCode::late, "sat when the desk ended");
}

std::string DeskState::places() const {
  std::string all;
  for (auto const& one : listening_) (all += all.empty() ? "" : ", ") += one.address;
  return all;
}

Result<void> DeskState::begin(std::uint32_t size, Deadline deadline) {
  if (size == 0 || size > group_size_max)
    return Error{Errc::invalid_argument, "a group has 1 to " + std::to_string(group_size_max) +
                                             " ranks, not " + std::to_string(size)};
  if (table_) return Error{Errc::invalid_argument, "a meeting is under way at this desk"};
  table_.emplace(size, group_, generation_);
  others_until_ = Deadline::never();
  seats_.assign(size, nullptr);
  deadline_ = deadline;
  is_full_ = false;
  last_rejected_.clear();
  watch_listening(EPOLLIN);
  set_timer();
  return success();
}

void DeskState::end(network::StatusCode code, std::string const& why) {
  if (!table_) return;
  auto const missing = awaited();
  for (auto& one : seated_)
    if (one.stage == Stage::seated) reject(one, code, why + ": " + missing);
  for (auto& one : pending_)
    if (one.stage != Stage::closed)
      reject(one, network::StatusCode::failed, "came when the meeting ended");
  generation_ = table_->members().generation;
  table_.reset();
  seats_.clear();
  seated_.clear();
  pending_.clear();
  watch_listening(0);
  set_timer();
}

Result<bool> DeskState::poll() {
  if (!table_) return false;
  excuse_delay(Clock::now());
  auto const served = serve_ready();
  // Where all have been let go, no failure takes that back.
  if (!served && table_->phase() != DeskTable::Phase::over) {
    end(network::StatusCode::failed, "sat when the desk failed: " + served.error().message());
    return served.error();
  }
  if (table_->phase() == DeskTable::Phase::over) {
    end(network::StatusCode::failed, "came too late");
    return true;
  }
  expire(Clock::now());
  begin_if_due();
  if (deadline_.has_passed()) {
    auto const late =
        base::gave_up(deadline_, "not all ranks met at " + places(), ": " + awaited());
    end(network::StatusCode::late, "sat until the desk's deadline");
    return late;
  }
  set_timer();
  return false;
}

Result<void> DeskState::serve() {
  auto const met = poll();
  if (!met && !base::is_given_up(met.error())) return met.error();
  return success();
}

Result<network::Socket> DeskState::connect_within() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return Error::from_errno("socketpair", errno);
  network::Socket near{base::UniqueFd{ends[0]}, address()};
  LEND_TRYV(add(network::Socket{base::UniqueFd{ends[1]}, address()}, Clock::now()));
  return near;
}

// ---- events ----

Result<void> DeskState::watch(int fd, std::uint32_t events, void* what) noexcept {
  epoll_event event{.events = events, .data = {.ptr = what}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return success();
  return Error::from_errno("epoll_ctl", errno);
}

void DeskState::watch_again(int fd, std::uint32_t events, void* what) noexcept {
  epoll_event event{.events = events, .data = {.ptr = what}};
  // Of a descriptor that is watched this needs no memory and cannot fail.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void DeskState::watch_listening(std::uint32_t events) noexcept {
  for (auto const& one : listening_) watch_again(one.fd.get(), events, &listening_);
}

Result<void> DeskState::serve_ready() {
  std::array<epoll_event, 64> events;
  int const ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (ready < 0 && errno != EINTR) return Error::from_errno("epoll_wait", errno);
  bool newcomers = false;
  for (int at = 0; at < ready; ++at) {
    auto const& event = events[static_cast<std::size_t>(at)];
    if (event.data.ptr == &timer_) continue;  // set again below
    if (event.data.ptr == &listening_) {
      newcomers = true;
      continue;
    }
    auto& one = *static_cast<Connection*>(event.data.ptr);
    if (one.stage != Stage::closed && (event.events & EPOLLOUT) != 0) push(one);
    if (one.stage != Stage::closed && (event.events & ~std::uint32_t{EPOLLOUT}) != 0) read(one);
  }
  forget_closed();
  if (!newcomers) return success();
  for (auto const& one : listening_) {
    LEND_TRYV(take_newcomers(one.fd.get()));
  }
  return success();
}

Result<void> DeskState::take_newcomers(int listening) {
  auto const now = Clock::now();
  // So many at a time: those that sit are served in between.
  for (int taken = 0; taken < 64; ++taken) {
    if (pending_.size() >= limits_.pending_max && !make_room(now)) {
      is_full_ = true;
      watch_listening(0);
      return success();
    }
    auto connection = network::take_connection(listening);
    if (!connection) {
      if (connection.error() != Errc::exhausted) return connection.error();
      if (make_room(now)) continue;
      // Clients that have not had their time hold the descriptors, or none is missing: later.
      bool const is_missing = pending_.empty() && table_->phase() == DeskTable::Phase::collecting;
      if (is_missing) return connection.error();
      is_full_ = true;
      watch_listening(0);
      return success();
    }
    if (!connection.value().fd) return success();
    LEND_TRYV(add(std::move(connection).value(), now));
  }
  return success();
}

Result<void> DeskState::add(network::Socket socket, Clock::time_point now) {
  auto& one = pending_.emplace_back();
  one.socket = std::move(socket);
  one.since = now;
  auto const user = network::check_user(one.socket.fd.get());
  if (user) return watch(one.socket.fd.get(), event_input, &one);
  reject(one, network::StatusCode::foreign, user.error().message());
  return success();
}

/// Rejects the oldest that does not sit, once it has had its time. False: none has.
bool DeskState::make_room(Clock::time_point now) {
  for (auto& one : pending_) {
    auto const patience =
        one.stage == Stage::hello ? limits_.crowded_patience : limits_.crowded_answer;
    if (one.stage == Stage::closed || now - one.since < patience) continue;
    reject(one, network::StatusCode::too_slow, "did not sit down while others waited");
    forget_closed();
    return true;
  }
  return false;
}

/// The time in which this side should have polled and did not counts against none.
void DeskState::excuse_delay(Clock::time_point now) noexcept {
  if (now <= due_) return;
  for (auto& one : pending_) one.since += now - due_;
}

void DeskState::expire(Clock::time_point now) {
  for (auto& one : pending_) {
    if (now - one.since < limits_.patience) break;  // the others came later
    reject(one, network::StatusCode::too_slow, "did not sit down in time");
  }
  forget_closed();
  if (!is_full_) return;
  is_full_ = false;
  watch_listening(EPOLLIN);
}

/// For the first moment at which there is something to do although no socket is ready.
void DeskState::set_timer() noexcept {
  itimerspec timer{};
  due_ = Clock::time_point::max();
  auto soonest = deadline_;
  if (!pending_.empty())
    soonest = sooner(soonest, until(pending_.front().since + limits_.patience));
  if (!others_until_.has_passed()) soonest = sooner(soonest, others_until_);
  if (is_full_) soonest = sooner(soonest, within(limits_.crowded_patience));
  if (table_ && !soonest.is_never()) {
    auto const time = soonest.until_next_look();
    due_ = Clock::now() + time;
    timer.it_value = time_of(time);
  }
  (void)::timerfd_settime(timer_.get(), 0, &timer, nullptr);
}

void DeskState::reject(Connection& one, network::StatusCode code, std::string const& clause) {
  if (one.stage != Stage::seated && code != network::StatusCode::failed)
    last_rejected_ = who(one) + " " + clause;
  // Behind half a frame no status can be read.
  if (!one.sending) send_rejection(one.socket, network::Status{code, clause}, one.sealing.get());
  close(one);
}

void DeskState::close(Connection& one) noexcept {
  // A forked child may have this descriptor, too: closing it here would leave it in the epoll.
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.socket.fd.get(), nullptr);
  (void)::shutdown(one.socket.fd.get(), SHUT_RDWR);
  one.socket.fd = base::UniqueFd{};
  one.stage = Stage::closed;
}

void DeskState::forget_closed() {
  auto const is_closed = [](Connection const& one) { return one.stage == Stage::closed; };
  std::erase_if(pending_, is_closed);
  std::erase_if(seated_, is_closed);
}

std::string DeskState::awaited() const {
  auto text = table_->awaited();
  if (!last_rejected_.empty()) text += "; last rejected: " + last_rejected_;
  return text;
}

std::string DeskState::who(Connection const& one) const {
  auto local = local_peer(one.socket.fd.get());
  return local.empty() ? one.socket.address : local;
}

}  // namespace lend::launch
