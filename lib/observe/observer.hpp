// SPDX-License-Identifier: MIT OR Apache-2.0
// What an observed channel counts. Inline, for the one function of each hook. The thread of the
// channel.
#pragma once

#include <lend/observe/channel_metrics.hpp>

#include <observe/clock.hpp>
#include <observe/recorder.hpp>

#include <cstdint>
#include <memory>
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
  /// Of a channel with that many slots, which records in `directory` if that is not empty. Throws
  /// std::bad_alloc.
  Observer(std::uint32_t slots, std::string const& directory);

  /// Whether Clock::counter() is its clock, and nothing is recorded.
  [[nodiscard]] bool is_quick() const noexcept { return is_quick_; }
  [[nodiscard]] bool has_counter() const noexcept { return clock_.is_counter; }
  [[nodiscard]] std::uint64_t now() const noexcept { return clock_.now(); }
  /// Null if nothing is recorded.
  [[nodiscard]] Recorder* recorder() noexcept { return recorder_.get(); }
  /// The same in a process that may be a forked child, whose events are not its parent's.
  [[nodiscard]] Recorder* own_recorder() noexcept {
    return recorder_ != nullptr && recorder_->is_of_this_process() ? recorder_.get() : nullptr;
  }

  /// The device took the request in `slot`.
  [[gnu::always_inline]] void post(std::uint32_t slot, Operation operation,
                                   std::uint64_t now) noexcept {
    posted_at_[slot] = now;
    ++of(operation).posted;
  }
  /// So many are outstanding in the operation's queue.
  [[gnu::always_inline]] void note_outstanding(Operation operation, std::uint32_t count) noexcept {
    std::uint32_t& most = operation == Operation::receive ? metrics.receives_outstanding_max
                                                          : metrics.sends_outstanding_max;
    if (count > most) [[unlikely]]
      most = count;
  }
  [[gnu::always_inline]] void succeed(std::uint32_t slot, Operation operation, std::uint64_t bytes,
                                      std::uint64_t now) noexcept {
    OperationMetrics& its = of(operation);
    std::uint64_t const posted_at = posted_at_[slot];
    if (now < posted_at) [[unlikely]]
      now = posted_at;  // the counters of two processors may differ
    its.latency.add(now - posted_at);
    ++its.completed;
    its.bytes += bytes;
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

  /// The slot's next request is not the program's, and not counted.
  void leave_out(std::uint32_t slot) noexcept { posted_at_[slot] = 0; }
  [[nodiscard]] bool counts(std::uint32_t slot) const noexcept { return posted_at_[slot] != 0; }

  ChannelMetrics metrics{};

 private:
  [[nodiscard]] OperationMetrics& of(Operation operation) noexcept {
    return metrics.operations[static_cast<std::size_t>(operation)];
  }

  Clock const clock_;
  std::unique_ptr<Recorder> recorder_{};
  bool is_quick_;
  std::unique_ptr<std::uint64_t[]> posted_at_;  // by slot; 0: not counted
};

/// Where a channel records that was asked for `wish`: there, or where LEND_RECORD says. Empty: it
/// does not.
[[nodiscard]] std::string directory_for(std::string const& wish);

}  // namespace lend::observe
