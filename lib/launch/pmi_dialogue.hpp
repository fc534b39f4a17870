// SPDX-License-Identifier: MIT OR Apache-2.0
// PMI-1, by which a launcher's ranks tell each other where they meet: its lines, and which comes
// when. It sends nothing. One thread at a time.
//
//   rank                                          launcher
//   cmd=init pmi_version=1 pmi_subversion=1  →
//                                            ←    cmd=response_to_init pmi_version=1 … rc=0
//   cmd=get_maxes, cmd=get_my_kvsname        ⇄    cmd=maxes vallen_max=…, cmd=my_kvsname kvsname=…
//   rank 0: cmd=get … key=PMI_process_mapping, cmd=put … key=lend-desk value=…
//   cmd=barrier_in                           →
//                                            ←    cmd=barrier_out
//   others: cmd=get … key=lend-desk          ⇄    cmd=get_result rc=0 value=…
//   cmd=finalize                             ⇄    cmd=finalize_ack
//
// A rank that exits before its `finalize` is one that failed, for which Hydra kills the others.
//
// Source: MPICH 4.0 src/pmi; Slurm src/plugins/mpi/pmi2/pmi1.c, where the version of `init` chooses
// between this and the text of PMI-2; a run of Hydra 4.0.
#pragma once

#include <launch/meeting_place.hpp>

#include <lend/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lend::launch {

/// A line without its end: words "key=value", `cmd` first. It refers to the text.
class PmiLine {
 public:
  static constexpr std::size_t bytes_max = 4096;

  /// Errors:  incompatible_peer  a clause that follows the launcher's name.
  [[nodiscard]] static Result<PmiLine> parse(std::string_view text);

  [[nodiscard]] std::string_view command() const noexcept { return command_; }
  /// Empty: there is none.
  [[nodiscard]] std::string_view value(std::string_view key) const noexcept;
  /// Whether it reports success; PMI leaves `rc` out where it cannot fail.
  [[nodiscard]] bool is_success() const noexcept;

 private:
  std::string_view command_{}, rest_{};
};

/// One rank's side. Asks a question, takes the answer, and again until it is over.
class PmiDialogue {
 public:
  explicit PmiDialogue(std::uint32_t rank) noexcept : rank_{rank} {}

  /// The next line to send, without its end. Not where it wants a place or is over.
  [[nodiscard]] std::string question() const;
  /// Errors:  incompatible_peer, denied  a clause that follows the launcher's name. It is of no use
  ///                                     any more.
  [[nodiscard]] Result<void> take(std::string_view answer);

  /// Rank 0 is to offer() one, once is_one_host() and job() are known.
  [[nodiscard]] bool wants_place() const noexcept { return step_ == Step::choose; }
  /// Whether the launcher says that all ranks are on one host.
  [[nodiscard]] bool is_one_host() const noexcept { return is_one_host_; }
  /// The launcher's name for the job.
  [[nodiscard]] std::string const& job() const noexcept { return job_; }
  /// Errors:  exhausted  longer than the launcher takes.
  [[nodiscard]] Result<void> offer(MeetingPlace place);

  /// All ranks know the place, and the launcher that no more questions come.
  [[nodiscard]] bool is_over() const noexcept { return step_ == Step::over; }
  [[nodiscard]] MeetingPlace const& place() const noexcept { return place_; }

 private:
  enum class Step : std::uint8_t {
    greet,
    ask_limits,
    ask_job,
    ask_hosts,
    choose,
    put,
    barrier,
    get,
    finish,
    over
  };
  [[nodiscard]] std::string_view wanted() const noexcept;
  [[nodiscard]] Result<void> apply(PmiLine const& line);

  std::uint32_t rank_;
  Step step_ = Step::greet;
  std::size_t value_bytes_max_ = 0;
  bool is_one_host_ = false;
  std::string job_{};
  MeetingPlace place_{};
};

}  // namespace lend::launch
