// SPDX-License-Identifier: MIT OR Apache-2.0
// What an observed channel counts, or several of one thread together. Inline, for the one function
// of each hook. The thread of the channel; what add_to() reads is counted for any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/observe/channel_metrics.hpp>

#include <observe/clock.hpp>
#include <observe/counting.hpp>
#include <observe/recorder.hpp>
#include <observe/totals.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lend::observe {

/// Without it (the build option `observe`) no post and no completion has an instruction for it.
#ifdef LEND_WITHOUT_OBSERVE
inline constexpr bool is_built = false;
#else
inline constexpr bool is_built = true;
#endif

class CountsFile;
class Registry;

class Observer {
 public:
  /// Of channels of that name. Throws std::bad_alloc.
  explicit Observer(std::string_view name);
  ~Observer();
  Observer(Observer const&) = delete;
  Observer& operator=(Observer const&) = delete;
  /// In the file of counts, if there is one. Throws std::bad_alloc.
  [[nodiscard]] static void* operator new(std::size_t bytes);
  static void operator delete(void* at) noexcept;

  /// From here on it records in `directory` if that is not empty, or says why not.
  void record_in(Result<std::string> const& directory);
  /// Whether channels of that name may count in it, too. Throws std::bad_alloc.
  [[nodiscard]] bool is_of(std::string_view name) const;

  // ---- channels ----

  void begin_channel() noexcept { count(channels_.working); }
  /// A channel that had not broken.
  void break_channel() noexcept {
    count(channels_.breaks);
    count(channels_.broken);
    count(channels_.working, minus_one);
  }
  void end_channel(bool has_broken) noexcept {
    count(has_broken ? channels_.broken : channels_.working, minus_one);
  }
  void wait_for_room() noexcept { count(metrics.room_waits); }

  // ---- requests ----

  /// Whether Clock::counter() is its clock.
  [[nodiscard]] bool has_counter() const noexcept { return clock_.is_counter; }
  [[nodiscard]] std::uint64_t now() const noexcept { return clock_.now(); }
  /// Null if nothing is recorded.
  [[nodiscard]] Recorder* recorder() noexcept { return recorder_ ? &*recorder_ : nullptr; }
  [[nodiscard]] Recorder& known_recorder() noexcept { return *recorder_; }  ///< not null
  /// The same in a process that may be a forked child, whose events are not its parent's.
  [[nodiscard]] Recorder* own_recorder() noexcept {
    return recorder_ && recorder_->is_of_this_process() ? &*recorder_ : nullptr;
  }

  /// A request was posted.
  [[gnu::always_inline]] void post(Operation operation) noexcept { count(of(operation).posted); }
  /// Not of Operation::lend and Operation::recall, which markers have.
  [[nodiscard]] OperationMetrics& of(Operation operation) noexcept {
    return metrics.operations[static_cast<std::size_t>(operation)];
  }
  /// So many are outstanding in the operation's queue.
  void note_outstanding(Operation operation, std::uint32_t count) noexcept {
    std::uint32_t& most = operation == Operation::receive ? metrics.receives_outstanding_max
                                                          : metrics.sends_outstanding_max;
    most = std::max(most, count);
  }
  /// `ticks` after its post. Below 0 if the counters of two processors differ.
  [[gnu::always_inline]] void succeed(Operation operation, std::uint64_t bytes,
                                      std::uint64_t ticks) noexcept {
    OperationMetrics& its = of(operation);
    count(its.completed);
    count(its.bytes, bytes);
    HistogramAccess::add(its.latency, ticks);
  }
  void fail(Operation operation, WorkStatus status) noexcept {
    OperationMetrics& its = of(operation);
    count(status == WorkStatus::flushed ? its.flushed : its.failed);
  }
  /// A message that took a receive of a pool.
  void take_pooled(std::uint64_t bytes) noexcept {
    OperationMetrics& its = of(Operation::receive);
    count(its.posted);
    count(its.completed);
    count(its.bytes, bytes);
  }

  /// What it has counted so far, in any thread.
  void add_to(Totals& totals) const noexcept {
    totals.add_counted(metrics.operations, metrics.peer_loans, metrics.room_waits, channels_);
  }

  ChannelMetrics metrics{};

 private:
  friend class Registry;
  friend class CountsFile;
  static constexpr auto minus_one = ~std::uint64_t{0};  // modulo 2^64

  Registry& registry_;
  std::size_t const series_;
  Observer* next_ = nullptr;  // of the registry
  Observer* previous_ = nullptr;
  ChannelCounts channels_{};
  Clock const clock_;
  std::optional<Recorder> recorder_{};
};

/// Where a channel records that was asked for `wish`: there, or where LEND_RECORD says. Empty: it
/// does not.
[[nodiscard]] Result<std::string> directory_for(std::string const& wish);

/// Whether channels count that were not asked to: LEND_METRICS.
[[nodiscard]] bool all_count() noexcept;
/// In which directory others shall read what this process counts: LEND_METRICS. Empty: in none.
[[nodiscard]] std::string_view counts_directory() noexcept;

}  // namespace lend::observe
