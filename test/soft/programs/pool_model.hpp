// SPDX-License-Identifier: MIT OR Apache-2.0
// What must be true of a ReceivePool: which of its pieces is lent how, and which messages are still
// to be told, from what the spy has seen. One program at a time, one thread.
#pragma once

#include <lend/channel/receive_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "soft/programs/spy.hpp"

namespace lend::test {

inline constexpr std::size_t pieces_of_pool = 4;
inline constexpr std::size_t piece_bytes = 16;
inline constexpr std::uint64_t tag_of_pool = 77;

class PoolModel {
 public:
  struct Loan {
    ByteRange bytes{};
    bool is_exclusive = false;
  };
  /// A message that must come next, if none of those before it was dropped with its channel.
  struct Expected {
    std::size_t work = 0;         ///< in Spy::pooled()
    bool may_be_missing = false;  ///< its channel was gone
  };

  /// `is_gone` tells of a queue pair whether its channel is gone.
  PoolModel(Spy& spy, std::uint32_t low_mark, std::function<bool(std::uint32_t)> is_gone)
      : spy_{spy}, low_mark_{low_mark}, is_gone_{std::move(is_gone)} {}

  /// The loans of all pieces.
  [[nodiscard]] std::vector<Loan> loans();
  [[nodiscard]] std::uint32_t posted() const;
  /// Messages that next() must give.
  [[nodiscard]] std::size_t expected();
  /// Whether a poll of the set must say that the pool is low: once each time that it becomes so.
  [[nodiscard]] bool owes_low();
  void tell_low() { owes_low_ = false; }
  /// Pieces of messages that went, which wait to be posted again.
  [[nodiscard]] std::vector<ByteRange> waiting();

  /// What is wrong with this answer of next(), or empty. Otherwise its message is held.
  [[nodiscard]] std::string take(std::optional<Message> const& message,
                                 std::function<std::uint64_t(std::uint32_t)> const& tag_of);
  /// A message that is held goes, the `index`-th that is.
  void drop(std::size_t index) { held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index)); }
  /// The ReceivePool was destroyed.
  void end() {
    is_over_ = true;
    expected_.clear();
  }

 private:
  /// Notes what has happened since the last call; at most one call of the program lies between.
  void note();
  [[nodiscard]] bool is_posted_after(std::size_t event) const;
  [[nodiscard]] std::size_t piece_of(std::size_t work) const;
  [[nodiscard]] bool is_posted(std::size_t piece) const;

  Spy& spy_;
  std::uint32_t low_mark_;
  std::function<bool(std::uint32_t)> is_gone_;
  std::size_t noted_ = 0;  // of Spy::pool_events()
  std::uint32_t posted_ = 0;
  bool is_low_ = false;
  bool owes_low_ = false;
  std::deque<Expected> expected_{};
  std::vector<std::size_t> held_{};  // pieces
  bool is_over_ = false;
};

}  // namespace lend::test
