// SPDX-License-Identifier: MIT OR Apache-2.0
// A program of peer loans, run on the soft device and compared after each step with a serial model
// of what is lent and of the bytes. One thread.
#pragma once

#include <lend/lend.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "soft/programs/program.hpp"
#include "soft/programs/run.hpp"
#include "soft/programs/spy.hpp"
#include "soft/programs/story.hpp"

namespace lend::test {

class LoanRun : public Story {
 public:
  LoanRun(Workplace& workplace, Program const& program);

  /// The first thing that is wrong, or empty.
  [[nodiscard]] std::string execute();

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
  void begin();
  void one(Step const& step);
  /// Whether the innermost scope is to be left by an exception.
  bool run_block();
  void open(Step const& step);
  void finish(Step const& step);
  void end_of_program();
  void fill_slots();

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
  void check();
  void check_bytes();
  void check_metrics();
  void tell(std::string line);

  Spy& spy_;
  Workplace& workplace_;
  Program const& program_;
  std::optional<ProtectionDomain> domain_{};
  std::optional<WaitSet> set_{};
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
  std::size_t next_ = 0;
  Cancellation cancelled_{};
};

}  // namespace lend::test
