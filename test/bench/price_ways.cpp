// SPDX-License-Identifier: MIT OR Apache-2.0
// The same operation by each layer, so that only the layer differs. One thread.
#include "price_together.hpp"

#include <verbs/memory/region_state.hpp>

#include <utility>

namespace lend::bench {

namespace {

Result<UnreliableChannel> connected_to_itself(ProtectionDomain const& domain,
                                              ChannelOptions const& options) {
  LEND_TRY(prepared, prepare_unreliable_channel(domain, {.observe = options.observe}));
  auto const itself = prepared.endpoint();
  return std::move(prepared).handshake(itself);
}

/// And its queue pair.
Result<std::pair<Channel, ibv_qp*>> channel_to_itself(ProtectionDomain const& domain,
                                                      ChannelOptions const& options) {
  LEND_TRY(prepared, prepare_channel(domain, options));
  auto const itself = prepared.endpoint();
  LEND_TRY(queue_pair, prepared.take_queue_pair().connect(itself));
  ibv_qp* const raw = queue_pair.native();
  LEND_TRY(channel, std::move(prepared).adopt(std::move(queue_pair)));
  return std::pair{std::move(channel), raw};
}

}  // namespace

Result<LoopBack> loop_back(ProtectionDomain const& domain, ChannelOptions const& options) {
  LEND_TRY(memory, domain.unsafe_allocate_exposed(4096, RemoteAccess::all));
  LEND_TRY(remote, memory.remote());
  LEND_TRY(channel, channel_to_itself(domain, options));
  LEND_TRY(beside, channel_to_itself(domain, options));
  verbs::RegionState const& state = *memory.gather().region;
  auto const address = reinterpret_cast<std::uint64_t>(state.address);
  auto const key = state.local_key;
  LEND_TRY(completions,
           CompletionQueue::create(domain.context(), 6 * QueuePairOptions{}.send_depth));
  LEND_TRY(bare, PreparedQueuePair::create(domain, completions, QueuePairOptions{}));
  auto const bare_itself = bare.endpoint();
  LEND_TRY(by_id, std::move(bare).connect(bare_itself));
  LEND_TRY(unreliable, connected_to_itself(domain, options));
  LEND_TRY(bare_unreliable, PreparedUnreliableQueuePair::create(domain, completions, {}));
  auto const unreliable_itself = bare_unreliable.endpoint();
  LEND_TRY(unreliable_by_id, std::move(bare_unreliable).connect(unreliable_itself));
  LEND_TRY(datagrams, open_channel(domain, {.observe = options.observe}));
  LEND_TRY(bare_datagrams, PreparedDatagramQueuePair::create(domain, completions, {}));
  LEND_TRY(datagrams_by_id, std::move(bare_datagrams).activate());
  LEND_TRY(to_itself, datagrams.destination(datagrams.address()));
  return LoopBack{std::move(memory),
                  std::move(channel.first),
                  std::move(beside.first),
                  remote,
                  channel.second,
                  beside.second,
                  key,
                  address,
                  std::move(completions),
                  std::move(by_id),
                  std::move(unreliable),
                  std::move(unreliable_by_id),
                  std::move(datagrams),
                  std::move(datagrams_by_id),
                  std::move(to_itself)};
}

namespace {

constexpr std::array alone{row<SendAlone>("send"), row<ReceiveAlone>("receive"),
                           row<WriteAlone>("write"), row<ReadAlone>("read"),
                           row<AtomicAlone>("atomic")};
constexpr std::array looped{
    row<SendAndReceive>("send + receive"), row<WriteAlone>("write"), row<ReadAlone>("read"),
    row<AtomicAlone>("atomic"),
    Row{"halo round", {&halo_by_verbs, nullptr, nullptr, nullptr, nullptr, &halo_by_scopes}, 0}};

}  // namespace

std::span<Row const> rows_alone() noexcept {
  return alone;
}
std::span<Row const> rows_looped() noexcept {
  return looped;
}

}  // namespace lend::bench
