// SPDX-License-Identifier: MIT OR Apache-2.0
// What an observed channel counts. Inline, for the one function of each hook. The thread of the
// channel.
#pragma once

#include <lend/base/result.hpp>
#include <lend/observe/channel_metrics.hpp>

#include <observe/clock.hpp>
#include <observe/recorder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace lend::observe {

/// Without it (the build option `observe`) no post and no completion has an instruction for it.
#ifdef LEND_WITHOUT_OBSERVE
inline constexpr bool is_built = false;
#else
inline constexpr bool is_built = true;
#endif

class Observer {
 public:
  /// Which records in `directory` if that is not empty, or says why not. Throws std::bad_alloc.
  explicit Observer(Result<std::string> const& directory);

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
    ++its.completed;
    its.bytes += bytes;
    its.latency.add(ticks);
  }
  void fail(Operation operation, WorkStatus status) noexcept {
    OperationMetrics& its = of(operation);
    ++(status == WorkStatus::flushed ? its.flushed : its.failed);
  }
  /// A message that took a receive of a pool.
  void take_pooled(std::uint64_t bytes) noexcept {
    OperationMetrics& its = of(Operation::receive);
    ++its.posted;
    ++its.completed;
    its.bytes += bytes;
  }

  ChannelMetrics metrics{};

 private:
  Clock const clock_;
  std::optional<Recorder> recorder_{};
};

/// Where a channel records that was asked for `wish`: there, or where LEND_RECORD says. Empty: it
/// does not.
[[nodiscard]] Result<std::string> directory_for(std::string const& wish);

}  // namespace lend::observe
