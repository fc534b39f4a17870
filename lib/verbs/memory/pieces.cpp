// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks parts, and joins their neighbours. Any thread.
#include <verbs/memory/pieces.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

namespace lend::verbs {

namespace {

Error wrong(std::string const& why) {
  return Error{Errc::invalid_argument, why};
}

/// Whether `count` steps of `stride` are at most `most`.
bool reaches_at_most(std::size_t count, std::size_t stride, std::size_t most) noexcept {
  return count == 0 || stride <= most / count;
}

Result<std::size_t> check(Blocks const& blocks, std::size_t values) {
  if (blocks.length == 0 || blocks.count == 0 || blocks.rows == 0) return 0;
  std::size_t left = values;
  auto const take = [&](std::size_t count, std::size_t stride) {
    if (!reaches_at_most(count, stride, left)) return false;
    left -= count * stride;
    return true;
  };
  if (!take(1, blocks.first) || !take(1, blocks.length) || !take(blocks.count - 1, blocks.stride) ||
      !take(blocks.rows - 1, blocks.row_stride))
    return wrong("blocks leave their region of " + std::to_string(values) + " values");
  // Overlapping blocks may have more values than the region.
  if (!reaches_at_most(blocks.count, blocks.length, SIZE_MAX / blocks.rows))
    return wrong("blocks overlap, and have more values than fit in memory");
  return blocks.rows * blocks.count * blocks.length;
}

/// Whether two of the blocks, which are in bounds, have a value in common: that is so if a row's
/// distance from another one differs from a multiple of the stride by less than a block.
bool overlap(Blocks const& blocks) noexcept {
  auto const [first, length, count, stride, rows, row_stride] = blocks;
  if (count > 1 && stride < length) return true;
  for (std::size_t row = 1; row < rows; ++row) {
    std::size_t const apart = row * row_stride;
    std::size_t const below = count > 1 ? std::min(apart / stride, count - 1) : 0;
    if (apart - below * stride < length) return true;
    if (below + 1 < count && (below + 1) * stride - apart < length) return true;
  }
  return false;
}

Result<std::size_t> check(Picked picked, std::size_t values) {
  for (std::uint32_t const index : picked)
    if (index >= values)
      return wrong("value " + std::to_string(index) + " is picked of a region of " +
                   std::to_string(values));
  return picked.size();
}

bool overlap(Picked picked) {
  if (std::ranges::is_sorted(picked)) return std::ranges::adjacent_find(picked) != picked.end();
  std::vector<std::uint32_t> sorted(picked.begin(), picked.end());
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) != sorted.end();
}

}  // namespace

Result<std::size_t> check_parts(std::variant<Blocks, Picked> const& which, std::size_t value_bytes,
                                std::size_t room, PartsAre are) noexcept try {
  if (value_bytes == 0) return wrong("parts of values without bytes");
  std::size_t const values = room / value_bytes;
  auto const checked = [&](auto const& parts) -> Result<std::size_t> {
    LEND_TRY(count, check(parts, values));
    if (are == PartsAre::written && count > 0 && overlap(parts))
      return wrong("parts overlap, so that bytes would be written twice");
    if (!reaches_at_most(count, value_bytes, SIZE_MAX))
      return wrong("parts overlap, and have more bytes than fit in memory");
    return count * value_bytes;
  };
  return std::visit(checked, which);
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Pieces::Pieces(std::variant<Blocks, Picked> const& which, std::size_t value_bytes) noexcept
    : value_bytes_{value_bytes} {
  if (Picked const* const picked = std::get_if<Picked>(&which))
    picked_ = *picked;
  else
    blocks_ = *std::get_if<Blocks>(&which);
  auto& [first, length, count, stride, rows, row_stride] = blocks_;
  if (length == 0 || count == 0) rows = 0;
  for (std::size_t* const each : {&first, &length, &stride, &row_stride}) *each *= value_bytes;
  if (count == 1) {
    count = rows;
    stride = row_stride;
    rows = rows > 0 ? 1 : 0;
  }
  // Blocks side by side are one, and so may be the rows that they make.
  for (int i = 0; i < 2 && stride == length; ++i) {
    length *= count;
    count = rows;
    stride = row_stride;
    rows = rows > 0 ? 1 : 0;
  }
  ahead_ = picked_.empty() ? next_block() : next_picked();
}

ByteRange Pieces::next_block() noexcept {
  if (row_ == blocks_.rows) return {};
  ByteRange const block{blocks_.first + row_ * blocks_.row_stride + column_ * blocks_.stride,
                        blocks_.length};
  if (++column_ == blocks_.count) {
    column_ = 0;
    ++row_;
  }
  return block;
}

ByteRange Pieces::next_picked() noexcept {
  if (picked_.empty()) return {};
  ByteRange const value{picked_.front() * value_bytes_, value_bytes_};
  picked_ = picked_.subspan(1);
  return value;
}

ByteRange Pieces::next() noexcept {
  ByteRange piece = ahead_;
  bool const are_blocks = blocks_.rows > 0;
  while (piece.length > 0) {
    ahead_ = are_blocks ? next_block() : next_picked();
    if (ahead_.length == 0 || ahead_.offset != piece.offset + piece.length) break;
    piece.length += ahead_.length;
  }
  return piece;
}

}  // namespace lend::verbs
