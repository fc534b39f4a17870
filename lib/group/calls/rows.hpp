// SPDX-License-Identifier: MIT OR Apache-2.0
// The rows of an exchange, and what two ranks compare of them. Values; any thread.
#pragma once

#include <group/link/row_box.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/parts.hpp>
#include <lend/verbs/remote_region.hpp>
#include <lend/verbs/work_request.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lend::group {

/// Pieces of one length at equal distances, in bytes from the region's begin.
struct Run {
  std::size_t first, length, count, stride;
};

/// What a row has of one region: its pieces, in their order.
struct RowPart {
  verbs::RegionState* region;
  std::vector<Run> runs{};
  std::size_t pieces = 0;
  std::size_t begin = SIZE_MAX, end = 0;  // of all of them

  /// One that lies in the region.
  void add(ByteRange piece);
  [[nodiscard]] ByteRange hull() const noexcept {
    return pieces > 0 ? ByteRange{begin, end - begin} : ByteRange{};
  }
};

/// A message of each run.
template <class Element>
struct Row {
  Row(std::uint32_t of, SourceLine described_at) : rank{of}, where{described_at} {}
  Row(std::uint32_t of, ElementList<Element> const& list, SourceLine described_at)
      : rank{of},
        where{described_at},
        bytes{list.bytes()},
        elements(list.elements().begin(), list.elements().end()) {}
  /// Errors:  those of check_parts().
  [[nodiscard]] Result<void> add(PartsOf<Element> const& part);

  /// Whether this thread can copy it.
  [[nodiscard]] bool is_of_host() const noexcept;
  /// Copies its bytes to `to`, or from there to their place.
  /// Errors:  already_borrowed  bytes of it are on loan.
  ///          invalid_argument  some are out of bounds.
  [[nodiscard]] Result<void> copy_to(std::byte* to) const noexcept;
  /// Its bytes one behind the other: where they lie, or copied to `room`.
  /// Errors:  those of copy_to().
  [[nodiscard]] Result<std::byte const*> together(std::byte* room) const noexcept;
  [[nodiscard]] Result<void> copy_from(std::byte const* from) noexcept;
  /// Where they lie one behind the other, if few instructions find that this thread may touch them.
  /// Null: the calls above decide.
  [[nodiscard]] std::byte* at_once() const noexcept;

  /// Makes elements of the parts, at most `most`, or the reverse. Whether there are elements now.
  /// Errors:  invalid_argument  what is to be copied is a device's memory, or out of bounds.
  [[nodiscard]] Result<bool> take_elements(std::size_t most);
  [[nodiscard]] ElementList<Element> list() const noexcept {
    return std::span<Element const>{elements};
  }

  std::uint32_t rank;
  SourceLine where;
  std::uint64_t bytes = 0;
  std::vector<Element> elements{};       // of a list; of others once a request takes them
  std::vector<RowPart> parts{};          // of others, and of what is copied
  PollingScope* scope = nullptr;         // since the first run
  std::optional<Element> only{};         // of its request, if that has one
  std::optional<MemoryRegion> packed{};  // of what is copied
  bool is_to_be_unpacked = false;        // since it was posted
  // Of one that is written:
  std::optional<std::size_t> place{};        // in its reader's box
  channel::ChannelState* channel = nullptr;  // to its rank
  PeerBox const* box = nullptr;              // of the rank to which it is sent
  std::vector<std::byte> values{};           // room for its bytes
  std::byte const* came = nullptr;           // where they are, once it has come
  bool has_come = true;                      // false while it is awaited
  bool is_told = true;                       // by a call, of this run
};

/// The rows of one direction between two ranks: how many there are, and a hash of their lengths.
struct RowsDigest {
  std::uint64_t count = 0;
  std::uint64_t hash = 0xcbf29ce484222325;

  /// Source: FNV-1a, over words.
  void add(std::uint64_t bytes) noexcept {
    ++count;
    hash = (hash ^ bytes) * 0x100000001b3;
  }
  friend bool operator==(RowsDigest const&, RowsDigest const&) = default;
};

/// What a rank sends to a peer before its first rows.
struct RowsNote {
  RowsDigest sent{}, received{};
  std::uint64_t writes = 0;  ///< 1: short rows, also the peer's, are written, if the peer says so
  std::array<std::byte, RemoteRegion::encoded_size> box{};  ///< for those of the peer, if any
};

/// Of this rank's note to `rank`, and that one's to this.
/// Errors:  disagreement  one of them does not send what the other receives.
[[nodiscard]] inline Result<void> compare(RowsNote const& ours, RowsNote const& theirs,
                                          std::uint32_t rank) {
  auto const text_of = [](RowsDigest const& rows) {
    return std::to_string(rows.count) + (rows.count == 1 ? " row" : " rows");
  };
  auto const differs = [&](RowsDigest const& sends, RowsDigest const& receives,
                           std::string const& sender, std::string const& receiver) {
    return Error{
        Errc::disagreement,
        sender + " sends " + text_of(sends) + " to " + receiver + ", which receives " +
            (sends.count == receives.count ? "as many, of other lengths" : text_of(receives)) +
            ": the n-th row sent meets the n-th received, of as many bytes"};
  };
  auto const other = "rank " + std::to_string(rank);
  if (ours.sent != theirs.received) return differs(ours.sent, theirs.received, "this rank", other);
  if (ours.received != theirs.sent) return differs(theirs.sent, ours.received, other, "this rank");
  return success();
}

}  // namespace lend::group
