// SPDX-License-Identifier: MIT OR Apache-2.0
#include <base/giving_up.hpp>
#include <launch/pmix_meeting.hpp>
#include <network/wire/frame.hpp>
#include <network/wire/socket.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace lend::launch {

Result<std::uint32_t> PmixMeeting::size() {
  if (failure_) return *failure_;
  if (!size_) {
    LEND_TRYV(begin());
    LEND_TRY(size, number("pmix.job.size"));
    size_ = size;
  }
  return *size_;
}

Result<Seat> PmixMeeting::find(Seat seat, Deadline deadline) {
  if (failure_) return *failure_;
  if (auto const over = converse(seat, deadline); !over) {
    if (!base::is_given_up(over.error())) failure_ = over.error();
    return over.error();
  }
  seat.desk = seat.rank == 0 ? place_.listens_at : place_.place.desk;
  if (seat.secret.empty()) seat.secret = place_.place.secret;
  if (seat.group.empty()) seat.group = name_of_job(own_.job.data(), network::group_name_max);
  return seat;
}

void PmixMeeting::end() noexcept {
  // A forked child has the connection of its parent, which goes on.
  if (std::exchange(is_begun_, false) && begun_by_ == ::getpid()) (void)pmix_.finalize(nullptr, 0);
}

Result<void> PmixMeeting::begin() {
  if (step_ != Step::start) return success();
  answered_ = base::UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!answered_) return Error::from_errno("eventfd", errno);
  if (int const status = pmix_.init(&own_, nullptr, 0); status != 0)
    return about("PMIx_Init", status);
  is_begun_ = true;
  begun_by_ = ::getpid();
  step_ = Step::publish;
  return success();
}

/// Of the job as a whole, which this process knows since it began.
Result<std::uint32_t> PmixMeeting::number(char const* key) {
  PmixProcess all = own_;
  all.rank = pmix_all_ranks;
  PmixValue* value = nullptr;
  auto const call = "PMIx_Get of " + std::string{key};
  if (int const status = pmix_.get(&all, key, nullptr, 0, &value); status != 0)
    return about(call.c_str(), status);
  bool const is_number = value->type == pmix_uint32;
  auto const number = value->data.number;
  std::free(value);  // Source: PMIx Standard 4.1, PMIX_VALUE_RELEASE
  if (is_number) return number;
  return Error{Errc::incompatible_peer, "the launcher's answer to " + call + " is no number"};
}

Result<void> PmixMeeting::converse(Seat const& seat, Deadline deadline) {
  LEND_TRYV(begin());
  if (step_ == Step::publish) {
    if (seat.rank == 0) {
      LEND_TRYV(publish(seat));
    }
    step_ = Step::fence;
  }
  if (step_ == Step::fence) {
    LEND_TRYV(fence(deadline));
    step_ = seat.rank == 0 ? Step::over : Step::get;
  }
  if (step_ == Step::get) {
    LEND_TRYV(get(deadline));
    step_ = Step::over;
  }
  end();
  return success();
}

Result<void> PmixMeeting::publish(Seat const& seat) {
  LEND_TRY(here, number("pmix.local.size"));
  LEND_TRY(own, choose_place(own_.job.data(), here == seat.size, !seat.secret.empty()));
  place_ = std::move(own);
  auto text = place_.place.to_value();
  PmixValue value{.type = pmix_string};
  value.data.string = text.data();
  if (int const status = pmix_.put(pmix_for_all, desk_key.data(), &value); status != 0)
    return about("PMIx_Put", status);
  if (int const status = pmix_.commit(); status != 0) return about("PMIx_Commit", status);
  return success();
}

Result<void> PmixMeeting::fence(Deadline deadline) {
  constexpr auto call = "PMIx_Fence_nb";
  if (!has_asked_) {
    PmixProcess all = own_;
    all.rank = pmix_all_ranks;
    PmixInfo collect{.value = {.type = pmix_bool}};
    std::ranges::copy(std::string_view{"pmix.collect"}, collect.key.begin());
    collect.value.data.flag = true;
    int const status = pmix_.fence_nb(&all, 1, &collect, 1, take_status, this);
    if (status == pmix_done_at_once) return success();
    if (status != 0) return about(call, status);
    has_asked_ = true;
  }
  return wait(call, deadline);
}

Result<void> PmixMeeting::get(Deadline deadline) {
  constexpr auto call = "PMIx_Get_nb of rank 0's lend-desk";
  if (!has_asked_) {
    PmixProcess first = own_;
    first.rank = 0;
    int const status = pmix_.get_nb(&first, desk_key.data(), nullptr, 0, take_value, this);
    if (status != 0) return about(call, status);
    has_asked_ = true;
  }
  LEND_TRYV(wait(call, deadline));
  place_.place = MeetingPlace::of_value(value_);
  if (place_.place.desk.empty())
    return Error{Errc::incompatible_peer, "the launcher does not know where rank 0 is"};
  return success();
}

Result<void> PmixMeeting::wait(char const* call, Deadline deadline) {
  pollfd polled{answered_.get(), POLLIN, 0};
  LEND_TRY(ready, network::wait_for({&polled, 1}, deadline));
  if (!ready)
    return base::gave_up(deadline, "the launcher did not answer " + std::string{call},
                         "; it does when all ranks have asked: start all, and call again");
  std::uint64_t count = 0;
  if (::read(answered_.get(), &count, sizeof count) != sizeof count)
    return Error::from_errno("read of an eventfd", errno);
  has_asked_ = false;
  if (status_ != 0) return about(call, status_);
  return success();
}

void PmixMeeting::take_status(int status, void* self) {
  auto& meeting = *static_cast<PmixMeeting*>(self);
  meeting.status_ = status;
  std::uint64_t const one = 1;
  (void)!::write(meeting.answered_.get(), &one, sizeof one);
}

void PmixMeeting::take_value(int status, PmixValue* value, void* self) {
  if (status == 0 && value != nullptr && value->type == pmix_string &&
      value->data.string != nullptr)
    static_cast<PmixMeeting*>(self)->value_ = value->data.string;
  take_status(status, self);
}

Error PmixMeeting::about(char const* call, int status) const {
  char const* const text = pmix_.error_string(status);
  bool const is_gone = status == pmix_unreachable || status == pmix_lost_connection;
  return {is_gone ? Errc::peer_lost : Errc::system_failed,
          std::string{"the launcher's PMIx: "} + call +
              " failed: " + (text == nullptr ? "" : text) + " (" + std::to_string(status) +
              "); start all ranks by one launcher, or set LEND_DESK"};
}

}  // namespace lend::launch
