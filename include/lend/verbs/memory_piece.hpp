// SPDX-License-Identifier: MIT OR Apache-2.0
// Pieces of a region: what is posted, and what it is cut into beforehand. Values; any thread.
#pragma once

#include <lend/base/borrow.hpp>
#include <lend/base/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <span>

namespace lend {

struct RegionState;

/// The offset of what leaves the piece that it was taken from: out of bounds of every region.
inline constexpr std::size_t outside_piece = SIZE_MAX;

/// A piece of a region for the device to read. A value naming bytes, not yet a loan; must not
/// outlive its region, which ends when it is destroyed or assigned over (moving it away takes its
/// elements along). A range out of bounds is reported when it is posted.
struct GatherElement {
  RegionState* region = nullptr;
  ByteRange range;
};

/// A piece of a region for the device to write. As GatherElement otherwise.
struct ScatterElement {
  RegionState* region = nullptr;
  ByteRange range;
};

template <class Piece>
class Chunks;
template <class Piece>
struct Halves;

/// Bytes of a region to read and to lend for reading. Must not outlive its region: as
/// GatherElement.
///
/// Ranges given to a piece count from its own start and may not leave it: what does is reported as
/// out of bounds, by the post or by bytes(). What chunks() or split_at() made does not overlap.
class ConstantPiece {
 public:
  ConstantPiece() = default;  ///< of no region: whatever is asked of it is an error

  [[nodiscard]] std::size_t size() const noexcept { return range_.length; }
  /// From the region's start.
  [[nodiscard]] std::size_t offset() const noexcept { return range_.offset; }
  /// Which of its chunks() this is.
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

  /// As MemoryRegion::chunks() and split_at(), of this piece.
  [[nodiscard]] Chunks<ConstantPiece> chunks(std::size_t chunk_bytes) const noexcept;
  [[nodiscard]] Result<Halves<ConstantPiece>> split_at(std::size_t offset) const noexcept;

 protected:
  template <class Piece>
  friend class Chunks;
  friend class MemoryRegion;
  ConstantPiece(RegionState* region, ByteRange range, std::size_t index) noexcept
      : region_{region}, range_{range}, index_{index} {}

  /// In the region's terms; out of the region's bounds where it leaves this piece.
  [[nodiscard]] ByteRange within(std::size_t offset, std::size_t length) const noexcept {
    bool const fits = offset <= range_.length && length <= range_.length - offset;
    return {fits ? range_.offset + offset : outside_piece, length};
  }
  template <class Piece>
  [[nodiscard]] Result<Halves<Piece>> split_as(std::size_t offset) const noexcept;

  RegionState* region_ = nullptr;
  ByteRange range_{outside_piece, 0};
  std::size_t index_ = 0;
};

/// The same, also to write and to lend for writing.
class MemoryPiece : public ConstantPiece {
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

/// What split_at() makes: all before, and all from there on. One of them may have no bytes.
template <class Piece>
struct Halves {
  Piece head;
  Piece tail;
};

/// A region or piece cut into chunks of one size, the last of which may be shorter. A range for
/// `for`, and an array: chunks[i] is the i-th, and one that is not there is of no bytes and an
/// error to use.
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

  /// The `index`-th, which is there.
  static Piece chunk_of(ConstantPiece const& whole, std::size_t chunk_bytes,
                        std::size_t index) noexcept {
    auto const offset = index * chunk_bytes;
    auto const length = std::min(chunk_bytes, whole.size() - offset);
    return Piece{whole.region_, {whole.offset() + offset, length}, index};
  }

  ConstantPiece whole_;
  std::size_t chunk_bytes_;
};

}  // namespace lend

/// Its iterators keep the piece, not the Chunks.
template <class Piece>
inline constexpr bool std::ranges::enable_borrowed_range<lend::Chunks<Piece>> = true;
