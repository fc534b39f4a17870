// SPDX-License-Identifier: MIT OR Apache-2.0
// From options to a prepared channel, and from that to a channel. One thread at a time.
#include <channel/channel_state.hpp>
#include <lend/channel/builder.hpp>
#include <verbs/adoption.hpp>
#include <verbs/limits.hpp>

#include <new>
#include <string>
#include <utility>

namespace lend {

namespace {

// Lives whose endpoints are known for stale: memory must not grow with every life.
constexpr std::size_t past_lives_max = 1024;

}  // namespace

struct PreparedChannel::Parts {
  ProtectionDomain domain;
  CompletionQueue completions;
  PreparedQueuePair queue_pair;
  ChannelOptions options;
  Endpoint endpoint;
  std::uint64_t serial;  // of queue_pair, also when it was taken
  PastLives past{};

  /// Whose endpoint of a life before `peer` is, if it is one.
  [[nodiscard]] char const* past_owner_of(Endpoint const& peer) const noexcept {
    for (auto const& [its_own, its_peer] : past) {
      if (peer == its_peer) return "the peer's";
      if (peer == its_own) return "this side's own";
    }
    return nullptr;
  }

  /// Uses this up.
  [[nodiscard]] Result<Channel> channel_over(QueuePair connected) {
    auto state = ChannelState::make(domain, completions, std::move(connected), options);
    if (state == nullptr) return Errc::exhausted;
    state->past = std::move(past);
    return Channel{std::move(state)};
  }
};

void PreparedChannel::follow(Endpoint const& own, Endpoint const& peer) noexcept {
  auto& past = parts_->past;
  try {
    if (past.size() == past_lives_max) past.erase(past.begin());
    past.emplace_back(own, peer);
  } catch (std::bad_alloc const&) {
    // An endpoint of that life will not be called stale.
  }
}

PreparedChannel::PreparedChannel(std::unique_ptr<Parts> parts) noexcept
    : parts_{std::move(parts)} {}
PreparedChannel::PreparedChannel(PreparedChannel&&) noexcept = default;
PreparedChannel& PreparedChannel::operator=(PreparedChannel&&) noexcept = default;
PreparedChannel::~PreparedChannel() = default;

Endpoint const& PreparedChannel::endpoint() const noexcept {
  if (parts_ == nullptr) [[unlikely]]
    stop("a PreparedChannel was used after it had been moved from");
  return parts_->endpoint;
}

Result<Channel> PreparedChannel::handshake(Endpoint const& peer) && {
  if (char const* const owner = parts_ != nullptr ? parts_->past_owner_of(peer) : nullptr)
    return Error{Errc::incompatible_peer,
                 "this endpoint is stale: it is " + std::string{owner} +
                     " of the channel before a prepare_again(), queue pair " +
                     std::to_string(peer.queue_pair_number.value()) +
                     ", which is gone. The peer must prepare again, too, and give its new "
                     "endpoint; this side can still connect to that"};
  auto const parts = std::move(parts_);
  if (parts == nullptr)
    return Error{Errc::stale_handle, "this prepared channel was used up; build another"};
  LEND_TRY(queue_pair, std::move(parts->queue_pair).connect(peer));
  return parts->channel_over(std::move(queue_pair));
}

PreparedQueuePair PreparedChannel::take_queue_pair() noexcept {
  if (parts_ == nullptr) [[unlikely]]
    stop("a PreparedChannel was used after it had been moved from");
  return std::move(parts_->queue_pair);
}

Result<Channel> PreparedChannel::adopt(QueuePair connected) && {
  auto const parts = std::move(parts_);
  if (parts == nullptr)
    return Error{Errc::stale_handle, "this prepared channel was used up; build another"};
  if (connected.native() == nullptr)
    return Error{Errc::invalid_argument,
                 "the queue pair given to adopt() was moved from; give the one it moved to"};
  if (QueuePairDoor::handle_of(connected).serial != parts->serial)
    return Error{Errc::invalid_argument,
                 "queue pair " + std::to_string(connected.number().value()) +
                     " is not the one that take_queue_pair() handed out, which had the number " +
                     std::to_string(parts->endpoint.queue_pair_number.value()) +
                     "; adopt that one"};
  return parts->channel_over(std::move(connected));
}

Result<PreparedChannel> prepare_channel(ProtectionDomain const& domain,
                                        ChannelOptions const& wished) {
  if (wished.keep_alive != wished.keep_alive.zero() && wished.keep_alive < keep_alive_shortest)
    return Error{Errc::invalid_argument, "keep_alive is " +
                                             std::to_string(wished.keep_alive.count()) +
                                             " ns; it must be 1 ms or more, or 0 for off"};
  ChannelOptions options = wished;
  options.queue_pair.probes = wished.keep_alive == wished.keep_alive.zero() ? 0 : 1;
  auto const& depths = options.queue_pair;
  // Depths are checked before they are added, so that the sum cannot wrap.
  auto const context = domain.context();
  auto const& limits = context.limits();
  auto const requests_max = static_cast<std::uint32_t>(limits.work_requests_max);
  for (auto const& [name, depth] : {std::pair{"send_depth", depths.send_depth},
                                    std::pair{"receive_depth", depths.receive_depth}})
    if (depth == 0 || depth > requests_max)
      return beyond_limit(name, depth, requests_max, "work_requests_max", context.name());
  std::uint32_t const completions_depth = depths.send_depth       // every send is signaled
                                          + depths.receive_depth  // so is every receive
                                          + depths.probes;        // and a keep-alive's probe
  if (std::cmp_greater(completions_depth, limits.completions_max))
    return Error{Errc::invalid_argument,
                 "send_depth " + std::to_string(depths.send_depth) + " and receive_depth " +
                     std::to_string(depths.receive_depth) + " need a completion queue of " +
                     std::to_string(completions_depth) + " entries; those of " + context.name() +
                     " have at most " + std::to_string(limits.completions_max) +
                     " (completions_max): ask for less of either"};
  auto const wakeable = options.wait == Wait::spin    ? Wakeable::no
                        : options.wait == Wait::event ? Wakeable::yes
                                                      : Wakeable::if_spare;
  LEND_TRY(completions, CompletionQueue::create(context, completions_depth, wakeable));
  LEND_TRY(queue_pair, PreparedQueuePair::create(domain, completions, options.queue_pair));
  Endpoint const endpoint = queue_pair.endpoint();
  auto const serial = QueuePairDoor::handle_of(queue_pair)->serial;
  std::unique_ptr<PreparedChannel::Parts> parts{new (std::nothrow) PreparedChannel::Parts{
      domain, completions, std::move(queue_pair), options, endpoint, serial}};
  if (parts == nullptr) return Errc::exhausted;
  return PreparedChannel{std::move(parts)};
}

}  // namespace lend
