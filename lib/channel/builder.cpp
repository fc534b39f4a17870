// SPDX-License-Identifier: MIT OR Apache-2.0
// From options to a prepared channel. One thread at a time.
#include <channel/channel_state.hpp>
#include <lend/channel/builder.hpp>
#include <verbs/limits.hpp>

#include <memory>
#include <string>
#include <utility>

namespace lend {

Result<PreparedChannel> prepare_channel(ProtectionDomain const& domain,
                                        ChannelOptions const& wished) {
  if (wished.keep_alive != wished.keep_alive.zero() &&
      wished.keep_alive < channel::keep_alive_shortest)
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
      return verbs::beyond_limit(name, depth, requests_max, "work_requests_max", context.name());
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
  return channel::ChannelState::prepare(
      domain, std::make_shared<channel::Progress>(completions, options.wait), options);
}

}  // namespace lend
