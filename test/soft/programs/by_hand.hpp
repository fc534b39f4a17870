// SPDX-License-Identifier: MIT OR Apache-2.0
// What programs of queue pairs by hand have in common: the memory of two ends, and what must come
// of a request: its completion, in time, and an event of an armed queue. One thread.
#pragma once

#include <lend/lend.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "soft/programs/program_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

/// A receive that waits.
struct Room {
  std::uint64_t id = 0;
  ByteRange bytes{};
};

/// A completion that must come.
struct Told {
  std::uint64_t id = 0;
  std::size_t link = 0;
  WorkStatus status = WorkStatus::success;
  std::uint32_t bytes = 0;
  std::optional<std::uint32_t> immediate{};
  std::optional<std::uint32_t> returned{};
  bool is_solicited = false;
  std::optional<std::size_t> sender{};  // of a datagram: a link
  ByteRange room{};

  /// Whether it wakes a queue that is armed so.
  [[nodiscard]] bool wakes(std::optional<EventFor> armed) const noexcept {
    return armed == EventFor::any || (armed && (is_solicited || status != WorkStatus::success));
  }
};

class ByHand : public ProgramRun {
 protected:
  using ProgramRun::ProgramRun;

  /// Of end `at`: bytes of its own and those that it shows, others each, with a copy of them.
  static void give_bytes(std::size_t at, MemoryRegion& own, std::span<std::byte> own_bytes,
                         MemoryRegion& shown, std::span<std::byte> shown_bytes);
  void check_bytes(MemoryRegion& region, std::span<std::byte const> wanted,
                   std::string const& what);
  void check_state(AnyQueuePair const& pair, bool is_broken);
  void arm(CompletionQueue& queue, std::optional<EventFor>& armed, std::string const& what);

  // ---- completions ----
  /// Adds to `taken` what the queue has, as completions of type Plain where they have no time.
  template <class Plain>
  void poll(CompletionQueue& queue, std::vector<TimedCompletion>& taken);
  void compare_one(TimedCompletion const& one, Told const& told, std::string const& what);
  /// What no fault delays is over when it is posted.
  void check_time(TimedCompletion const& one, DeviceTime& last, std::string const& what);

  std::optional<DeviceClock> clock_{};
  std::uint64_t next_id_ = 1;
  DeviceTime began_{};   // before the step posts
  DeviceTime posted_{};  // and after
};

template <class Plain>
void ByHand::poll(CompletionQueue& queue, std::vector<TimedCompletion>& taken) {
  if (program_.is_timed) {
    std::array<TimedCompletion, 16> room;
    for (auto const& one : must(queue.poll(room))) taken.push_back(one);
  } else {
    std::array<Plain, 16> room;
    for (auto const& one : must(queue.poll(room))) static_cast<Plain&>(taken.emplace_back()) = one;
  }
}

}  // namespace lend::test
