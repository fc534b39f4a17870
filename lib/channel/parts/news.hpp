// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether something has come for a channel, for each of the two that ask. The channel's thread.
#pragma once

#include <cstdint>

namespace lend::channel {

class News {
 public:
  /// Something came that neither has seen: it need not be noted again.
  [[nodiscard]] bool is_unseen() const noexcept { return unseen_ == by_both; }
  /// Whether the set has to list the channel.
  [[nodiscard]] bool note() noexcept {
    bool const was_listed = (unseen_ & by_set) == 0;
    unseen_ = by_both;
    return was_listed;
  }
  /// The set lists the channel.
  void note_listed() noexcept { unseen_ &= by_program; }
  /// The program asks: has anything come since it took the last?
  [[nodiscard]] bool has_any() const noexcept { return (unseen_ & by_program) != 0; }
  [[nodiscard]] bool take() noexcept {
    bool const has = has_any();
    unseen_ &= by_set;
    return has;
  }

 private:
  static constexpr std::uint8_t by_set = 1, by_program = 2, by_both = by_set | by_program;
  std::uint8_t unseen_ = 0;
};

}  // namespace lend::channel
