// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects the two channels of a bench. One thread.
#include <lend/base/deadline.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/unsafe.hpp>
#include <lend/open_device.hpp>

#include <base/wire.hpp>
#include <channel/work/access.hpp>
#include <tools/bench/line.hpp>
#include <tools/secret_file.hpp>

#include <algorithm>
#include <array>
#include <chrono>

namespace lend::tools {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t talk_bytes = 128;
constexpr std::size_t plan_bytes = 9;
constexpr std::size_t card_bytes = Endpoint::encoded_size + RemoteRegion::encoded_size + plan_bytes;
static_assert(card_bytes <= talk_bytes);
constexpr std::size_t order_bytes = 20;
constexpr std::uint8_t order_form = 1;

/// A peer that dies is noticed while this end waits for it.
constexpr auto keep_alive = 1s;

template <std::size_t Count>
std::uint8_t index_of(std::array<std::string_view, Count> const& words, std::string_view word) {
  return static_cast<std::uint8_t>(std::ranges::find(words, word) - words.begin());
}

/// A slot of the memory of a talk: the first has what is said, the others what comes.
ScatterElement slot_of(MemoryRegion& memory, std::size_t i) {
  return memory.scatter((1 + i) * talk_bytes, talk_bytes);
}

Result<PreparedChannel> prepare(Joining const& joining, ProtectionDomain const& domain,
                                ChannelOptions const& options) {
  // On iWARP rdma_cm tells, and the end that accepted must not be the first to send.
  return channel::Preparing::prepare(domain, options, {}, joining.is_by_cm() ? 0s : keep_alive);
}

}  // namespace

Result<std::unique_ptr<BenchLine::Talk>> BenchLine::Talk::join(Joining& joining,
                                                               ProtectionDomain const& domain,
                                                               std::chrono::nanoseconds patience) {
  LEND_TRY(memory, domain.allocate((1 + ahead) * talk_bytes));
  ChannelOptions options{.wait = Wait::event};
  options.queue_pair.send_depth = options.queue_pair.receive_depth = 4;
  LEND_TRY(prepared, prepare(joining, domain, options));
  std::array<std::optional<PendingWork>, ahead> arrivals;
  for (std::size_t i = 0; i < ahead; ++i) {
    LEND_TRY(arrival, prepared.post_receive(slot_of(memory, i)));
    arrivals[i] = std::move(arrival);
  }
  LEND_TRY(channel, joining.first(std::move(prepared)));
  return std::make_unique<Talk>(
      Talk{std::move(memory), std::move(channel), patience, std::move(arrivals)});
}

Result<void> BenchLine::Talk::say(std::span<std::byte const> message) {
  LEND_TRY(bytes, memory.mutable_bytes(0, message.size()));
  std::ranges::copy(message, bytes.begin());
  return channel.send(memory.gather(0, message.size()));
}

Result<void> BenchLine::Talk::hear(std::span<std::byte> message, Deadline deadline) {
  auto const i = heard % ahead;
  LEND_TRY(arrived, arrivals[i]->wait(deadline));
  if (arrived.bytes != message.size())
    return Error{Errc::incompatible_peer, "the peer sent a message of " +
                                              std::to_string(arrived.bytes) + " bytes and not of " +
                                              std::to_string(message.size())};
  LEND_TRY(bytes, memory.bytes((1 + i) * talk_bytes, message.size()));
  std::ranges::copy(bytes, message.begin());
  // SAFETY: the memory outlives the channel, and nothing else uses the slot until the next arrival.
  LEND_TRY(next, unsafe_post_receive(channel, slot_of(memory, i)));
  arrivals[i] = std::move(next);
  ++heard;
  return success();
}

Result<void> BenchLine::Talk::swap(std::span<std::byte> message, bool near) {
  std::vector<std::byte> const ours{message.begin(), message.end()};
  if (near) {
    LEND_TRYV(say(ours));
  }
  LEND_TRYV(hear(message, within(patience)));
  return near ? success() : say(ours);
}

Result<BenchLine> BenchLine::make(BenchOptions const& options, bool near, BenchPlace const& place,
                                  Joining joining) {
  LEND_TRY(device,
           open_device(options.device.empty() ? DeviceChoice::either()
                                              : DeviceChoice::named(std::string{options.device})));
  LEND_TRYV(joining.use(device));
  if (place.bind) place.bind(device);
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(talk, Talk::join(joining, domain, place.patience));
  BenchLine line{device, std::move(talk)};
  Plan const plan{std::ranges::max(options.sizes), options.own_memory};
  LEND_TRYV(line.make_end(joining, domain, plan, near, place.one_core));
  return line;
}

Result<std::pair<MemoryRegion, MemoryRegion>> BenchLine::make_regions(
    ProtectionDomain const& domain, Plan plan) {
  auto const local = local_bytes_for(plan.largest), open = exposed_bytes_for(plan.largest);
  if (plan.own_memory) {
    own_.resize(local + open);
    auto const all = std::span{own_};
    LEND_TRY(memory, domain.register_memory(all.first(local)));
    // SAFETY: what the bytes are does not matter.
    LEND_TRY(exposed, domain.unsafe_register_exposed(all.last(open), RemoteAccess::read_write));
    return std::pair{std::move(memory), std::move(exposed)};
  }
  LEND_TRY(memory, domain.allocate(local));
  // SAFETY: what the bytes are does not matter.
  LEND_TRY(exposed, domain.unsafe_allocate_exposed(open, RemoteAccess::read_write));
  return std::pair{std::move(memory), std::move(exposed)};
}

