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
  explicit SharedReceives(std::uint32_t count) noexcept : count_{count}, free_{count} {}

  /// More for a sender that has `granted` messages and wants `wanted`. Half of the receives are
  /// kept for the second message of each sender, because one that falls silent keeps what it has;
  /// of the others it gets a quarter at most.
  [[nodiscard]] std::uint32_t take(std::uint32_t granted, std::uint32_t wanted) noexcept {
    if (granted >= wanted || free_ == 0) return 0;
    auto const kept = count_ / 2, spare = free_ - std::min(free_, kept);
    auto const most = std::max(spare / 4, spare > 0 || granted < 2 ? 1u : 0u);
    auto const taken = std::min(wanted - granted, most);
    free_ -= taken;
    return taken;
  }
  void give_back(std::uint32_t count) noexcept { free_ += count; }
  [[nodiscard]] std::uint32_t free() const noexcept { return free_; }

 private:
  std::uint32_t count_;
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
    // One more may be free that no word has told.
    bool const is_idle = wanted_ > 2 && left + 2 >= wanted_;
    times_idle_ = is_idle ? times_idle_ + 1 : 0;
    if (times_idle_ == 4) {
      wanted_ = std::max(wanted_ / 2, 2u);
      times_idle_ = 0;
    }
    if (left > 0) return 0;
    if (std::exchange(stopped_at_, allowed) != allowed) wanted_ = std::min(2 * wanted_, window_);
    return take_more(shared);
  }
  /// Of a sender that may send none: the program looks again.
  [[nodiscard]] std::uint32_t take_more(SharedReceives& shared) noexcept {
    auto const more = shared.take(granted_, wanted_);
    granted_ += more;
    return more;
  }
  /// The program lets go of a message.
  [[nodiscard]] std::uint32_t release(SharedReceives& shared) noexcept {
    if (--granted_ > 0) {
      shared.give_back(1);
      return take_more(shared);
    }
    granted_ = 1;
    return 1 + take_more(shared);
  }
  /// A word does nothing but grant: with more grants, fewer are needed.
  void note_word() noexcept { wanted_ = std::min(2 * wanted_, window_); }
  /// The sender sends no more, and the program has not let go of `held`.
  void stop(SharedReceives& shared, std::uint32_t held) noexcept {
    wanted_ = window_ = 1;
    auto const kept = std::max(held, 1u);
    if (granted_ > kept) shared.give_back(granted_ - kept);
    granted_ = std::min(granted_, kept);
  }
  [[nodiscard]] std::uint32_t granted() const noexcept { return granted_; }
  /// What decides the next grants, beside granted().
  [[nodiscard]] std::uint32_t wanted() const noexcept { return wanted_; }
  [[nodiscard]] std::uint32_t times_idle() const noexcept { return times_idle_; }
  [[nodiscard]] std::uint64_t stopped_at() const noexcept { return stopped_at_; }

 private:
  std::uint32_t window_;
  std::uint32_t granted_ = 1;  // all but one of them are shared
  std::uint32_t wanted_ = 1;   // of these
  std::uint32_t times_idle_ = 0;
  std::uint64_t stopped_at_ = 0;  // messages, when it last had sent all that it might
};

}  // namespace lend::flow
