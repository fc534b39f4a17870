// SPDX-License-Identifier: MIT OR Apache-2.0
// What a rank is in, for the others to read by RDMA. The thread of the group writes; a device may
// read at any time, also in the middle of it.
#pragma once

#include <group/values/call.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace lend::group {

/// In the byte order of the hosts, as messages are. Whole words, as which it is written.
struct RankStatus {
  enum class State : std::uint8_t {
    idle,     ///< in no call: `number` is that of the last one, if not 0
    in_call,  ///< in this call
    broken,   ///< the group is broken at this rank
  };
  /// How far a team has come here.
  struct Entered {
    std::uint32_t team = 0, number = 0;  // number 0: none
  };
  /// The rank that a call waits for, where ranks have few links.
  struct Awaited {
    std::uint32_t rank = 0;
    bool is_missing = false;  ///< it had not entered the call when this rank looked
  };

  using Words = std::array<std::uint64_t, 16>;

  std::uint64_t checksum = 0;  ///< of the rest: a reader finds out that it read half of a change
  std::uint32_t team = 0, number = 0;
  std::uint64_t call_bytes = 0;
  std::uint32_t line = 0;
  std::uint16_t team_size = 0;  ///< 0: the whole group
  Collective collective{};
  State state{};
  std::uint32_t awaited = 0;       ///< 0: not known; 2 · rank + 2, and 1 more if it is missing
  std::array<Entered, 7> teams{};  ///< used last, the latest first
  std::array<char, 36> file{};     ///< the end of its name, padded with zeros

  /// Whether it had entered this call, or one after. Nothing: it cannot be told.
  [[nodiscard]] std::optional<bool> has_entered(std::uint32_t id,
                                                std::uint32_t call) const noexcept;
  /// What it waits for in this call; nothing if it is in another.
  [[nodiscard]] std::optional<Awaited> awaited_in(std::uint32_t id,
                                                  std::uint32_t call) const noexcept;
  /// What the rank is in, for people: "is in barrier 3 (solver.cpp:118)".
  [[nodiscard]] std::string text() const;

  /// As it was read. Nothing if it was written meanwhile, or is no record.
  [[nodiscard]] static std::optional<RankStatus> from(std::span<std::byte const> bytes) noexcept;
};
static_assert(sizeof(RankStatus) == sizeof(RankStatus::Words));

/// The record of this rank, in memory that peers may read, and behind it room for other things that
/// they may.
class OwnStatus {
 public:
  /// Errors:  those of ProtectionDomain::unsafe_allocate_exposed().
  [[nodiscard]] static Result<OwnStatus> create(ProtectionDomain const& domain,
                                                std::size_t room_bytes);

  [[nodiscard]] Result<RemoteRegion> remote() const noexcept { return memory_.remote(); }
  /// Aligned for any element.
  [[nodiscard]] std::byte* room() const noexcept { return place_ + sizeof(RankStatus); }
  /// Bytes of it, for the device to write.
  [[nodiscard]] ScatterElement room_target(ByteRange range) noexcept {
    return memory_.scatter(sizeof(RankStatus) + range.offset, range.length);
  }
  void enter(Membership const& team, Call const& call) noexcept;
  /// The call is over.
  void leave() noexcept;
  void set(RankStatus::State state) noexcept;
  /// What the call waits for.
  void set_awaited(std::uint32_t rank) noexcept;
  /// Which ranks it has found missing; until it waits for another.
  void set_missing(std::span<std::uint32_t const> ranks) noexcept;

 private:
  OwnStatus(MemoryRegion memory, std::byte* place) noexcept;
  void tell_awaited(std::uint32_t awaited) noexcept;
  /// Whether the record differs from that of this call in the call's number and state alone.
  [[nodiscard]] bool is_of(Membership const& team, Call const& call) const noexcept;
  /// Stores the words before `end` that have changed, and the checksum.
  void publish(std::size_t end) noexcept;
  /// The same of these words alone.
  template <std::size_t... indexes>
  void publish_words() noexcept;
  /// Returns the checksum's change.
  std::uint64_t publish_word(std::size_t index) noexcept;

  MemoryRegion memory_;
  std::byte* place_;            // in it
  char const* file_ = nullptr;  // whose name is in the record
  std::uint32_t awaited_ = 0;   // as in the record, without what is missing
  RankStatus record_{};
  RankStatus::Words published_{};  // what `place_` has
};

}  // namespace lend::group
