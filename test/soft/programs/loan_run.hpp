// SPDX-License-Identifier: MIT OR Apache-2.0
// A program of peer loans, compared after each step with a serial model of what is lent and of the
// bytes. One thread.
#pragma once

#include <lend/lend.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "soft/programs/program_run.hpp"

namespace lend::test {

class LoanRun : public ProgramRun {
 public:
  LoanRun(Workplace& workplace, Program const& program)
      : ProgramRun{workplace, program, workplace.device()} {}

 private:
  static constexpr std::size_t bytes_of_region = 128;

  struct Left {};  // thrown past a scope
  enum class State : std::uint8_t { lent, returned, recalled, ended };
  struct Lent {
    PeerLoan loan;
    ByteRange bytes{};
    bool is_written = false;  // by the peer
    std::size_t scope = 0;
    RemoteRegion remote{};
    State state = State::lent;
    bool is_recalling = false;      // which has not come to an end
    std::uint64_t returned_by = 0;  // a receive that nobody has polled for
    unsigned polls_failed = 0;      // till then

    [[nodiscard]] bool is_the_peers() const { return state == State::lent && returned_by == 0; }
  };
  struct Open {
    PollingScope* scope = nullptr;
    std::size_t number = 0;
    bool has_ended = false;
  };
  /// What is so before a call.
  struct Before {
    unsigned polls_failed = 0;
    bool was_broken = false;
    bool had_room = false;
  };

  // loan_run.cpp
  void begin() override;
  void take(Step const& step) override;
  void end() override;
  [[nodiscard]] std::size_t depth() const noexcept override { return open_.size(); }
  void open(Step const& step);
  void finish(Step const& step);
  void check_slots();

  // loan_steps.cpp
  void lend(Step const& step);
  void use(Step const& step);
  void give_back(Step const& step);
  void give_back_unseen(Lent& lent);
  void recall(Step const& step);
  void ask(Step const& step);
  void destroy_channel(bool is_lender);
  [[nodiscard]] Lent* chosen(std::uint32_t number, std::uint32_t may_be_over);
  [[nodiscard]] bool is_whole(std::optional<Channel> const& channel) const;
  [[nodiscard]] Before before();
  /// The device may open the bytes late, and the peer does not ask by a message of the channel.
  void note_early_use();
  void note_peer_error(Lent& lent, ByteRange written, Error const& error);

  // loan_checks.cpp
  [[nodiscard]] bool meets_a_loan(ByteRange bytes, bool exclusively) const;
  /// The loans of scopes from `number` on are over.
  void note_end_of(std::size_t number);
  /// The lender's connection is: all its loans are.
  void note_end_of_connection();
  /// Notes what lend has found out by the way: returns, or that it has destroyed the queue pair.
  void look_at_connection();
  void check() override;
  void check_bytes();
  void check_metrics();
  std::optional<MemoryRegion> memory_{};
  std::optional<MemoryRegion> own_{};  // the peer's
  std::optional<Channel> lender_{};
  std::optional<Channel> peer_{};
  std::vector<Open> open_{};
  std::vector<Lent> loans_{};
  std::array<std::byte, bytes_of_region> expected_{};
  std::array<bool, bytes_of_region> is_unknown_{};
  std::uint64_t refused_ = 0;
  bool may_break_ = false;
  bool is_early_ = false;
  bool is_blurred_ = false;  // a return has crossed a recall: either has ended the loan
  std::size_t scopes_ = 0;
};

}  // namespace lend::test
