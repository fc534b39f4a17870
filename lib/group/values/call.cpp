// SPDX-License-Identifier: MIT OR Apache-2.0
// What ranks compare: hashes of calls and of lists of ranks. Any thread.
#include <group/values/call.hpp>

#include <algorithm>

namespace lend::group {

namespace {

/// FNV-1a.
class Hash {
 public:
  void add(std::uint64_t value, int bytes = 8) noexcept {
    for (int i = 0; i < bytes; ++i, value >>= 8)
      value_ = (value_ ^ static_cast<std::uint32_t>(value & 0xff)) * 16777619u;
  }
  [[nodiscard]] std::uint32_t value() const noexcept { return value_; }

 private:
  std::uint32_t value_ = 2166136261u;
};

}  // namespace

std::uint32_t Membership::id_of(std::span<std::uint32_t const> members) noexcept {
  Hash hash;
  for (std::uint32_t const rank : members) hash.add(rank, 4);
  return hash.value();
}

std::uint32_t Call::signature() const noexcept {
  std::uint64_t value = 0;
  // By words, because each call is hashed. High bits of a product depend on all of its factors'.
  auto const add = [&value](std::uint64_t word) {
    value = (value ^ value >> 32 ^ word) * 0x9e3779b97f4a7c15;
  };
  add(static_cast<std::uint64_t>(collective) << 32 | root);
  add(block_bytes);
  add(op.element_bytes);
  for (char const letter : op.name) add(static_cast<unsigned char>(letter));
  // Elsewhere each pair of ranks compares the length of its part.
  if (layout().lengths == Lengths::known) {
    add(counts->unit);
    for (auto const count : counts->out) add(count);
  }
  return static_cast<std::uint32_t>(value >> 32);
}

namespace {

bool are_equal(PartCounts const& one, PartCounts const& other) noexcept {
  return one.unit == other.unit && std::ranges::equal(one.in, other.in) &&
         std::ranges::equal(one.out, other.out);
}

}  // namespace

bool Call::goes_on_with(Call const& other) const noexcept {
  return signature() == other.signature() && in.data() == other.in.data() &&
         in.size() == other.in.size() && out.data() == other.out.data() &&
         out.size() == other.out.size() && (!is_uneven() || are_equal(*counts, *other.counts));
}

std::string Call::text(Membership const& team) const {
  return text_of(collective, block_bytes) + " " + std::to_string(team.number) +
         (team.is_whole ? "" : " of a team of " + std::to_string(team.ranks.size)) + " (" +
         where.file + ":" + std::to_string(where.line) + ")";
}

}  // namespace lend::group
