// SPDX-License-Identifier: MIT OR Apache-2.0
// What a channel says of itself. The thread of the channel.
#include <base/error_details.hpp>
#include <channel/state/channel_state.hpp>
#include <lend/channel/channel.hpp>

#include <new>
#include <string>

namespace lend {

using channel::ChannelState;

namespace {

std::string address_of(Endpoint const& end) {
  return end.has_gid() ? text_of(end.gid) : "LID " + std::to_string(end.lid);
}

/// "3 of 128 sends"
std::string used(std::uint32_t outstanding, std::uint32_t depth, char const* what) {
  return std::to_string(outstanding) + " of " + std::to_string(depth) + ' ' + what;
}

std::string text_of(ChannelState const& channel) {
  auto const& connection = channel.connection;
  std::string text = "channel over " + channel.protection_domain().context().name() +
                     ": queue pair " + std::to_string(connection.number()) + " (";
  text += connection.is_gone() ? "destroyed" : name_of(connection.state());
  if (connection.is_for_datagrams())
    text += ") for datagrams, at " + address_of(connection.own());
  else
    text += ") toward " +
            base::named_peer(connection.peer_name(),
                             "queue pair " +
                                 std::to_string(connection.peer().queue_pair_number.value()) +
                                 " at " + address_of(connection.peer()));
  text += "; " +
          used(channel.in_flight.room.outstanding(Operation::send), channel.send_depth, "sends") +
          " and ";
  if (channel.has_pool)
    text += "the receives of a pool";
  else
    text += used(channel.in_flight.room.outstanding(Operation::receive), channel.receive_depth,
                 "receives");
  text += " outstanding; ";
  if (channel.inline_bytes != 0)
    text += "sends of up to " + std::to_string(channel.inline_bytes) + " bytes are copied; ";
  Error const* const cause = channel.failures.first_cause();
  return text + (cause == nullptr ? "it works" : "broken by: " + cause->message());
}

}  // namespace

std::string Channel::describe() const noexcept {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  try {
    return text_of(channel);
  } catch (std::bad_alloc const&) {
    return "out of memory";  // 13 characters: held in place, not allocated
  }
}

ProtectionDomain Channel::protection_domain() const noexcept {
  return ChannelState::of(*this).protection_domain();
}

ibv_qp* Channel::native() const noexcept {
  auto const& connection = ChannelState::of(*this).connection;
  return connection.is_gone() ? nullptr : connection.raw().raw.get();
}

}  // namespace lend
