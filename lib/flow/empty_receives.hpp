// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives without bytes, several by one call: for messages that are their immediate, or whose
// bytes are written elsewhere. The thread of the channel.
#pragma once

#include <channel/state/breaking.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>
#include <lend/verbs/work_request.hpp>
#include <verbs/post/posting.hpp>
#include <verbs/post/request.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace lend::flow {

/// The requests, which are linked once: of a post they differ in their ids.
class EmptyReceives {
 public:
  using Request = verbs::RequestOf<Receive>;
  static constexpr std::uint32_t at_once_max = 16;

  EmptyReceives() noexcept : requests_{} {
    for (auto& request : requests_) request.next = &request + 1;
  }
  EmptyReceives(EmptyReceives const&) = delete;
  EmptyReceives& operator=(EmptyReceives const&) = delete;

  /// Posts `count` receives of `scope`, and answers those that were posted, in order. Each has a
  /// handle, which is its id. Fewer: the channel is broken, because its peer counts on all.
  /// Shape: 1 to at_once_max; the channel has room for them, unless it is broken.
  [[nodiscard]] std::span<Request const> post(channel::ChannelState& channel,
                                              channel::ScopeRecord& scope,
                                              std::uint32_t count) noexcept;

 private:
  /// The device took the first `count`.
  void note_posted(channel::ChannelState& channel, channel::ScopeRecord& scope,
                   std::uint32_t count) noexcept;
  /// The device answered `result`, and, if that is clear, did not take `refused`.
  static void break_channel(channel::ChannelState& channel, int result, bool is_clear,
                            std::span<Request const> refused) noexcept;

  std::array<Request, at_once_max> requests_;
};

inline std::span<EmptyReceives::Request const> EmptyReceives::post(channel::ChannelState& channel,
                                                                   channel::ScopeRecord& scope,
                                                                   std::uint32_t count) noexcept {
  channel::ChannelState::Use const use{channel};
  if (channel.is_broken()) return {};  // and its queue pair may be gone
  std::span const all{requests_.data(), count};
  for (auto& request : all) {
    channel::Slot& slot = channel.in_flight.slots.next();
    channel::SlotId const id = channel.in_flight.slots.next_id();
    slot.pieces->loan.forget_where();
    channel.in_flight.open(slot, id, Operation::receive, scope, 0, channel::plain_and_held);
    request.wr_id = id.value;
  }
  auto* const behind = std::exchange(all.back().next, nullptr);
  Request* refused = nullptr;
  int const result = verbs::post_chain(channel.connection.raw(), all.front(), refused);
  all.back().next = behind;
  // Where the device fails and names none, it may have taken any of them.
  auto const taken =
      result == 0 || refused == nullptr ? count : static_cast<std::uint32_t>(refused - all.data());
  note_posted(channel, scope, taken);
  if (result != 0) [[unlikely]]
    break_channel(channel, result, refused != nullptr, all.subspan(taken));
  return all.first(taken);
}

inline void EmptyReceives::note_posted(channel::ChannelState& channel, channel::ScopeRecord& scope,
                                       std::uint32_t count) noexcept {
  channel::InFlight& in_flight = channel.in_flight;
  in_flight.note_posted(Operation::receive, scope, count);
  for (auto const& request : std::span{requests_.data(), count}) {
    channel::Slot& slot = in_flight.slots.tenant(channel::SlotId{request.wr_id});
    in_flight.observed.probe_post(slot, Operation::receive, slot.work.bytes);
    if (in_flight.observed.is_on()) [[unlikely]]
      in_flight.observed.post_any(slot, false);
  }
}

[[gnu::cold, gnu::noinline]] inline void EmptyReceives::break_channel(
    channel::ChannelState& channel, int result, bool is_clear,
    std::span<Request const> refused) noexcept {
  auto const& queue = channel.connection.raw();
  int const errno_value = verbs::errno_of(result);
  for (auto const& request : refused)
    channel.in_flight.cancel(channel.in_flight.slots.tenant(channel::SlotId{request.wr_id}));
  channel::break_with(
      channel, channel.connection.about(
                   is_clear ? verbs::device_refused(queue, Operation::receive, errno_value)
                            : verbs::device_unclear(queue, Operation::receive, errno_value)));
  channel::Ending{channel}.start_abort();  // the end of the channel tries again
}

}  // namespace lend::flow
