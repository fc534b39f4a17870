// SPDX-License-Identifier: MIT OR Apache-2.0
#include <network/exchange/admission.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lend::network {

using namespace std::chrono_literals;

namespace {

/// How soon a want of descriptors may be over.
constexpr std::chrono::milliseconds want_pause{10};

/// accept(2) first looks for a descriptor, also where no client waits.
bool has_newcomer(int listening) {
  pollfd polled{listening, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

observe::ClientEnd end_by(StatusCode code) noexcept {
  if (code == StatusCode::failed) return observe::ClientEnd::failed;
  return code == StatusCode::too_slow ? observe::ClientEnd::too_slow : observe::ClientEnd::rejected;
}

}  // namespace

std::string name_of(Socket const& client) {
  ucred other{};
  socklen_t size = sizeof other;
  bool const is_local =
      ::getsockopt(client.fd.get(), SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.pid > 0;
  return is_local ? "process " + std::to_string(other.pid) : client.address;
}

Result<std::unique_ptr<Admission>> Admission::open(std::vector<Socket> listening, Secret secret,
                                                   Purpose purpose, AdmissionLimits limits) {
  LEND_TRY(poller, Poller::create());
  auto admission = std::make_unique<Admission>(std::move(listening), std::move(secret), purpose,
                                               limits, std::move(poller));
  if (purpose == Purpose::connect) admission->tally_ = observe::Tally::if_asked();
  for (auto const& one : admission->listening_) {
    LEND_TRYV(admission->poller_.watch(one.fd.get(), EPOLLIN, &admission->listening_));
  }
  return admission;
}

Admission::Admission(std::vector<Socket> listening, Secret secret, Purpose purpose,
                     AdmissionLimits limits, Poller poller) noexcept
    : listening_{std::move(listening)},
      secret_{std::move(secret)},
      purpose_{purpose},
      limits_{limits},
      poller_{std::move(poller)} {}

std::string Admission::places() const {
  std::string all;
  for (auto const& one : listening_) (all += all.empty() ? "" : ", ") += one.address;
  return all;
}

// ---- new clients ----

void Admission::listen(bool does) noexcept {
  is_listening_ = does;
  is_paused_ = false;
  watch_listening();
  set_timer();
}

void Admission::hold(std::size_t count) noexcept {
  bool const frees = count < held_;
  held_ = count;
  if (!is_paused_ || !frees) return;
  is_paused_ = false;
  watch_listening();
  set_timer();
}

void Admission::watch_listening() noexcept {
  std::uint32_t const events = is_listening_ && !is_paused_ ? EPOLLIN : std::uint32_t{0};
  for (auto const& one : listening_) poller_.watch_again(one.fd.get(), events, &listening_);
}

/// Until one that is here has had its time, or `at_latest`: the kernel keeps the others.
void Admission::pause(Clock::time_point at_latest) noexcept {
  is_paused_ = true;
  resumes_ = at_latest;
  for (auto const& one : clients_) resumes_ = std::min(resumes_, replaceable_from(one));
  watch_listening();
}

Result<void> Admission::take_newcomers(int listening) {
  auto const now = Clock::now();
  // So many at a time: the others are served in between.
  for (int taken = 0; taken < 64; ++taken) {
    if (!has_place() && !make_room(now)) {
      pause(Clock::time_point::max());
      return success();
    }
    auto connection = take_connection(listening);
    if (!connection) {
      if (connection.error() != Errc::exhausted) return connection.error();
      if (!has_newcomer(listening)) return success();
      if (make_room(now)) continue;
      // Clients that have not had their time hold the descriptors: later.
      pause(now + want_pause);
      if (clients_.empty()) return connection.error();
      return success();
    }
    if (!connection.value().fd) return success();
    LEND_TRYV(add(std::move(connection).value()));
  }
  return success();
}

Result<void> Admission::add(Socket socket) {
  auto& one = clients_.emplace_back();
  one.socket = std::move(socket);
  one.since = one.asked = Clock::now();
  if (auto const user = check_user(one.socket.fd.get()); !user) {
    close(one, StatusCode::foreign, user.error().message());
    forget_closed();
    return success();
  }
  auto watched = poller_.watch(one.socket.fd.get(), event_input, &one);
  if (!watched) clients_.pop_back();
  return watched;
}

/// When it gives way to a newcomer.
Admission::Clock::time_point Admission::replaceable_from(Client const& one) const noexcept {
  return one.asked +
         (one.stage == Stage::hello ? limits_.crowded_patience : limits_.crowded_answer);
}

/// Rejects the oldest that has had its time. False: none has.
bool Admission::make_room(Clock::time_point now) {
  auto const oldest = std::ranges::find_if(
      clients_, [&](Client const& one) { return now >= replaceable_from(one); });
  if (oldest == clients_.end()) return false;
  close(*oldest, StatusCode::too_slow, "did not finish its greeting while others waited");
  clients_.erase(oldest);
  return true;
}

// ---- those that are here ----

Result<void> Admission::serve(Admit const& admit) {
  auto const now = Clock::now();
  excuse(unattended(now, due_, std::exchange(served_, now), limits_.patience));
  forget_closed();
  if (is_paused_ && now >= resumes_) listen(is_listening_);
  LEND_TRY(events, poller_.ready(Deadline{now}));
  bool newcomers = false;
  for (auto const& event : events) {
    if (event.data.ptr == &listening_)
      newcomers = true;
    else
      read(*static_cast<Client*>(event.data.ptr), admit);
  }
  forget_closed();
  Result<void> taken = success();
  for (auto const& one : listening_)
    if (newcomers && taken) taken = take_newcomers(one.fd.get());
  expire(Clock::now());
  set_timer();
  return taken;
}

/// The time since `due` in which no call looked; and where none has for long, a quarter of the
/// patience more, in which what came meanwhile can be read and answered.
Admission::Clock::duration Admission::unattended(Clock::time_point now, Clock::time_point due,
                                                 Clock::time_point served,
                                                 Clock::duration patience) noexcept {
  if (now <= due) return {};
  bool const was_away = now - due > 10ms && now - served > patience / 2;
  return now - due + (was_away ? patience / 4 : Clock::duration{});
}

void Admission::excuse(Clock::duration time) noexcept {
  for (auto& one : clients_) {
    one.since += time;
    one.asked += time;
  }
  if (due_ != Clock::time_point::max()) due_ += time;  // it follows from them
}

void Admission::expire(Clock::time_point now) {
  for (auto& one : clients_) {
    if (now - one.since < limits_.patience) break;  // the others came later
    close(one, StatusCode::too_slow, "did not finish its greeting in time");
  }
  forget_closed();
}

/// For the first moment at which there is something to do although no socket is ready.
void Admission::set_timer() noexcept {
  due_ = Clock::time_point::max();
  if (!clients_.empty()) due_ = clients_.front().since + limits_.patience;
  poller_.wake_at(Deadline{is_listening_ && is_paused_ ? std::min(due_, resumes_) : due_});
}

/// One frame at most: the others take turns.
void Admission::read(Client& one, Admit const& admit) {
  auto const arrived = read_available(one.socket, one.reader);
  if (!arrived) {
    bool const hung_up = arrived.error() == Errc::peer_lost;
    return close(one, hung_up ? StatusCode::failed : StatusCode::foreign,
                 arrived.error().message());
  }
  if (!arrived.value()) return;
  auto status = on_frame(one, admit);
  if (status.code != StatusCode::agreed) return close(one, status.code, std::move(status.text));
  one.reader.restart();
  one.asked = Clock::now();
}

/// A whole frame has arrived: agreed, or the status to reject the client with.
Status Admission::on_frame(Client& one, Admit const& admit) {
  auto const kind = one.reader.kind();
  if (one.stage == Stage::hello && kind == FrameKind::hello) {
    auto status = answer_hello(one.socket, one.reader, secret_, purpose_, one.sealing);
    one.stage = one.sealing ? Stage::proof : Stage::frame;
    return status;
  }
  if (one.stage == Stage::proof && kind == FrameKind::proof) {
    if (!one.sealing->is_proved_by(one.reader.proof())) return another_secret();
    one.reader.open_by(*one.sealing);
    one.stage = Stage::frame;
    return {StatusCode::agreed, {}};
  }
  if (one.stage == Stage::frame && kind != FrameKind::status) {
    poller_.forget(one.socket.fd.get());
    auto status = admit(one);
    if (status.code == StatusCode::agreed) one.stage = Stage::closed;
    return status;
  }
  if (one.stage == Stage::hello || kind != FrameKind::status)
    return {StatusCode::foreign, "sent a frame out of turn"};
  auto const status = one.reader.status();
  if (!status) return {StatusCode::foreign, status.error().message()};
  return {StatusCode::failed, "rejected this side, which " + status.value().text};
}

// ---- rejections ----

void Admission::reject(Socket& socket, Sealing* sealing, StatusCode code, std::string clause) {
  if (tally_) tally_->end_client(end_by(code));
  last_rejected_ = name_of(socket) + " " + clause;
  send_rejection(socket, Status{code, std::move(clause)}, sealing);
  socket.fd = base::UniqueFd{};
}

void Admission::close(Client& one, StatusCode code, std::string clause) {
  poller_.forget(one.socket.fd.get());
  reject(one.socket, one.sealing.get(), code, std::move(clause));
  one.stage = Stage::closed;
}

void Admission::reject_all(StatusCode code, std::string const& clause) {
  for (auto& one : clients_)
    if (one.stage != Stage::closed) close(one, code, clause);
  clients_.clear();
  set_timer();
}

/// Also those of which a frame was not looked at for want of memory.
void Admission::forget_closed() {
  std::erase_if(clients_, [](Client const& one) {
    return one.stage == Stage::closed || one.reader.complete();
  });
}

}  // namespace lend::network
