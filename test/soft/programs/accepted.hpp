// SPDX-License-Identifier: MIT OR Apache-2.0
// A work request as the device was given it, and what became of it. Values; one thread.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lend::test {

/// A piece of memory that the device was given.
struct Piece {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t key = 0;

  [[nodiscard]] bool overlaps(Piece const& other) const noexcept {
    return length != 0 && other.length != 0 && address < other.address + other.length &&
           other.address < address + length;
  }
};

/// One work request that the device has accepted.
struct Accepted {
  enum class State : std::uint8_t {
    in_progress,  ///< the device may touch its bytes
    completed,    ///< lend has taken its completion
    destroyed,    ///< its queue pair was destroyed before that
  };
  std::uint64_t id = 0;
  std::uint32_t queue_pair = 0;
  bool is_receive = false;
  bool device_writes = false;   // into its pieces
  bool is_copied = false;       // it has the bytes of its pieces, and touches them no more
  ibv_ah const* way = nullptr;  // of a datagram
  bool is_fenced = false;
  bool is_solicited = false;
  bool is_silent = false;  // without a completion of its own if it succeeds
  std::vector<Piece> pieces{};

  State state = State::in_progress;
  ibv_wc_status status = IBV_WC_SUCCESS;
  std::uint32_t bytes_received = 0;
  std::optional<std::uint32_t> immediate{};
  // Of a receive that a message took:
  std::vector<std::byte> content{};
  std::uint32_t source = 0;  // queue pair, of a datagram
  bool has_header = false;   // likewise
  std::array<std::byte, 40> header{};
  std::uint64_t seen_at = 0;  ///< counts completions taken; those destroyed together share one

  [[nodiscard]] bool is_in_progress() const noexcept { return state == State::in_progress; }
  [[nodiscard]] bool has_succeeded() const noexcept {
    return state == State::completed && status == IBV_WC_SUCCESS;
  }
  [[nodiscard]] bool has_failed() const noexcept {
    return state == State::destroyed || (state == State::completed && status != IBV_WC_SUCCESS);
  }
  [[nodiscard]] std::uint32_t slot() const noexcept { return static_cast<std::uint32_t>(id); }
};

}  // namespace lend::test
