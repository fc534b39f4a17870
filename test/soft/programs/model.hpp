// SPDX-License-Identifier: MIT OR Apache-2.0
// What must be true of lend, from what passed between it and the device: which bytes are on loan,
// which slots are taken, which failures are still to be told. One program at a time, one thread.
#pragma once

#include <lend/lend.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "soft/programs/pool_model.hpp"
#include "soft/programs/program.hpp"
#include "soft/programs/spy.hpp"
#include "soft/programs/story.hpp"

namespace lend::test {

inline constexpr std::uint32_t elements_of_program = 3;
inline constexpr std::size_t region_bytes = 64;
inline constexpr std::size_t region_of_pool = 2;
static_assert(pieces_of_pool * piece_bytes == region_bytes);

/// One element of a list.
struct Range {
  std::size_t region = 0;
  ByteRange bytes{};
};

[[nodiscard]] inline std::uint64_t bytes_of(std::vector<Range> const& ranges) noexcept {
  std::uint64_t sum = 0;
  for (auto const& range : ranges) sum += range.bytes.length;
  return sum;
}

/// One work request, as the program knows it.
struct Posted {
  std::size_t accepted = 0;  ///< in Spy::works()
  std::size_t end = 0;
  std::optional<std::size_t> scope{};
  Operation operation{};
  std::vector<Range> ranges{};
  bool lends = true;
  bool held = true;      ///< a handle of it exists, or was leaked
  bool told = false;     ///< somebody has had the result
  bool retired = false;  ///< its scope is over: handles are stale
};

struct End {
  std::unique_ptr<Channel> channel{};
  std::uint32_t queue_pair = 0;
  bool is_gone = false;
  std::optional<Error> first_cause{};
  std::vector<std::size_t> kept{};  ///< posts whose failures scopes left behind
  std::size_t kept_at = 0;          ///< when the last scope did, as a count of scopes
};

struct OpenScope {
  std::size_t end = 0;
  bool is_manual = false;
  bool is_bounded = false;
  bool may_be_cancelled = false;
  bool has_ended = false;
  PollingScope* scope = nullptr;
  std::size_t failed_unposted = 0;  ///< work of batches without a handle
  // When its block ended:
  bool was_broken = false;
  bool had_work = false;  // in progress, as an exception left it
  bool had_receives = false;
};

/// How a scope ended, and what was so before.
struct ScopeEnd {
  std::optional<Errc> closure_error{};
  bool is_manual = false;
  bool was_bounded = false;
  std::size_t untold = 0;  ///< work that nobody had the result of
  unsigned polls_failed = 0;
  bool was_broken = false;
};

/// Of a SetScope: one of its scopes that had not ended, and what was so before.
struct SetMember {
  std::size_t scope = 0;
  ScopeEnd before{};
};

class Model {
 public:
  /// What is wrong is told to `story`.
  Model(Spy& spy, Program const& program, Story& story)
      : spy_{spy}, program_{program}, story_{story} {}

  std::vector<End> ends{};
  std::vector<OpenScope> scopes{};
  std::vector<Posted> posts{};
  std::vector<std::optional<MemoryRegion>> regions{};
  int regions_beside = 0;           ///< registered, not in `regions`
  std::optional<PoolModel> pool{};  ///< its pieces are region `region_of_pool`

  [[nodiscard]] Accepted& device_side(Posted const& post) noexcept {
    return spy_.works()[post.accepted];
  }
  [[nodiscard]] bool is_in_progress(Posted const& post) noexcept {
    return device_side(post).is_in_progress();
  }
  /// Whether its bytes are on loan: they are not if the device has copied them.
  [[nodiscard]] bool has_loans(Posted const& post) noexcept {
    return post.lends && is_in_progress(post) && !device_side(post).is_copied;
  }
  [[nodiscard]] bool is_broken(std::size_t end) const noexcept {
    return !ends[end].is_gone && ends[end].channel->first_cause() != nullptr;
  }
  [[nodiscard]] bool has_room(std::size_t end, Operation operation) noexcept;
  [[nodiscard]] std::uint32_t slots_taken(std::size_t end) noexcept;
  /// Whether a wait for room is without hope: every slot has a handle.
  [[nodiscard]] bool is_hoarded(std::size_t end) noexcept;
  [[nodiscard]] bool has_work_in_progress(std::size_t scope) noexcept;
  [[nodiscard]] bool has_receives_in_progress(std::size_t scope) noexcept;
  /// Whether lending `ranges` would meet a loan, be it one of their own.
  [[nodiscard]] bool meets_a_loan(std::vector<Range> const& ranges, bool exclusively) noexcept;

  /// Whether work in progress has lent some of `range`.
  [[nodiscard]] bool is_lent_by_work(Range const& range) noexcept;

  /// What is so before `scope` ends.
  [[nodiscard]] ScopeEnd before_end_of(std::size_t scope, std::optional<Errc> closure_error);
  /// After finish() or a closure: `error` is what it answered, if not success.
  void after_end_of(std::size_t scope, ScopeEnd const& before, std::optional<Error> const& error);
  /// The same of a SetScope, whose scopes come in the order in which it named their channels.
  void after_end_of_set(std::span<SetMember const> members, std::optional<Error> const& error);
  /// Of the scopes of a set that its destructor ends one after the other: what the end of one has
  /// brought, of work without a scope, the end of the next one may replace in last_failures().
  void allow_replaced_failures(std::size_t end);
  /// After a scope was left by its destructor, by an exception or not.
  void after_destruction_of(std::size_t scope, bool by_exception);

  /// Everything that must be so between two calls.
  void check();

 private:
  [[nodiscard]] std::vector<Posted*> untold_failures(std::size_t scope);
  void retire(std::size_t scope);
  /// With `unposted`, these are all that is told, and so many failures of work that was not posted.
  void check_told(std::span<Error const> told, std::vector<Posted*> expected,
                  std::optional<std::size_t> unposted);
  void check_code(std::size_t scope, ScopeEnd const& before, std::optional<Error> const& error,
                  std::vector<Posted*> const& failures);
  void complain(std::string text) { story_.complain(std::move(text)); }
  void check_loans();
  void check_bytes(MemoryRegion& region, std::size_t index, ByteRange bytes);
  void check_first_cause(std::size_t end);
  void check_failures_without_scope(std::size_t end);
  void check_metrics(std::size_t end);

  Spy& spy_;
  Program const& program_;
  Story& story_;
  std::size_t probe_ = 0;
};

[[nodiscard]] constexpr bool writes_here(Operation operation) noexcept {
  return operation == Operation::receive || operation == Operation::read ||
         operation == Operation::atomic;
}

// What an error tells.
[[nodiscard]] inline bool is_flush(Error const& error) noexcept {
  return error.work() != nullptr && error.work()->status == WorkStatus::flushed;
}
/// Not of failed work, nor of the device.
[[nodiscard]] inline bool is_lends_own(Error const& cause) noexcept {
  return cause.work() == nullptr && cause != Errc::device_event;
}
[[nodiscard]] inline bool tells_of(Error const& error, Posted const& post,
                                   Accepted const& work) noexcept {
  return error == Errc::work_failed && error.work() != nullptr &&
         error.work()->slot == work.slot() && error.work()->operation == post.operation &&
         error.work()->queue_pair_number == work.queue_pair &&
         error.work()->status == static_cast<WorkStatus>(work.status);
}

}  // namespace lend::test
