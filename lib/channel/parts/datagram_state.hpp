// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel for datagrams keeps of each request, besides its slot. The thread of the channel.
#pragma once

#include <base/slot_table.hpp>
#include <lend/verbs/datagram_work.hpp>
#include <verbs/post/destination.hpp>
#include <verbs/post/plain_work.hpp>
#include <verbs/queue/polling.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

namespace lend::channel {

/// Whether it is a receive of a datagram, and whether it is any work of a channel for them.
template <class Work>
inline constexpr bool is_room = std::same_as<Work, RoomReceive>;
template <class Work>
inline constexpr bool is_of_datagrams = is_room<Work> || std::same_as<Work, AddressedSend>;

/// Of one slot.
struct DatagramRow {
  std::shared_ptr<verbs::DestinationHandle const> destination{};  // of its last send
  ScatterElement room{};  // of a receive, and its place among all of them; then its sender:
  std::uint64_t posted_as = 0;
  DatagramSender sender{};
  std::array<std::byte, datagram_header_bytes> header{};
};

class DatagramState {
 public:
  explicit DatagramState(std::uint32_t slots) : rows_(slots) { list_.reserve(slots); }

  std::tuple<verbs::Form<AddressedSend>, verbs::Form<RoomReceive>> forms{};  // as a channel's

  [[nodiscard]] DatagramRow& row(base::SlotId id) noexcept { return rows_[id.index()]; }

  /// The device took the send, or a batch has it. It keeps its address handle until another one has
  /// its slot.
  void note_posted(base::SlotId id, AddressedSend const& work) noexcept {
    row(id).destination = verbs::DestinationAccess::handle_of(*work.to);
  }
  void note_posted(base::SlotId id, RoomReceive const& work) noexcept {
    row(id).room = work.target.only();
    row(id).posted_as = ++posted_;
  }
  /// A datagram came, and its room is still on loan: keeps who sent it, because the program may
  /// lend the room again before a handle takes the result.
  void note(base::SlotId id, verbs::CompletionEntry entry) noexcept;

  /// Until end_recall() receives that the device flushes are not failures.
  void begin_recall() noexcept { is_recalling_ = true; }
  void end_recall() noexcept {
    is_recalling_ = false;
    flushed_ = 0;
  }
  /// Whether the failed completion of a receive is one of those.
  [[nodiscard]] bool takes_back(verbs::CompletionEntry entry) noexcept;
  /// An empty list with room for all slots.
  [[nodiscard]] std::vector<base::SlotId>& begin_list() noexcept {
    list_.clear();
    return list_;
  }
  /// How many there were.
  [[nodiscard]] std::uint32_t flushed() const noexcept { return flushed_; }

 private:
  std::vector<DatagramRow> rows_;
  std::vector<base::SlotId> list_{};
  std::uint64_t posted_ = 0;
  bool is_recalling_ = false;
  std::uint32_t flushed_ = 0;
};

}  // namespace lend::channel
