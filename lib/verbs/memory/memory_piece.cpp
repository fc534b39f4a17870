// SPDX-License-Identifier: MIT OR Apache-2.0
// Pieces of a region: cutting, and asking the ledger. Any thread.
#include <lend/base/stop.hpp>
#include <lend/verbs/memory_piece.hpp>
#include <verbs/memory/region_state.hpp>

#include <string>

namespace lend {

namespace {

std::size_t checked(std::size_t chunk_bytes) noexcept {
  if (chunk_bytes == 0) stop("chunks of 0 bytes were asked for; choose 1 or more");
  return chunk_bytes;
}

}  // namespace

template <class Piece>
Result<Halves<Piece>> ConstantPiece::split_as(std::size_t offset) const noexcept {
  if (offset > range_.length)
    return Error{Errc::invalid_argument, std::to_string(range_.length) +
                                             " bytes cannot be split at offset " +
                                             std::to_string(offset) + "; keep it within them"};
  return Halves<Piece>{
      Piece{region_, {range_.offset, offset}, 0},
      Piece{region_, {range_.offset + offset, range_.length - offset}, 1},
  };
}

Result<std::span<std::byte const>> ConstantPiece::bytes(std::size_t offset,
                                                        std::size_t length) const noexcept {
  LEND_TRY(address, verbs::touch(region_, within(offset, length), base::LoanKind::shared));
  return std::span<std::byte const>{address, length};
}

Result<std::span<std::byte>> MemoryPiece::mutable_bytes(std::size_t offset,
                                                        std::size_t length) const noexcept {
  LEND_TRY(address, verbs::touch(region_, within(offset, length), base::LoanKind::exclusive));
  return std::span<std::byte>{address, length};
}

Chunks<ConstantPiece> ConstantPiece::chunks(std::size_t chunk_bytes) const noexcept {
  return {*this, checked(chunk_bytes)};
}

Chunks<MemoryPiece> MemoryPiece::chunks(std::size_t chunk_bytes) const noexcept {
  return {*this, checked(chunk_bytes)};
}

Result<Halves<ConstantPiece>> ConstantPiece::split_at(std::size_t offset) const noexcept {
  return split_as<ConstantPiece>(offset);
}

Result<Halves<MemoryPiece>> MemoryPiece::split_at(std::size_t offset) const noexcept {
  return split_as<MemoryPiece>(offset);
}

}  // namespace lend
