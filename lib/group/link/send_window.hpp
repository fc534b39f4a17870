// SPDX-License-Identifier: MIT OR Apache-2.0
// How many messages of a link its receiver has not freed. Pure; any thread.
#pragma once

#include <cstdint>

namespace lend::group {

/// Counts wrap.
class SendWindow {
 public:
  explicit SendWindow(std::uint32_t most) noexcept : most_{most} {}

  [[nodiscard]] bool is_full() const noexcept { return sent_ - freed_ >= most_; }
  void note_sent(std::uint32_t count) noexcept { sent_ += count; }
  /// The receiver says how many it has freed in all. What it said before may come later, because
  /// written and sent messages overtake each other. False: it was not sent so many.
  [[nodiscard]] bool update(std::uint32_t freed) noexcept {
    auto const more = freed - freed_;
    if (static_cast<std::int32_t>(more) < 0) return true;
    if (more > sent_ - freed_) return false;
    freed_ = freed;
    return true;
  }

 private:
  std::uint32_t most_;
  std::uint32_t sent_ = 0, freed_ = 0;
};

}  // namespace lend::group
