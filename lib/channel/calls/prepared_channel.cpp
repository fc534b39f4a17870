// SPDX-License-Identifier: MIT OR Apache-2.0
// From a prepared channel to a connected one. One thread at a time.
#include <channel/state/channel_state.hpp>
#include <channel/work/general_post.hpp>
#include <lend/channel/prepared_channel.hpp>

#include <new>
#include <string>
#include <utility>

namespace lend {

using channel::ChannelState;

namespace {

// Lives whose endpoints are known for stale: memory must not grow with every life.
constexpr std::size_t earlier_connections_max = 1024;

/// Whose endpoint of a life before `peer` is, if it is one.
char const* earlier_owner_of(channel::EarlierConnections const& earlier,
                             Endpoint const& peer) noexcept {
  for (auto const& [its_own, its_peer] : earlier) {
    if (peer == its_peer) return "the peer's";
    if (peer == its_own) return "this side's own";
  }
  return nullptr;
}

Error used_up() {
  return Error{Errc::stale_handle, "this prepared channel was used before; build another"};
}

}  // namespace

void PreparedChannel::follow(ChannelState& before) noexcept {
  state_->keep_alive_from = before.keep_alive_from;
  auto& earlier = state_->earlier;
  earlier = std::move(before.earlier);
  try {
    if (earlier.size() == earlier_connections_max) earlier.erase(earlier.begin());
    earlier.emplace_back(before.connection.own(), before.connection.peer());
  } catch (std::bad_alloc const&) {
    // An endpoint of that life will not be called stale.
  }
}

PreparedChannel::PreparedChannel(std::unique_ptr<ChannelState> state) noexcept
    : state_{std::move(state)} {}
PreparedChannel::PreparedChannel(PreparedChannel&&) noexcept = default;
PreparedChannel& PreparedChannel::operator=(PreparedChannel&&) noexcept = default;
PreparedChannel::~PreparedChannel() = default;

ChannelState& PreparedChannel::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a PreparedChannel was used after it had been moved from");
  return *state_;
}

Endpoint const& PreparedChannel::endpoint() const noexcept {
  return state().connection.own();
}

Result<PendingWork> PreparedChannel::post_receive(Receive const& work, SourceLine where) noexcept {
  ChannelState& channel = state();
  ChannelState::Use const use{channel};
  if (channel.is_broken()) return channel.failures.broken_error();
  if (!channel.connection.is_prepared())
    return Error{Errc::invalid_argument,
                 "the queue pair was taken by take_queue_pair(); post receives before that, "
                 "or on the channel once it is adopted"};
  auto const posted =
      channel::try_once<channel::Lending::lends>(channel, work, channel.unscoped, where);
  if (!posted.has_value()) return channel::error_of(channel, work, posted.error(), where);
  return channel.handle_for(posted.value());
}

Result<Channel> PreparedChannel::handshake(Endpoint const& peer) && {
  if (char const* const owner =
          state_ != nullptr ? earlier_owner_of(state_->earlier, peer) : nullptr)
    return Error{Errc::incompatible_peer,
                 "this endpoint is stale: it is " + std::string{owner} +
                     " of a connection before prepare_again(), queue pair " +
                     std::to_string(peer.queue_pair_number.value()) +
                     ", which is gone. The peer must prepare again, too, and send its new "
                     "endpoint; this side can still connect to that"};
  auto state = std::move(state_);
  if (state == nullptr) return used_up();
  if (state->is_broken()) return state->failures.broken_error();
  LEND_TRYV(state->connection.connect(peer));
  state->begin();
  return Channel{std::move(state)};
}

Result<std::pair<Channel, Channel>> connect_local(PreparedChannel one, PreparedChannel other) {
  if (one.is_used_up() || other.is_used_up()) return used_up();
  Endpoint const address = one.endpoint();
  LEND_TRY(near, std::move(one).handshake(other.endpoint()));
  LEND_TRY(far, std::move(other).handshake(address));
  return std::pair{std::move(near), std::move(far)};
}

PreparedQueuePair PreparedChannel::take_queue_pair() noexcept {
  return state().connection.hand_out();
}

Result<Channel> PreparedChannel::adopt(QueuePair connected) && {
  auto state = std::move(state_);
  if (state == nullptr) return used_up();
  if (connected.native() == nullptr)
    return Error{Errc::invalid_argument,
                 "the queue pair given to adopt() was moved from; give the one it moved to"};
  if (state->is_broken() && state->connection.is_gone()) return state->failures.broken_error();
  if (!state->connection.is_own(connected))
    return Error{Errc::invalid_argument,
                 "queue pair " + std::to_string(connected.number().value()) +
                     " is not the one of take_queue_pair(), which had the number " +
                     std::to_string(state->connection.number()) + "; adopt that one"};
  state->connection.adopt(std::move(connected));
  state->begin();
  return Channel{std::move(state)};
}

}  // namespace lend
