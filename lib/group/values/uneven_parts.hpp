// SPDX-License-Identifier: MIT OR Apache-2.0
// Parts one behind the other, each with a length of its own. The thread of the group.
#pragma once

#include <group/values/call.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lend::group {

/// A copy of PartCounts, which refer to the caller's memory.
class OwnCounts {
 public:
  /// Throws std::bad_alloc.
  void assign(PartCounts const& counts) {
    in_.assign(counts.in.begin(), counts.in.end());
    out_.assign(counts.out.begin(), counts.out.end());
    own_ = {in_, out_, counts.unit};
  }
  [[nodiscard]] PartCounts const& get() const noexcept { return own_; }

 private:
  std::vector<std::uint32_t> in_{}, out_{};
  PartCounts own_{};
};

/// Where such parts are.
class UnevenParts {
 public:
  /// Of so many units. None: one part of `bytes`.
  /// Throws std::bad_alloc.
  void assign(std::span<std::uint32_t const> counts, std::size_t unit, std::size_t bytes) {
    offsets_.assign(1, 0);
    for (auto const count : counts) offsets_.push_back(offsets_.back() + count * unit);
    if (counts.empty()) offsets_.push_back(bytes);
  }
  [[nodiscard]] std::size_t offset(std::uint32_t part) const noexcept { return offsets_[part]; }
  [[nodiscard]] std::size_t bytes(std::uint32_t part) const noexcept {
    return offsets_[part + 1] - offsets_[part];
  }
  [[nodiscard]] std::size_t longest() const noexcept {
    std::size_t longest = 0;
    for (std::uint32_t part = 0; part + 1 < offsets_.size(); ++part)
      longest = std::max(longest, bytes(part));
    return longest;
  }
  /// One of `all`.
  template <class Byte>
  [[nodiscard]] std::span<Byte> of(std::span<Byte> all, std::uint32_t part) const noexcept {
    return all.subspan(offset(part), bytes(part));
  }

 private:
  std::vector<std::size_t> offsets_{};
};

}  // namespace lend::group
