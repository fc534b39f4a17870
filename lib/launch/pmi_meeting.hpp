// SPDX-License-Identifier: MIT OR Apache-2.0
// Asks a launcher that speaks PMI where the ranks meet. Any thread.
#pragma once

#include <launch/meeting_place.hpp>
#include <launch/pmi_dialogue.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/launch/seat.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace lend::launch {

/// The desk of a seat that a launcher is to be asked for: "pmi:fd=6", at that descriptor.
[[nodiscard]] std::string pmi_desk(int descriptor);
/// Empty: `desk` is another address.
[[nodiscard]] std::optional<int> pmi_descriptor(std::string_view desk) noexcept;

/// One rank's dialogue over a descriptor, which stays the launcher's. One thread at a time.
class PmiMeeting {
 public:
  explicit PmiMeeting(int descriptor, std::uint32_t rank) noexcept
      : descriptor_{descriptor}, dialogue_{rank} {}

  /// `seat` with the address where its rank meets the others, for rank 0 to listen at. After the
  /// first success it asks nothing.
  /// Errors:  timed_out, cancelled  some ranks have not asked. The next call goes on with it.
  ///          peer_lost          the launcher closed the descriptor; this error and the following
  ///                             are that of each further call.
  ///          incompatible_peer  it does not speak PMI-1.
  ///          denied, exhausted, system_failed.
  [[nodiscard]] Result<Seat> find(Seat seat, Deadline deadline);

 private:
  [[nodiscard]] Result<void> converse(Seat const& seat, Deadline deadline);
  [[nodiscard]] Result<void> send_question(Deadline deadline);
  [[nodiscard]] Result<std::string> receive_answer(Deadline deadline);
  [[nodiscard]] Result<void> wait(short events, Deadline deadline) const;
  [[nodiscard]] Error about_launcher(Errc code, std::string const& clause) const;

  int descriptor_;
  PmiDialogue dialogue_;
  bool has_asked_ = false;
  std::string unsent_{}, received_{};
  std::optional<Error> failure_{};
  OwnPlace own_{};  // rank 0's
};

}  // namespace lend::launch