Result<void> BenchLine::make_end(Joining& joining, ProtectionDomain const& domain, Plan plan,
                                 bool near, bool one_core) {
  std::array<std::byte, card_bytes> card{};
  auto& talk = *talk_;
  if (!near) {  // the near end says how much memory it takes
    LEND_TRYV(talk.hear(card, within(talk.patience)));
    base::WireReader reader{std::span{card}.last(plan_bytes)};
    plan = {reader.u64(), reader.u8() == 1};
    if (plan.largest == 0 || plan.largest > message_bytes_max)
      return Error{Errc::incompatible_peer,
                   "the peer asks for messages of " + std::to_string(plan.largest) + " bytes"};
  }
  LEND_TRY(regions, make_regions(domain, plan));
  auto& [memory, exposed] = regions;
  LEND_TRY(prepared, prepare(joining, domain, {.wait = one_core ? Wait::adaptive : Wait::spin}));
  LEND_TRY(ours, exposed.remote());
  auto const theirs = card;
  std::ranges::copy(prepared.endpoint().encode(), card.begin());
  std::ranges::copy(ours.encode(), card.begin() + Endpoint::encoded_size);
  base::WireWriter writer{std::span{card}.last(plan_bytes)};
  writer.u64(plan.largest);
  writer.u8(plan.own_memory ? 1 : 0);
  LEND_TRYV(talk.say(card));
  if (near) {
    LEND_TRYV(talk.hear(card, within(talk.patience)));
  } else {
    card = theirs;
  }
  LEND_TRY(endpoint, Endpoint::decode(std::span{card}.first(Endpoint::encoded_size)));
  LEND_TRY(remote, RemoteRegion::decode(std::span{card}.subspan(Endpoint::encoded_size,
                                                                RemoteRegion::encoded_size)));
  if (remote.size() < exposed_bytes_for(plan.largest))
    return Error{Errc::incompatible_peer, "the peer exposes only " + std::to_string(remote.size()) +
                                              " bytes; use the same lend on both sides"};
  LEND_TRY(channel, joining.is_by_cm() ? joining.another(std::move(prepared))
                                       : std::move(prepared).handshake(endpoint));
  auto const meet = [&talk, near]() -> Result<void> {
    std::array<std::byte, 1> nothing{};
    return talk.swap(nothing, near);
  };
  LEND_TRYV(meet());  // both ends are connected
  largest_ = plan.largest;
  end_ = std::make_unique<End>(End{near, one_core, std::move(memory), std::move(exposed),
                                   std::move(channel), remote, meet,
                                   !device_.capabilities().waits_for_receives});
  return success();
}

Result<BenchLine> BenchLine::accept(Listener& listener, BenchOptions const& options,
                                    BenchPlace const& place) {
  return make(options, false, place, Joining{listener, place.by_cm});
}

Result<BenchLine> BenchLine::connect(std::string_view address, BenchOptions const& options,
                                     BenchPlace const& place) {
  LEND_TRY(secret, secret_in(options.secret_in));
  return make(options, true, place, Joining{address, {.secret = std::move(secret)}, place.by_cm});
}

Result<void> BenchLine::give(std::optional<Order> const& order) {
  std::array<std::byte, order_bytes> message{};
  base::WireWriter writer{message};
  writer.u8(order ? order_form : 0);
  if (order) {
    writer.u8(order->is_latency ? 1 : 0);
    writer.u8(index_of(bench_operations, order->load.operation));
    writer.u8(index_of(bench_ways, order->load.via));
    writer.u64(order->load.bytes);
    writer.u64(order->load.count);
  }
  return talk_->say(message);
}

Result<std::optional<Order>> BenchLine::take() {
  std::array<std::byte, order_bytes> message{};
  // A stream, or reads, may take the near end any time, in which this end has nothing to do.
  LEND_TRYV(talk_->hear(message, has_order_ ? Deadline::never() : within(talk_->patience)));
  has_order_ = true;
  base::WireReader reader{message};
  auto const form = reader.u8();
  if (form == 0) return std::optional<Order>{};
  Order order{.is_latency = reader.u8() == 1};
  std::size_t const operation = reader.u8();
  std::size_t const way = reader.u8();
  order.load.bytes = reader.u64();
  order.load.count = reader.u64();
  bool const is_sane = form == order_form && operation < bench_operations.size() &&
                       way < bench_ways.size() && order.load.bytes > 0 &&
                       order.load.bytes <= largest_ && order.load.count > 0 &&
                       order.load.count <= bench_count_max;
  if (!is_sane)
    return Error{Errc::incompatible_peer,
                 "the peer asks for another measurement; use the same lend on both sides"};
  order.load.operation = bench_operations[operation];
  order.load.via = bench_ways[way];
  return std::optional{order};
}

}  // namespace lend::tools
