// SPDX-License-Identifier: MIT OR Apache-2.0
// One loop over those that prove themselves, those that sit, and time.
#include <base/giving_up.hpp>
#include <launch/desk_state.hpp>

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace lend::launch {

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
  LEND_TRY(admission, network::Admission::open(std::move(listening), std::move(secret),
                                               network::Purpose::sit, {.pending_max = 1024}));
  LEND_TRY(poller, network::Poller::create());
  LEND_TRYV(poller.watch(admission->descriptor(), EPOLLIN, admission.get()));
  admission->listen(false);
  return std::make_unique<DeskState>(std::move(file), std::move(admission), std::move(poller),
                                     std::move(group));
}

DeskState::DeskState(network::SocketFile file, std::unique_ptr<network::Admission> admission,
                     network::Poller poller, std::string group) noexcept
    : file_{std::move(file)},
      admission_{std::move(admission)},
      poller_{std::move(poller)},
      group_{std::move(group)} {}

DeskState::~DeskState() {
  end(network::StatusCode::late, "sat when the desk ended");
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
  admission_->forget_rejected();
  admission_->listen(true);
  set_timer();
  return success();
}

void DeskState::end(network::StatusCode code, std::string const& why) {
  if (!table_) return;
  auto const missing = awaited();
  for (auto& one : seated_)
    if (!one.is_closed) reject(one, code, why + ": " + missing);
  admission_->reject_all(network::StatusCode::failed, "came when the meeting ended");
  generation_ = table_->members().generation;
  table_.reset();
  seats_.clear();
  seated_.clear();
  admission_->listen(false);
  set_timer();
}

Result<bool> DeskState::poll() {
  if (!table_) return false;
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
  LEND_TRYV(admission_->add(network::Socket{base::UniqueFd{ends[1]}, address()}));
  return near;
}

// ---- events ----

Result<void> DeskState::serve_ready() {
  LEND_TRY(events, poller_.ready(within(std::chrono::seconds{0})));
  for (auto const& event : events) {
    if (event.data.ptr == admission_.get()) continue;
    auto& one = *static_cast<Connection*>(event.data.ptr);
    if (!one.is_closed && (event.events & EPOLLOUT) != 0) push(one);
    if (!one.is_closed && (event.events & ~std::uint32_t{EPOLLOUT}) != 0) read(one);
  }
  forget_closed();
  auto const served =
      admission_->serve([this](network::Admission::Client& client) { return admit(client); });
  forget_closed();
  // Once all that were awaited have come, a newcomer for which there is no descriptor is none.
  bool const is_missed = served || served.error() != Errc::exhausted ||
                         table_->phase() == DeskTable::Phase::collecting;
  return is_missed ? served : success();
}

/// For the first moment at which there is something to do although no socket is ready.
void DeskState::set_timer() noexcept {
  auto soonest = deadline_;
  if (!others_until_.has_passed()) soonest = sooner(soonest, others_until_);
  poller_.wake_at(table_ ? soonest : Deadline::never());
}

void DeskState::reject(Connection& one, network::StatusCode code, std::string const& clause) {
  // Behind half a frame no status can be read.
  if (!one.sending) send_rejection(one.socket, network::Status{code, clause}, one.sealing.get());
  close(one);
}

void DeskState::close(Connection& one) noexcept {
  poller_.forget(one.socket.fd.get());
  (void)::shutdown(one.socket.fd.get(), SHUT_RDWR);
  one.socket.fd = base::UniqueFd{};
  one.is_closed = true;
}

void DeskState::forget_closed() {
  std::erase_if(seated_, [](Connection const& one) { return one.is_closed; });
}

std::string DeskState::awaited() const {
  auto text = table_->awaited();
  auto const& rejected = admission_->last_rejected();
  if (!rejected.empty()) text += "; last rejected: " + rejected;
  return text;
}

}  // namespace lend::launch
