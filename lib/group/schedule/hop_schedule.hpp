// SPDX-License-Identifier: MIT OR Apache-2.0
// The messages of each rank in each round of a collective where a rank has links only to those at a
// distance of a power of two: values go to the others in hops. Pure: no memory, no channel. Any
// thread.
#pragma once

#include <group/schedule/schedule.hpp>

#include <cstdint>
#include <vector>

namespace lend::group {

/// A collective over few links. Values of several ranks share a message where they fit.
class HopSchedule {
 public:
  /// Shape:   blocks_per_message from 1 on.
  HopSchedule(Collective collective, Ranks ranks, std::uint32_t root,
              std::uint32_t blocks_per_message) noexcept
      : collective_{collective}, ranks_{ranks}, root_{root}, per_message_{blocks_per_message} {}

  /// Whether values wait at ranks between, in a Relay.
  [[nodiscard]] static bool has_relays(Collective collective) noexcept;

  /// The same at all ranks.
  [[nodiscard]] std::uint32_t rounds() const noexcept;
  /// Appends the steps of one round.
  void add_round(std::uint32_t round, std::vector<Step>& steps) const;

  /// Of the Relay of this rank. `gather` and `scatter` have one for each rank of its subtree, from
  /// this rank on; the others one for each rank of all.
  [[nodiscard]] std::uint32_t slots() const noexcept;

 private:
  /// Ranks after the root.
  [[nodiscard]] std::uint32_t place() const noexcept {
    return (ranks_.rank + ranks_.size - root_) % ranks_.size;
  }
  [[nodiscard]] std::uint32_t rank_at(std::uint32_t place) const noexcept {
    return (place + root_) % ranks_.size;
  }
  /// Blocks that go over links of 2^bit, at most.
  [[nodiscard]] std::uint32_t blocks_at(std::uint32_t bit) const noexcept;
  [[nodiscard]] std::uint32_t messages_at(std::uint32_t bit) const noexcept {
    return (blocks_at(bit) + per_message_ - 1) / per_message_;
  }

  void add_reduction(std::uint32_t round, std::vector<Step>& steps) const;
  void add_doubling(std::uint32_t round, std::vector<Step>& steps) const;
  void add_relayed(std::uint32_t bit, std::uint32_t first, std::vector<Step>& steps) const;
  void add_tree(std::uint32_t bit, std::uint32_t first, std::vector<Step>& steps) const;

  Collective collective_;
  Ranks ranks_;
  std::uint32_t root_;
  std::uint32_t per_message_;
};

}  // namespace lend::group
