// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes calls of arguments that are checked: those of the blocking collectives and of scopes. Any
// thread.
#pragma once

#include <group/call.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group_options.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lend::group {

/// The bytes of an element; {} has none.
/// Errors:  invalid_argument  out of bounds, or of a device's memory.
[[nodiscard]] Result<std::span<std::byte const>> bytes_of(GatherElement element);
[[nodiscard]] Result<std::span<std::byte>> bytes_of(ScatterElement element);

/// All of these return invalid_argument for lengths that do not fit and roots that do not exist.
class CheckedCalls {
 public:
  CheckedCalls(Ranks ranks, GroupOptions const& options, SourceLine where) noexcept
      : ranks_{ranks}, message_bytes_{options.message_bytes}, where_{where} {}

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

 private:
  [[nodiscard]] Result<void> check_root(std::uint32_t root) const;
  [[nodiscard]] Result<void> check_parts(std::size_t all, std::size_t own) const;
  [[nodiscard]] Result<void> check_rooted(std::uint32_t root, std::size_t all,
                                          std::size_t own) const;
  [[nodiscard]] Result<void> check_elements(Combining const& op, std::size_t bytes) const;

  Ranks ranks_;
  std::size_t message_bytes_;
  SourceLine where_;
};

}  // namespace lend::group
