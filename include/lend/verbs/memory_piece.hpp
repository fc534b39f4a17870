// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements of a work request, and pieces that a region is cut into. Values; any thread.
#pragma once

#include <lend/base/byte_range.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>  // and std::ranges::enable_borrowed_range

namespace lend {

namespace verbs {
struct RegionState;
}

/// The offset of a range that leaves its piece: out of bounds of every region.
inline constexpr std::size_t outside_piece = SIZE_MAX;

/// A range of a region for the device to read. Names bytes, lends nothing yet. Must not outlive its
/// region, which ends when it is destroyed or assigned over; a moved region keeps its elements
/// valid. The post reports a range that is out of bounds.
struct GatherElement {
  verbs::RegionState* region = nullptr;
  ByteRange range;
};

/// A range of a region for the device to write; otherwise like GatherElement.
struct ScatterElement {
  verbs::RegionState* region = nullptr;
  ByteRange range;
};

template <class Piece>
class Chunks;
template <class Piece>
struct Halves;

/// A part of a region, to read and to lend for reading. Must not outlive its region, like
/// GatherElement.
///
/// Offsets count from the start of the piece. The post or bytes() reports a range that leaves the
/// piece as out of bounds. Pieces made by one chunks() or split_at() do not overlap.
class LEND_EXPORT ConstantPiece {
 public:
  ConstantPiece() = default;  ///< of no region: using it is an error

  [[nodiscard]] std::size_t size() const noexcept { return range_.length; }
  /// From the start of the region.
  [[nodiscard]] std::size_t offset() const noexcept { return range_.offset; }
  /// Index in chunks().
  [[nodiscard]] std::size_t index() const noexcept { return index_; }

  [[nodiscard]] GatherElement gather(std::size_t offset, std::size_t length) const noexcept {
    return {region_, within(offset, length)};
  }
  [[nodiscard]] GatherElement gather() const noexcept { return {region_, range_}; }

  /// As MemoryRegion::bytes().
  [[nodiscard]] Result<std::span<std::byte const>> bytes(std::size_t offset,
                                                         std::size_t length) const noexcept;
  [[nodiscard]] Result<std::span<std::byte const>> bytes() const noexcept {
    return bytes(0, size());
  }

  /// As MemoryRegion::chunks() and split_at().
  [[nodiscard]] Chunks<ConstantPiece> chunks(std::size_t chunk_bytes) const noexcept;
  [[nodiscard]] Result<Halves<ConstantPiece>> split_at(std::size_t offset) const noexcept;

 protected:
  template <class Piece>
  friend class Chunks;
  friend class MemoryRegion;
  ConstantPiece(verbs::RegionState* region, ByteRange range, std::size_t index) noexcept
      : region_{region}, range_{range}, index_{index} {}

  /// Relative to the region; out of its bounds if the range leaves this piece.
  [[nodiscard]] ByteRange within(std::size_t offset, std::size_t length) const noexcept {
    bool const fits = offset <= range_.length && length <= range_.length - offset;
    return {fits ? range_.offset + offset : outside_piece, length};
  }
  template <class Piece>
  [[nodiscard]] Result<Halves<Piece>> split_as(std::size_t offset) const noexcept;

  verbs::RegionState* region_ = nullptr;
  ByteRange range_{outside_piece, 0};
  std::size_t index_ = 0;
};

/// A part of a region, also to write and to lend for writing.
class LEND_EXPORT MemoryPiece : public ConstantPiece {
 public:
  MemoryPiece() = default;

  [[nodiscard]] ScatterElement scatter(std::size_t offset, std::size_t length) const noexcept {
    return {region_, within(offset, length)};
  }
  [[nodiscard]] ScatterElement scatter() const noexcept { return {region_, range_}; }

  /// As MemoryRegion::mutable_bytes().
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes(std::size_t offset,
                                                           std::size_t length) const noexcept;
  [[nodiscard]] Result<std::span<std::byte>> mutable_bytes() const noexcept {
    return mutable_bytes(0, size());
  }

  [[nodiscard]] Chunks<MemoryPiece> chunks(std::size_t chunk_bytes) const noexcept;
  [[nodiscard]] Result<Halves<MemoryPiece>> split_at(std::size_t offset) const noexcept;

 private:
  template <class Piece>
  friend class Chunks;
  friend class ConstantPiece;
  friend class MemoryRegion;
  using ConstantPiece::ConstantPiece;
};

/// The two parts that split_at() makes; one of them may be empty.
template <class Piece>
struct Halves {
  Piece head;
  Piece tail;
};

/// A region or piece cut into chunks of one size, the last of which may be shorter. A range for
/// `for`, with random access: chunks[i] beyond the end is an empty piece that is an error to use.
template <class Piece>
class Chunks {
 public:
  class Iterator {
   public:
    using value_type = Piece;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    [[nodiscard]] Piece operator*() const noexcept { return chunk_of(whole_, size_, index_); }
    Iterator& operator++() noexcept {
      ++index_;
      return *this;
    }
    Iterator operator++(int) noexcept {
      auto const before = *this;
      ++index_;
      return before;
    }
    friend bool operator==(Iterator const& a, Iterator const& b) noexcept {
      return a.index_ == b.index_;
    }

   private:
    friend class Chunks;
    Iterator(Chunks const& chunks, std::size_t index) noexcept
        : whole_{chunks.whole_}, size_{chunks.chunk_bytes_}, index_{index} {}
    ConstantPiece whole_{};
    std::size_t size_ = 1;
    std::size_t index_ = 0;
  };

  [[nodiscard]] std::size_t size() const noexcept {
    return whole_.size() / chunk_bytes_ + (whole_.size() % chunk_bytes_ != 0 ? 1 : 0);
  }
  [[nodiscard]] Piece operator[](std::size_t index) const noexcept {
    if (index >= size()) return Piece{whole_.region_, {outside_piece, 0}, index};
    return chunk_of(whole_, chunk_bytes_, index);
  }
  [[nodiscard]] Iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] Iterator end() const noexcept { return {*this, size()}; }

 private:
  friend class ConstantPiece;
  friend class MemoryPiece;
  Chunks(ConstantPiece const& whole, std::size_t chunk_bytes) noexcept
      : whole_{whole}, chunk_bytes_{chunk_bytes} {}

  /// The `index`-th, which exists.
  static Piece chunk_of(ConstantPiece const& whole, std::size_t chunk_bytes,
                        std::size_t index) noexcept {
    auto const offset = index * chunk_bytes;
    auto const left = whole.size() - offset;
    auto const length = chunk_bytes < left ? chunk_bytes : left;
    return Piece{whole.region_, {whole.offset() + offset, length}, index};
  }

  ConstantPiece whole_;
  std::size_t chunk_bytes_;
};

}  // namespace lend

/// Iterators refer to the piece, not to the Chunks.
template <class Piece>
inline constexpr bool std::ranges::enable_borrowed_range<lend::Chunks<Piece>> = true;
