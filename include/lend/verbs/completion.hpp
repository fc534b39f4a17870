// SPDX-License-Identifier: MIT OR Apache-2.0
// How one work request ended, status first. Values; any thread.
#pragma once

#include <lend/base/work_failure.hpp>

#include <cstdint>
#include <optional>
#include <variant>

namespace lend {

/// Work that succeeded.
struct CompletedWork {
  std::uint32_t bytes = 0;                   ///< received or read; 0 for sends and writes
  std::optional<std::uint32_t> immediate{};  ///< host order
  std::optional<std::uint32_t> returned{};   ///< key of a window that the peer's message has ended
};

/// Work that failed.
struct FailedWork {
  WorkStatus status{};
  std::uint32_t vendor_code = 0;
};

/// One entry of a completion queue. A failed one has no byte count and no immediate.
/// Source: ibv_poll_cq(3): on failure only wr_id, status, qp_num and vendor_err are valid.
struct Completion {
  std::uint64_t id = 0;  ///< as given to the post
  std::variant<CompletedWork, FailedWork> outcome{};

  [[nodiscard]] CompletedWork const* success() const noexcept {
    return std::get_if<CompletedWork>(&outcome);
  }
  [[nodiscard]] FailedWork const* failure() const noexcept {
    return std::get_if<FailedWork>(&outcome);
  }
};

}  // namespace lend
