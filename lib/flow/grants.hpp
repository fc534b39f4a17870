// SPDX-License-Identifier: MIT OR Apache-2.0
// How many messages each sender may send that shares the receives of a pool with others, so that
// each message finds a receive. Pure: no device, no clock. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace lend::flow {

/// The receives beyond the one that each sender always has.
class SharedReceives {
 public:
  explicit SharedReceives(std::uint32_t count) noexcept : free_{count} {}

  /// So many of `wanted` are taken: at most a quarter of those that are free, because a sender that
  /// falls silent keeps its own.
  [[nodiscard]] std::uint32_t take(std::uint32_t wanted) noexcept {
    auto const taken = std::min({wanted, free_, std::max(free_ / 4, 1u)});
    free_ -= taken;
    return taken;
  }
  void give_back(std::uint32_t count) noexcept { free_ += count; }
  [[nodiscard]] std::uint32_t free() const noexcept { return free_; }

 private:
  std::uint32_t free_;
};

/// What one sender has: messages that it may send, and those that came and that the program has
/// not let go of. At first it has one. A sender that needs all that it has gets twice as many, up
/// to its window. One that does not, four times in a row, gets half, and at least two: then the
/// answer to a message grants the next one in time.
class Grants {
 public:
  explicit Grants(std::uint32_t window) noexcept : window_{window} {}

  // Each returns how many more the sender may send.

  /// A message has come. As far as the sender knows, it may send `allowed` in all, of which `left`
  /// have not come.
  [[nodiscard]] std::uint32_t arrive(SharedReceives& shared, std::uint64_t allowed,
                                     std::uint32_t left) noexcept {
    bool const is_idle = wanted_ > 2 && left + 1 >= wanted_;
    times_idle_ = is_idle ? times_idle_ + 1 : 0;
    if (times_idle_ == 4) {
      wanted_ = std::max(wanted_ / 2, 2u);
      times_idle_ = 0;
    }
    if (left > 0) return 0;
    if (std::exchange(stopped_at_, allowed) != allowed) wanted_ = std::min(2 * wanted_, window_);
    return take_shared(shared);
  }
  /// The program lets go of a message.
  [[nodiscard]] std::uint32_t release(SharedReceives& shared) noexcept {
    if (--granted_ > 0) {
      shared.give_back(1);
      return take_shared(shared);
    }
    granted_ = 1;
    return 1 + take_shared(shared);
  }
  /// A word does nothing but grant: with more grants, fewer are needed.
  void note_word() noexcept { wanted_ = std::min(2 * wanted_, window_); }
  /// No more comes from the sender, and the program has let go of all.
  void end(SharedReceives& shared) noexcept {
    if (granted_ > 1) shared.give_back(granted_ - 1);
    granted_ = 0;
  }
  [[nodiscard]] std::uint32_t granted() const noexcept { return granted_; }
  /// What decides the next grants, beside granted().
  [[nodiscard]] std::uint32_t wanted() const noexcept { return wanted_; }
  [[nodiscard]] std::uint32_t times_idle() const noexcept { return times_idle_; }
  [[nodiscard]] std::uint64_t stopped_at() const noexcept { return stopped_at_; }

 private:
  [[nodiscard]] std::uint32_t take_shared(SharedReceives& shared) noexcept {
    if (granted_ >= wanted_) return 0;
    auto const more = shared.take(wanted_ - granted_);
    granted_ += more;
    return more;
  }

  std::uint32_t window_;
  std::uint32_t granted_ = 1;  // all but one of them are shared
  std::uint32_t wanted_ = 1;   // of these
  std::uint32_t times_idle_ = 0;
  std::uint64_t stopped_at_ = 0;  // messages, when it last had sent all that it might
};

}  // namespace lend::flow
