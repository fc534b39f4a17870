// SPDX-License-Identifier: MIT OR Apache-2.0
// Any thread.
#include <group/schedule/long_schedule.hpp>
#include <group/values/partition.hpp>

#include <algorithm>

namespace lend::group {

namespace {

constexpr std::size_t line_bytes = 64;

constexpr std::size_t quotient_up(std::size_t value, std::size_t by) noexcept {
  return (value + by - 1) / by;
}

}  // namespace

Partition::Partition(Call const& call, std::uint32_t size) noexcept
    : part_bytes_{call.block_bytes},
      unit_{line_bytes % call.op.element_bytes == 0 ? line_bytes : call.op.element_bytes},
      blocks_{blocks_of(call.collective, size)},
      is_divided_{is_divided(call.collective)} {
  auto const room = is_divided_ ? long_buffer_bytes : long_buffer_bytes / blocks_;
  buffer_step_ = room / unit_ * unit_;
  // As long as each other, so that no short one comes last.
  pieces_ = static_cast<std::uint32_t>(quotient_up(part_bytes_, buffer_step_));
  piece_bytes_ = quotient_up(quotient_up(part_bytes_, pieces_), unit_) * unit_;
}

std::size_t Partition::length_of(std::uint32_t piece) const noexcept {
  auto const before = std::min(part_bytes_, piece * piece_bytes_);
  return std::min(piece_bytes_, part_bytes_ - before);
}

ByteRange Partition::in_piece(std::uint32_t piece, std::uint32_t block) const noexcept {
  auto const length = length_of(piece);
  if (!is_divided_) return {0, length};
  auto const step = quotient_up(quotient_up(length, blocks_), unit_) * unit_;
  auto const begin = std::min(length, block * step);
  return {begin, std::min(step, length - begin)};
}

ByteRange Partition::in_values(std::uint32_t piece, std::uint32_t block) const noexcept {
  auto const [begin, length] = in_piece(piece, block);
  auto const part = is_divided_ ? 0 : block * part_bytes_;
  return {part + piece * piece_bytes_ + begin, length};
}

ByteRange Partition::in_exposed(std::uint32_t piece, std::uint32_t block) const noexcept {
  auto const [begin, length] = in_piece(piece, block);
  return {is_divided_ ? begin : block * buffer_step_, length};
}

}  // namespace lend::group
