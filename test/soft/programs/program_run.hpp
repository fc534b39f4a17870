// SPDX-License-Identifier: MIT OR Apache-2.0
// The frame of all random programs: it runs the steps on the soft device, scope within scope, has
// the kind of program checked after each, injects the faults and keeps the story. One thread.
#pragma once

#include <lend/lend.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "soft/programs/answers.hpp"
#include "soft/programs/program.hpp"
#include "soft/programs/spy.hpp"
#include "soft/programs/story.hpp"

namespace lend::test {

inline constexpr std::size_t depth_max = 4;  ///< of open scopes
inline constexpr std::chrono::microseconds short_bound{100};

/// What the programs of one process share.
struct Workplace {
  Spy spy{};
  Context context = spy.open();

  /// The context, opened anew if the plan of another program has left its port down: no queue pair
  /// connects then, nor comes an operation that would bring the port up.
  [[nodiscard]] Context device();
};

/// Of little patience, so that whatever is in progress ends by itself, receives excepted.
template <class Options>
void make_impatient(Options& options) {
  using namespace std::chrono_literals;
  options.connection.ack_timeout = 4us;
  options.connection.ack_retries = 2;
  options.receiver_not_ready_retries = 3;
  options.receiver_not_ready_delay = 10us;
}

[[nodiscard]] inline bool overlap(ByteRange a, ByteRange b) noexcept {
  return a.length != 0 && b.length != 0 && a.offset < b.offset + b.length &&
         b.offset < a.offset + a.length;
}

/// One of `list`, which is not empty.
template <class List>
[[nodiscard]] auto chosen_of(List& list, std::uint32_t number) {
  return std::next(list.begin(), static_cast<std::ptrdiff_t>(number % list.size()));
}

/// Runs one program. A class of its own for each kind of program says what the steps do, and what
/// must be so between two of them.
class ProgramRun {
 public:
  ProgramRun(ProgramRun const&) = delete;
  ProgramRun& operator=(ProgramRun const&) = delete;
  virtual ~ProgramRun() = default;

  /// The first thing that is wrong, or empty. The program ends with it.
  [[nodiscard]] std::string execute();
  /// What each step did, a line each.
  [[nodiscard]] std::string const& story() const noexcept { return story_.text(); }

 protected:
  ProgramRun(Workplace& workplace, Program const& program, Context device);

  // ---- what a kind of program says ----
  /// Makes the ends. No fault is injected yet.
  virtual void begin() = 0;
  virtual void take(Step const& step) = 0;
  /// What must be so between two steps.
  virtual void check() = 0;
  /// Ends what there is: no queue pair or region is left.
  virtual void end() = 0;
  /// In how many scopes the next step is.
  [[nodiscard]] virtual std::size_t depth() const noexcept { return 0; }

  // ---- what all do ----
  /// The steps up to the end of the innermost scope: the step that closes it, or null.
  Step const* run_block();
  /// Whether `close`, the end of a scope, is an exception.
  [[nodiscard]] static bool leaves_by_exception(Step const* close) noexcept {
    return close != nullptr && close->numbers[0] % 4 == 0;
  }
  void complain(std::string text) { story_.complain(std::move(text)); }
  void tell(std::string line) { story_.tell(std::move(line), depth()); }
  [[nodiscard]] std::string const& violation() const noexcept {
    return story_.violation().empty() ? spy_.violation() : story_.violation();
  }
  [[nodiscard]] std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(draw_() % bound);
  }
  [[nodiscard]] bool one_in(std::uint32_t n) { return below(n) == 0; }

  // ---- programs of channels ----
  /// Whether `answer` of the handle of `work` is the result of that work, for the first time.
  /// `told`: what the handle answered before; `is_stale`: its scope or channel is gone.
  [[nodiscard]] bool is_result(Answer const& answer, Accepted const& work,
                               std::optional<std::string>& told, bool is_stale, bool waits,
                               unsigned polls_failed);
  /// No fault strikes from here on. Whether none can have struck that nobody has polled for.
  [[nodiscard]] bool calm_down();
  /// As many results are kept as there are slots: one that was lost is missed here. `post`: a
  /// request with its number.
  template <class Post>
  void fill_slots(std::uint32_t count, Post&& post);

  Spy& spy_;
  Program const& program_;
  Context context_;
  std::optional<ProtectionDomain> domain_{};
  std::optional<WaitSet> set_{};
  Cancellation cancelled_{};
  std::minstd_rand draw_;  // of the step
  Story story_{};

 private:
  std::size_t next_ = 0;  // step
};

template <class Post>
void ProgramRun::fill_slots(std::uint32_t count, Post&& post) {
  std::vector<PendingWork> kept;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto posted = post(i);
    if (!posted.has_value())
      return complain("slot " + std::to_string(i) + " of " + std::to_string(count) +
                      " is lost: " + posted.error().message());
    kept.push_back(std::move(posted).value());
  }
  auto const more = post(0);
  if (more.has_value() || more.error() != Errc::queue_full)
    complain("a post finds room where every slot has a handle");
}

}  // namespace lend::test
