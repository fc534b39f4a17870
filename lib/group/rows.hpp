// SPDX-License-Identifier: MIT OR Apache-2.0
// The rows of an exchange, and what two ranks compare of them. Values; any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/work_request.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lend::group {

/// A message of each run.
template <class Element>
struct Row {
  Row(std::uint32_t of, ElementList<Element> const& list, SourceLine described_at)
      : rank{of},
        where{described_at},
        elements(list.elements().begin(), list.elements().end()),
        bytes{list.bytes()} {}

  [[nodiscard]] ElementList<Element> list() const noexcept {
    return std::span<Element const>{elements};
  }

  std::uint32_t rank;
  SourceLine where;
  std::vector<Element> elements;
  std::uint64_t bytes;
  PollingScope* scope = nullptr;         // since the first run
  std::optional<MemoryRegion> packed{};  // of one with more elements than a request takes
  bool is_to_be_unpacked = false;        // since it was posted
};

/// Copies the row to its packed memory.
/// Errors:  already_borrowed  bytes of it are being received.
[[nodiscard]] Result<void> pack(Row<GatherElement>& row) noexcept;
/// The reverse.
/// Errors:  already_borrowed  bytes of it are on loan.
[[nodiscard]] Result<void> unpack(Row<ScatterElement>& row) noexcept;

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
};

}  // namespace lend::group
