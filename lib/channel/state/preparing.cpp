// SPDX-License-Identifier: MIT OR Apache-2.0
// From options to a prepared channel. One thread at a time.
#include <channel/state/channel_state.hpp>
#include <channel/state/pool_state.hpp>
#include <channel/state/preparing.hpp>
#include <channel/state/set_state.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/receive_pool.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/queue/connection_settings.hpp>

#include <memory>
#include <string>
#include <utility>

namespace lend {

namespace {

/// The entries of the completion queue that a channel with `options`, which become complete, needs.
Result<std::uint32_t> completions_of(ProtectionDomain const& domain, ChannelOptions& options,
                                     bool has_pool) {
  std::chrono::nanoseconds const off{0}, interval = options.keep_alive.value_or(off);
  if (interval != off && interval < channel::keep_alive_shortest)
    return Error{Errc::invalid_argument, "keep_alive is " + std::to_string(interval.count()) +
                                             " ns; it must be 1 ms or more, or 0 for off"};
  options.queue_pair.probes = interval == off ? 0 : 1;
  auto const& depths = options.queue_pair;
  // Depths are checked before they are added, so that the sum cannot wrap.
  auto const context = domain.context();
  auto const& limits = context.limits();
  auto const requests_max = static_cast<std::uint32_t>(limits.work_requests_max);
  for (auto const& [name, depth] :
       {std::pair{"send_depth", depths.send_depth},
        std::pair{"receive_depth", has_pool ? 1 : depths.receive_depth}})
    if (depth == 0 || depth > requests_max)
      return verbs::beyond_limit(name, depth, requests_max, "work_requests_max", context.name());
  if (has_pool) options.queue_pair.receive_depth = 0;        // its pieces have room of their own
  std::uint32_t const completions_depth = depths.send_depth  // every send is signaled
                                          + depths.receive_depth  // so is every receive
                                          + depths.probes;        // and a keep-alive's probe
  if (std::cmp_greater(completions_depth, limits.completions_max))
    return Error{Errc::invalid_argument,
                 "send_depth " + std::to_string(depths.send_depth) + " and receive_depth " +
                     std::to_string(depths.receive_depth) + " need a completion queue of " +
                     std::to_string(completions_depth) + " entries; those of " + context.name() +
                     " have at most " + std::to_string(limits.completions_max) +
                     " (completions_max): ask for less of either"};
  return completions_depth;
}

}  // namespace

Result<PreparedChannel> channel::prepare_in(SetState& set, ProtectionDomain const& domain,
                                            ChannelOptions options, PoolState* pool,
                                            verbs::ServiceChoice service) {
  if (domain.context().native() != set.context().native())
    return Error{Errc::invalid_argument,
                 "the protection domain is of a Context of " + domain.context().name() +
                     ", the WaitSet of another one, of " + set.context().name() +
                     ": make both from one Context, or a set for each"};
  if (pool != nullptr && &pool->set() != &set)
    return Error{Errc::invalid_argument,
                 "the ReceivePool is of another WaitSet than the channel: give both the same set"};
  if (pool != nullptr && pool->native_domain() != domain.native())
    return Error{Errc::invalid_argument,
                 "the pieces of the ReceivePool are of another protection domain than the channel: "
                 "build it in theirs"};
  LEND_TRY(completions, completions_of(domain, options, pool != nullptr));
  options.wait = set.how();
  options.wait_set = nullptr;
  options.receive_pool = nullptr;
  LEND_TRY(progress, set.queue_with_room(completions, pool));
  return ChannelState::prepare(domain, std::move(progress), options, service, pool);
}

[[gnu::cold]] Result<PreparedChannel> channel::Preparing::prepare_chosen(
    ProtectionDomain const& domain, ChannelOptions options, verbs::ServiceChoice service) {
  if (options.wait_set != nullptr) {
    auto* const pool = options.receive_pool != nullptr ? &options.receive_pool->state() : nullptr;
    return channel::prepare_in(options.wait_set->state(), domain, std::move(options), pool,
                               service);
  }
  if (options.receive_pool != nullptr)
    return Error{Errc::invalid_argument,
                 "a channel with a ReceivePool joins the WaitSet of that pool: give wait_set, too"};
  LEND_TRY(depth, completions_of(domain, options, false));
  auto const wakeable = options.wait == Wait::spin    ? Wakeable::no
                        : options.wait == Wait::event ? Wakeable::yes
                                                      : Wakeable::if_spare;
  LEND_TRY(completions, CompletionQueue::create(domain.context(), depth, wakeable));
  return channel::ChannelState::prepare(
      domain, std::make_shared<channel::Progress>(completions, options.wait), options, service);
}

[[gnu::cold]] Result<PreparedChannel> channel::Preparing::prepare(
    ProtectionDomain const& domain, ChannelOptions const& wished, verbs::ServiceChoice service,
    std::chrono::nanoseconds usual_keep_alive) {
  verbs::ChosenKeepAlive keep_alive;
  if (service.service == Service::reliable_connection) {
    LEND_TRY(chosen, verbs::chosen_keep_alive(wished.keep_alive, usual_keep_alive));
    keep_alive = chosen;
  }
  ChannelOptions options = wished;
  options.keep_alive = keep_alive.interval;
  LEND_TRY(prepared, prepare_chosen(domain, std::move(options), service));
  ChannelState::of(prepared).keep_alive_from = keep_alive.from;
  return prepared;
}

Result<PreparedChannel> prepare_channel(ProtectionDomain const& domain,
                                        ChannelOptions const& options) {
  return channel::Preparing::prepare(domain, options);
}

}  // namespace lend
