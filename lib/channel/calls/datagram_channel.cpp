// SPDX-License-Identifier: MIT OR Apache-2.0
// Channels for datagrams: made, addressed, and their calls that are more than a post. The thread of
// the channel.
#include <base/giving_up.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/preparing.hpp>
#include <channel/work/drain.hpp>
#include <channel/work/handle_access.hpp>
#include <lend/channel/datagram_channel.hpp>
#include <verbs/post/destination.hpp>

namespace lend {

using channel::ChannelState;

Result<DatagramChannel> open_channel(ProtectionDomain const& domain,
                                     DatagramChannelOptions const& options) {
  ChannelOptions const complete{.queue_pair = options.queue_pair.complete(),
                                .wait = options.wait,
                                .wait_set = options.wait_set,
                                .tag = options.tag,
                                .observe = options.observe};
  LEND_TRY(prepared, channel::Preparing::prepare(
                         domain, complete, {Service::datagram, options.queue_pair.queue_key}));
  LEND_TRY(channel, ChannelState::activate(std::move(prepared)));
  return DatagramChannel{std::move(channel)};
}

// ---- addresses ----

Result<Destination> DatagramChannel::destination(Endpoint const& there) const {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  if (channel.connection.is_gone()) return channel.failures.broken_error();
  return verbs::DestinationAccess::at(channel.connection.raw(), there);
}

Result<Destination> DatagramChannel::destination(ReceivedDatagram const& datagram,
                                                 std::optional<std::uint32_t> queue_key) const {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  if (channel.connection.is_gone()) return channel.failures.broken_error();
  return verbs::DestinationAccess::back_to(channel.connection.raw(), datagram.sender,
                                           datagram.header,
                                           queue_key.value_or(address().queue_key));
}

// ---- blocking calls ----

Result<void> DatagramChannel::send_in_scope(Send const& work, Destination const& to,
                                            Deadline deadline, SourceLine where) noexcept {
  DatagramScope scope{*this};
  scope.drain_within(DatagramScope::drain_max);
  LEND_TRYV(scope.post_send(work, to, deadline, where));
  return scope.finish();
}

Result<ReceivedDatagram> DatagramChannel::receive(DatagramRoom const& room, Deadline deadline,
                                                  SourceLine where) noexcept {
  DatagramScope scope{*this};
  scope.drain_within(DatagramScope::drain_max);
  LEND_TRY(pending, scope.post_receive(room, deadline, where));
  auto got = pending.wait(deadline);
  bool const gave_up = !got.has_value() && base::is_given_up(got.error());
  // A failed poll leaves the room posted, too.
  if (gave_up || (!got.has_value() && got.error() == Errc::system_failed)) {
    auto const recalled = scope.recall(within(DatagramScope::drain_max));
    if (gave_up)
      got = base::gave_up(deadline, "no datagram came",
                          "; the room is the program's again, and the channel works on");
    // One that came while the room was recalled.
    auto const late = pending.poll();
    if (late.has_value() && late.value())
      got = *late.value();
    else if (!recalled)
      return recalled.error();
  }
  // The channel may have broken since: a datagram that came is the program's all the same.
  auto const finished = scope.finish();
  if (!finished && !got.has_value()) return finished.error();
  return got;
}

// ---- handles ----

ReceivedDatagram const& PendingDatagram::keep(WorkSuccess const& success) noexcept {
  // No request has the slot since: none was posted after the handle took its result.
  auto& row = channel::HandleAccess::channel_of(work_)->datagrams->row(base::SlotId{work_.id()});
  return got_.emplace(ReceivedDatagram{room_.message(static_cast<std::uint32_t>(success.bytes)),
                                       success.immediate, row.sender, row.header});
}

Result<std::optional<ReceivedDatagram>> PendingDatagram::poll() noexcept {
  if (got_) return got_;
  LEND_TRY(success, work_.poll());
  if (!success) return std::optional<ReceivedDatagram>{};
  return std::optional{keep(*success)};
}

Result<ReceivedDatagram> PendingDatagram::wait(Deadline deadline) noexcept {
  if (got_) return *got_;
  LEND_TRY(success, work_.wait(deadline));
  return keep(success);
}

// ---- scopes ----

DatagramBatch::DatagramBatch(PollingScope& scope) noexcept
    : Batch{scope.channel_, scope.ended_ ? nullptr : &scope.record()} {}

Result<void> DatagramScope::recall(Deadline deadline) noexcept {
  ChannelState* const state = record().channel;
  if (state == nullptr)
    return Error{Errc::stale_handle, "the scope has ended, or its channel is gone"};
  ChannelState::Use const use{*state};
  if (state->is_broken()) return state->failures.broken_error();
  if (auto failed = channel::Drain{*state}.recall_alone(record(), deadline))
    return std::move(*failed);
  return success();
}

}  // namespace lend
