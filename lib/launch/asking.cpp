// SPDX-License-Identifier: MIT OR Apache-2.0
// What a process asks is kept until its end: no question can be taken back.
#include <launch/asking.hpp>
#include <launch/pmi_meeting.hpp>
#include <launch/pmix_meeting.hpp>

#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace lend::launch {

namespace {

std::mutex mutex;

Error busy(std::string_view desk) {
  return {Errc::invalid_argument,
          "another thread of this process asks the launcher where the ranks meet; one thread joins "
          "by " +
              std::string{desk}};
}

/// Under the mutex.
Result<PmixMeeting*> pmix_meeting() {
  static std::optional<PmixMeeting> meeting;
  if (!meeting) {
    LEND_TRY(functions, PmixFunctions::load());
    meeting.emplace(functions);
  }
  return &*meeting;
}

/// Under the mutex.
PmiMeeting& pmi_meeting(int descriptor, std::uint32_t rank) {
  static std::map<int, PmiMeeting> meetings;
  return meetings.try_emplace(descriptor, descriptor, rank).first->second;
}

}  // namespace

bool is_asked(std::string_view desk) noexcept {
  return desk == pmix_desk || pmi_descriptor(desk).has_value();
}

Result<std::uint32_t> ask_size(bool asks_more) {
  std::unique_lock const lock{mutex, std::try_to_lock};
  if (!lock) return busy(pmix_desk);
  LEND_TRY(meeting, pmix_meeting());
  auto const size = meeting->size();
  if (!asks_more) meeting->end();
  return size;
}

Result<Seat> find_desk(Seat const& seat, Deadline deadline) {
  if (!is_asked(seat.desk)) return seat;
  std::unique_lock const lock{mutex, std::try_to_lock};
  if (!lock) return busy(seat.desk);
  if (auto const descriptor = pmi_descriptor(seat.desk))
    return pmi_meeting(*descriptor, seat.rank).find(seat, deadline);
  LEND_TRY(meeting, pmix_meeting());
  return meeting->find(seat, deadline);
}

}  // namespace lend::launch
