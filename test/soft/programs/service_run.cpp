// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue pairs of every service by hand: made, connected and aborted; limits and armed queues. One
// thread.
#include "soft/programs/service_run.hpp"

#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

namespace {

constexpr std::uint32_t shared_depth = 5;

/// One for all programs: opening it takes longer than a program does.
Context device_of_services() {
  static Context const context = open_test_device();
  return context;
}

}  // namespace

ServiceRun::ServiceRun(Workplace& workplace, Program const& program)
    : ByHand{workplace, program, device_of_services()} {}

AnyQueuePair& ServiceRun::pair_of(Link& link) {
  if (auto* const reliable = std::get_if<QueuePair>(&link.pair)) return *reliable;
  if (auto* const unreliable = std::get_if<UnreliableQueuePair>(&link.pair)) return *unreliable;
  return std::get<DatagramQueuePair>(link.pair);
}

void ServiceRun::begin() {
  events_ = must(DeviceEvents::of(context_));
  if (program_.is_timed) clock_ = must(DeviceClock::of(context_));
  long_region_ = must(domain_->allocate(bytes_of_long_region));
  for (std::size_t at = 0; at < 2; ++at) make_end(at);
  for (std::size_t link = 0; link < links; ++link)
    if (is_datagram() || link % 2 == 0) connect(link);
}

void ServiceRun::make_end(std::size_t at) {
  End& end = ends_[at];
  end.own = must(domain_->allocate(bytes_of_region));
  end.shown = must(domain_->unsafe_allocate_exposed(bytes_of_region, RemoteAccess::write));
  end.remote = must(end.shown->remote());
  give_bytes(at, *end.own, end.own_bytes, *end.shown, end.shown_bytes);
  if (program_.is_wakeable) end.channel = must(CompletionChannel::create(context_));
  for (std::size_t i = 0; i < 2; ++i)
    end.lanes[i].queue =
        must(CompletionQueue::create(context_, {.depth = 256,
                                                .channel = end.channel ? &*end.channel : nullptr,
                                                .tag = i,
                                                .timestamps = program_.is_timed}));
  if ((program_.shared_ends >> at) % 2 == 1)
    end.shared = must(ReceiveQueue::create(*domain_, shared_depth, 2));
}

template <class S>
PreparedQueuePairOf<S> ServiceRun::prepared(std::size_t link) {
  End& end = ends_[link % 2];
  OptionsOf<S> options;
  options.send_depth = program_.send_depth;
  options.receive_depth = 16;
  options.inline_bytes = program_.inline_bytes;
  if constexpr (Acknowledges<S>) {
    options.probes = 1;
    make_impatient(options);
  }
  CompletionQueues const queues{*end.lanes[0].queue, *end.lanes[1].queue};
  if constexpr (IsAddressed<S>)
    options.queue_key = 0x100 + static_cast<std::uint32_t>(link);
  else if (end.shared)
    return must(PreparedQueuePairOf<S>::create(*domain_, queues, options, *end.shared));
  return must(PreparedQueuePairOf<S>::create(*domain_, queues, options));
}

template <class S>
void ServiceRun::connect_both(std::size_t link) {
  auto one = prepared<S>(link);
  auto other = prepared<S>(link ^ 1);
  Endpoint const of_one = links_[link].endpoint = one.endpoint();
  Endpoint const of_other = links_[link ^ 1].endpoint = other.endpoint();
  links_[link].pair = must(std::move(one).connect(of_other));
  links_[link ^ 1].pair = must(std::move(other).connect(of_one));
}

/// For datagrams; what is on its way to the queue pair of before goes to nobody.
void ServiceRun::open(std::size_t link) {
  auto made = prepared<Ud>(link);
  Endpoint there = links_[link].endpoint = made.endpoint();
  auto pair = must(std::move(made).activate());
  ways_.remove_if([](Way const& way) { return !way.to; });
  for (auto& way : ways_)
    if (way.to == link) way.to.reset();
  ways_.push_back({link, must(pair.destination(there))});
  there.queue_key ^= 0x10;
  if (one_in(2)) ways_.push_back({std::nullopt, must(pair.destination(there))});
  links_[link].pair = std::move(pair);
}

/// For the first time, or anew: both ends of a connection.
void ServiceRun::connect(std::size_t link) {
  tell("connect " + std::to_string(link));
  for (auto const gone : {link, link ^ 1}) {
    if (is_datagram() && gone != link) continue;
    links_[gone] = {};
  }
  switch (program_.service) {
    case Service::reliable_connection: return connect_both<Rc>(link);
    case Service::unreliable_connection: return connect_both<Uc>(link);
    case Service::datagram: return open(link);
  }
}

void ServiceRun::take(Step const& step) {
  auto const link = step.numbers[2] % links;
  renew_sources();
  if (clock_) began_ = must(clock_->now());
  switch (step.what) {
    case Do::post: return post(link);
    case Do::batch: return batch(link);
    case Do::take_message: return receive(link);
    case Do::poll: return probe(link);
    case Do::wait: return arm_one(ends_[link % 2]);
    case Do::ask_set: return ask_limit(ends_[link % 2]);
    case Do::refuse_flushes: return abort(link);
    case Do::destroy_channel: return connect(link);
    default: return;  // of no program of services
  }
}

void ServiceRun::renew_sources() {
  for (auto& end : ends_) {
    auto const bytes = must(end.own->mutable_bytes(sent_from, bytes_of_region - sent_from));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = end.own_bytes[sent_from + i] = static_cast<std::byte>(draw_());
  }
}

void ServiceRun::abort(std::size_t link) {
  tell("abort " + std::to_string(link));
  if (!pair_of(links_[link]).abort_all().has_value()) complain("a queue pair is not aborted");
  break_link(link);
  settle();
}

void ServiceRun::arm_one(End& end) {
  if (!program_.is_wakeable) return;
  auto const at = below(2);
  arm(*end.lanes[at].queue, end.lanes[at].armed,
      std::string{"arm a queue of "} + (at == 0 ? "sends" : "receives"));
}

void ServiceRun::ask_limit(End& end) {
  if (!end.shared) return;
  auto const limit = below(end.shared->depth() + 2);
  tell("a limit of " + std::to_string(limit));
  auto const result = end.shared->request_limit_event(limit);
  if (result.has_value() == (limit > end.shared->depth()))
    complain("a limit was taken, or not, against the depth");
  if (result.has_value()) end.limit = limit;
}

}  // namespace lend::test
