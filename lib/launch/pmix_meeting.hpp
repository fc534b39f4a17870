// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks a launcher that speaks PMIx where the ranks meet. One thread at a time.
//
//   rank 0: PMIx_Init, PMIx_Get of pmix.local.size, PMIx_Put of lend-desk, PMIx_Commit
//   others: PMIx_Init
//   all:    PMIx_Fence_nb, which is done when all ranks have called it
//   others: PMIx_Get_nb of rank 0's lend-desk
//   all:    PMIx_Finalize
//
// A process calls PMIx_Init once: OpenPMIx 4.2 hangs in the first call after a second one. A rank
// that exits between PMIx_Init and PMIx_Finalize is one that failed, for which Open MPI kills the
// others.
#pragma once

#include <base/unique_fd.hpp>
#include <launch/meeting_place.hpp>
#include <launch/pmix_functions.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/launch/seat.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace lend::launch {

class PmixMeeting {
 public:
  explicit PmixMeeting(PmixFunctions const& functions) noexcept : pmix_{functions} {}
  PmixMeeting(PmixMeeting const&) = delete;
  PmixMeeting& operator=(PmixMeeting const&) = delete;
  /// As end().
  ~PmixMeeting() { end(); }

  /// Number of ranks in the job.
  /// Errors:  peer_lost, system_failed  the launcher, or its PMIx, does not answer.
  [[nodiscard]] Result<std::uint32_t> size();
  /// `seat` with the address where its rank meets the others, for rank 0 to listen at. After the
  /// first success it asks nothing.
  /// Errors:  timed_out, cancelled  some ranks have not asked. The next call goes on with it.
  ///          those of choose_place(), and peer_lost, system_failed: so ends each further call.
  [[nodiscard]] Result<Seat> find(Seat seat, Deadline deadline);
  /// Tells the launcher that this rank asks no more. It is waited for 2 s at most.
  /// Source: OpenPMIx 4.2 src/client/pmix_client.c, PMIx_Finalize.
  void end() noexcept;

 private:
  enum class Step : std::uint8_t { start, publish, fence, get, over };
  static void take_status(int status, void* self);
  static void take_value(int status, PmixValue* value, void* self);

  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<std::uint32_t> number(char const* key);
  [[nodiscard]] Result<void> converse(Seat const& seat, Deadline deadline);
  [[nodiscard]] Result<void> publish(Seat const& seat);
  [[nodiscard]] Result<void> fence(Deadline deadline);
  [[nodiscard]] Result<void> get(Deadline deadline);
  [[nodiscard]] Result<void> wait(char const* call, Deadline deadline);
  [[nodiscard]] Error about(char const* call, int status) const;

  PmixFunctions pmix_;
  PmixProcess own_{};
  Step step_ = Step::start;
  bool is_begun_ = false, has_asked_ = false;
  int begun_by_ = 0;  // a process
  std::optional<std::uint32_t> size_{};
  std::optional<Error> failure_{};
  OwnPlace place_{};
  // A call back of PMIx's thread fills these, and then counts in the descriptor.
  int status_ = 0;
  std::string value_{};
  base::UniqueFd answered_{};
};

}  // namespace lend::launch
