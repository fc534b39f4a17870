// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes calls of arguments that are checked: those of the blocking collectives and of scopes. Any
// thread.
#pragma once

#include <group/values/call.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group_options.hpp>
#include <lend/group/values.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::group {

/// The bytes of an element; {} has none.
/// Errors:  invalid_argument  out of bounds, or of a device's memory.
[[nodiscard]] Result<std::span<std::byte const>> bytes_of(GatherElement element);
[[nodiscard]] Result<std::span<std::byte>> bytes_of(ScatterElement element);
[[nodiscard]] Result<std::span<std::byte const>> bytes_of(GivenValues const& values);
[[nodiscard]] Result<std::span<std::byte>> bytes_of(GivenPlace const& place);

/// All of these return invalid_argument for lengths that do not fit and roots that do not exist.
class CheckedCalls {
 public:
  CheckedCalls(Membership const& team, GroupOptions const& options, SourceLine where) noexcept
      : ranks_{team.ranks},
        has_few_links_{team.has_few_links},
        message_bytes_{options.message_bytes},
        where_{where} {}

  using Bytes = std::span<std::byte const>;
  using Place = std::span<std::byte>;

  [[nodiscard]] Call barrier() const noexcept;
  [[nodiscard]] Result<Call> broadcast(std::uint32_t root, Place values) const;
  [[nodiscard]] Result<Call> gather(std::uint32_t root, Bytes own, Place all) const;
  [[nodiscard]] Result<Call> scatter(std::uint32_t root, Bytes all, Place own) const;
  [[nodiscard]] Result<Call> allgather(Bytes own, Place all) const;
  [[nodiscard]] Result<Call> all_to_all(Bytes from, Place to, std::size_t element_bytes) const;
  [[nodiscard]] Result<Call> reduce(std::uint32_t root, Combining op, Place values) const;
  [[nodiscard]] Result<Call> allreduce(Combining op, Place values) const;
  [[nodiscard]] Result<Call> reduce_scatter(Combining op, Bytes values, Place own) const;
  /// Shape:   `collective` is scan or exscan.
  [[nodiscard]] Result<Call> scan(Collective collective, Combining op, Place values) const;

  // Uneven parts; the call refers to `counts`. These return unsupported where ranks have few links.

  [[nodiscard]] Result<Call> gatherv(std::uint32_t root, Bytes own, PartCounts const& counts,
                                     Place all) const;
  [[nodiscard]] Result<Call> scatterv(std::uint32_t root, Bytes all, PartCounts const& counts,
                                      Place own) const;
  [[nodiscard]] Result<Call> allgatherv(Bytes own, PartCounts const& counts, Place all) const;
  [[nodiscard]] Result<Call> all_to_allv(Bytes from, PartCounts const& counts, Place to) const;

 private:
  [[nodiscard]] Result<void> check_root(std::uint32_t root) const;
  [[nodiscard]] Result<void> check_parts(std::size_t all, std::size_t own) const;
  [[nodiscard]] Result<void> check_rooted(std::uint32_t root, std::size_t all,
                                          std::size_t own) const;
  [[nodiscard]] Result<void> check_elements(Combining const& op, std::size_t bytes) const;

  using Counts = std::span<std::uint32_t const>;
  /// All parts together, and the own one.
  [[nodiscard]] Result<void> check_counts(Counts counts, std::size_t unit, std::size_t all,
                                          std::size_t own) const;
  /// The root has parts of all, the others none.
  [[nodiscard]] Result<void> check_uneven(std::uint32_t root, Counts counts, std::size_t unit,
                                          std::size_t all, std::size_t own) const;
  [[nodiscard]] Result<void> check_links() const;

  Ranks ranks_;
  bool has_few_links_;
  std::size_t message_bytes_;
  SourceLine where_;
};

}  // namespace lend::group
