// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the C++ in README.md and lib/guide/ compiles, and does what the pages say.
// Method: the pages show excerpts of this file, guide_peers.cpp and guide_porting.cpp, which
// test/tidy/readme.py compares; main() runs them on the device that LEND_DEVICE names, but for what
// needs a second host.
#include "guide.hpp"

#include <lend/doctor/examine.hpp>
#include <lend/lend.hpp>
#include <lend/soft/faults.hpp>

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

// What the page about MPI needs of <mpi.h>, for a communicator of one process.
using MPI_Status = int;
constexpr int MPI_BYTE = 1, MPI_COMM_WORLD = 0;
constexpr MPI_Status* MPI_STATUS_IGNORE = nullptr;
int MPI_Sendrecv(void const* sent, int bytes, int, int, int, void* received, int, int, int, int,
                 int, MPI_Status*) {
  std::memcpy(received, sent, std::size_t(bytes));
  return 0;
}

[[maybe_unused]] lend::Result<lend::Channel> meet(bool listens, lend::PreparedChannel prepared) {
  // excerpt meet
  if (listens) return lend::listen("0.0.0.0:7471", std::move(prepared), lend::within(10s));
  return lend::connect("node0:7471", std::move(prepared), lend::within(10s));
  // end of excerpt
}

lend::Result<lend::Channel> meet_under_mpi(lend::ProtectionDomain const& domain, int peer) {
  // excerpt mpi
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  auto const mine = prepared.endpoint().encode();
  auto theirs = mine;
  int const bytes = int(mine.size());
  MPI_Sendrecv(mine.data(), bytes, MPI_BYTE, peer, 0,    // to the peer
               theirs.data(), bytes, MPI_BYTE, peer, 0,  // from the peer
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  LEND_TRY(endpoint, lend::Endpoint::decode(theirs));
  LEND_TRY(channel, std::move(prepared).handshake(endpoint));
  // end of excerpt
  return std::move(channel);
}

lend::Result<lend::Channel> loop_back(lend::ProtectionDomain const& domain) {
  return meet_under_mpi(domain, 0);
}

lend::Result<void> receive_first(lend::ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(128));
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).build());
  auto const endpoint = prepared.endpoint();
  // excerpt prepared_receive
  LEND_TRY(pending, prepared.post_receive(memory.scatter(0, 64)));
  LEND_TRY(channel, std::move(prepared).handshake(endpoint));  // now wait for pending
  // end of excerpt
  LEND_TRYV(channel.send(memory.gather(64, 5), lend::within(5s)));
  LEND_TRY(message, pending.wait(lend::within(5s)));
  return message.bytes == 5 ? lend::Result<void>{lend::success()} : lend::Errc::unsupported;
}

lend::Result<void> loop_by_events(lend::ProtectionDomain const& domain) {
  LEND_TRY(prepared,
           lend::channel_builder().protection_domain(domain).wait(lend::Wait::event).build());
  auto const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));
  LEND_TRY(memory, domain.allocate(64));
  lend::PollingScope scope{channel};
  LEND_TRY(arrival, scope.post_receive(memory.scatter(0, 8)));
  LEND_TRYV(scope.post_send(memory.gather(8, 8)));
  auto const sleep = [](int descriptor, lend::Deadline look_again) {
    pollfd wait{descriptor, POLLIN, 0};
    auto const longest =
        std::chrono::ceil<std::chrono::milliseconds>(sooner(look_again, lend::within(1s)).left());
    static_cast<void>(::poll(&wait, 1, static_cast<int>(longest.count())));
  };
  auto const ask_handles = [&arrival] {
    auto const result = arrival.poll();
    return !result.has_value() || result.value().has_value();
  };
  bool is_over = false;
  // excerpt event_loop
  while (!is_over) {
    LEND_TRY(has_news, channel.poll());
    if (has_news) is_over = ask_handles();
    LEND_TRY(may_sleep, channel.arm());
    LEND_TRY(descriptor, channel.descriptor());
    if (may_sleep && !is_over) sleep(descriptor, channel.look_again());  // poll(2) or epoll(7)
  }
  // end of excerpt
  return scope.finish();
}

lend::Result<void> serve_a_set(lend::ProtectionDomain const& domain) {
  // excerpt wait_set
  LEND_TRY(set, lend::WaitSet::create(domain.context()));
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).wait_set(set, 7).build());
  // end of excerpt
  auto const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));
  LEND_TRY(memory, domain.allocate(64));
  lend::PollingScope scope{channel};
  LEND_TRY(arrival, scope.post_receive(memory.scatter(0, 8)));
  LEND_TRYV(scope.post_send(memory.gather(8, 8)));
  bool is_served = false;
  auto const serve = [&](std::uint64_t tag, bool is_broken) { is_served = tag == 7 && !is_broken; };
  // excerpt set_wait
  std::array<lend::Ready, 64> room;
  LEND_TRY(ready, set.wait(room, lend::within(1s)));
  for (lend::Ready const& one : ready) serve(one.tag, one.what == lend::Ready::What::broken);
  // end of excerpt
  LEND_TRYV(arrival.wait(lend::within(1s)));
  LEND_TRYV(scope.finish());
  return is_served ? lend::Result<void>{lend::success()} : lend::Errc::unsupported;
}

lend::Result<void> hear_of_the_port(lend::Context const& context) {
  // excerpt device_events
  LEND_TRY(events, lend::DeviceEvents::of(context));
  LEND_TRY(event, events.poll());
  bool const is_down = event && event->kind == lend::DeviceEvent::Kind::port_down;
  // end of excerpt
  return is_down ? lend::Result<void>{lend::Errc::peer_lost} : lend::success();
}

lend::Result<void> serve_by_a_pool(lend::ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(16384));
  LEND_TRY(set, lend::WaitSet::create(domain.context()));
  // excerpt receive_pool
  LEND_TRY(pool, lend::ReceivePool::create(set, memory.chunks(2048), {.low_mark = 4}));
  LEND_TRY(prepared, lend::channel_builder()
                         .protection_domain(domain)
                         .wait_set(set, 7)
                         .receive_pool(pool)
                         .build());
  // end of excerpt
  auto const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));
  LEND_TRY(word, domain.allocate(8));
  LEND_TRYV(channel.send(word.gather()));
  auto const client_of = [&channel](std::uint64_t) -> lend::Channel& { return channel; };
  // excerpt pool_next
  lend::SetScope scope{set};
  std::array<lend::Ready, 64> room;
  LEND_TRY(ready, set.wait(room, lend::within(1s)));
  while (auto const message = pool.next()) {
    LEND_TRY(client, scope.on(client_of(message->tag())));
    LEND_TRYV(client->post_send(message->gather()));  // no copy
  }
  // end of excerpt
  static_cast<void>(ready);
  LEND_TRYV(scope.finish());
  LEND_TRYV(lend::without_value(set.poll(room)));  // the echo has come, to a piece of its own
  return pool.posted() == 7 ? lend::Result<void>{lend::success()} : lend::Errc::unsupported;
}

lend::Result<void> lend_memory(lend::ProtectionDomain const& domain) {
  LEND_TRY(channel, loop_back(domain));
  // excerpt chunks
  LEND_TRY(source, domain.allocate(1 << 20));
  LEND_TRY(target, domain.allocate(1 << 20));
  lend::PollingScope scope{channel};
  for (auto const chunk : target.chunks(65536)) {
    LEND_TRYV(scope.post_receive(chunk.scatter()));
  }
  for (auto const chunk : source.chunks(65536)) {
    LEND_TRYV(scope.post_send(chunk.gather()));
  }
  LEND_TRYV(scope.finish());
  // end of excerpt

  // excerpt typed
  LEND_TRY(cells, domain.allocate<double>(1024));  // zeroed
  LEND_TRY(values, cells.mutable_values(0, 16));
  std::iota(values.begin(), values.end(), 0.5);
  LEND_TRY(exposed, target.unsafe_expose(lend::RemoteAccess::read_write));
  LEND_TRY(theirs, lend::RemoteSpan<double>::of(exposed.remote()));  // at the peer
  LEND_TRYV(channel.write({cells.gather(0, 16), theirs.subspan(100, 16)}));
  LEND_TRYV(exposed.finish());
  // end of excerpt

  // excerpt pages
  LEND_TRY(large, domain.allocate(64 << 20, {.pages = lend::Pages::prefer_huge}));
  std::cout << "allocated " << lend::name_of(*large.pages()) << " pages\n";
  // end of excerpt

  // excerpt register
  std::vector<std::byte> bytes(4096);  // must outlive the region
  LEND_TRY(view, domain.register_memory(bytes));
  // end of excerpt
  if (view.size() != bytes.size()) return lend::Errc::unsupported;

  // excerpt expose
  LEND_TRY(exposure, source.unsafe_expose(0, 4096, lend::RemoteAccess::write));
  auto const for_the_peer = exposure.remote().encode();  // 32 bytes; send them to the peer
  // …                                                      the peer writes
  LEND_TRYV(exposure.finish());  // the key is dead; the device refuses further writes
  // end of excerpt
  LEND_TRY(remote, lend::RemoteRegion::decode(for_the_peer));
  return remote.size() == 4096 ? lend::Result<void>{lend::success()} : lend::Errc::unsupported;
}

lend::Result<void> post_a_batch(lend::ProtectionDomain const& domain) {
  LEND_TRY(channel, loop_back(domain));
  LEND_TRY(memory, domain.allocate(4096));
  LEND_TRY(target, domain.allocate(4096));
  lend::PollingScope scope{channel};
  for (auto const chunk : target.chunks(256)) {
    LEND_TRYV(scope.post_receive(chunk.scatter()));
  }
  // excerpt batch
  auto batch = scope.batch();
  for (auto const chunk : memory.chunks(256)) {
    LEND_TRYV(batch.add_send(chunk.gather()));
  }
  LEND_TRYV(batch.post());  // one call of the device
  // end of excerpt
  return scope.finish();
}

lend::Result<void> give_up(lend::ProtectionDomain const& domain) {
  LEND_TRY(channel, loop_back(domain));
  LEND_TRY(memory, domain.allocate(4096));
  {
    lend::PollingScope scope{channel};
    // excerpt cancel
    lend::Cancellation stopping;  // another thread may call stopping.cancel()
    LEND_TRY(pending, scope.post_receive(memory.scatter()));
    auto const done = pending.wait(lend::within(5ms).unless(stopping));
    if (!done && done.error() == lend::Errc::timed_out) {
      // The receive is still outstanding and its bytes are on loan: wait again, or end the scope.
      scope.drain_within(10ms);
    }
    auto const finished = scope.finish();  // aborts the receive after 10 ms: the channel is broken
    // end of excerpt
    if (finished || finished.error() != lend::Errc::timed_out) return lend::Errc::unsupported;
  }
  // excerpt again
  LEND_TRY(prepared, std::move(channel).prepare_again());  // same domain and options
  lend::Endpoint const peer = prepared.endpoint();         // a new one; exchange endpoints again
  LEND_TRY(next, std::move(prepared).handshake(peer));
  // end of excerpt
  return next.first_cause() == nullptr ? lend::Result<void>{lend::success()}
                                       : lend::Errc::unsupported;
}

// excerpt errors
lend::Result<std::size_t> receive_one(lend::Channel& channel, lend::MemoryRegion& memory) {
  auto const received = channel.receive(memory.scatter(), lend::within(10ms));
  if (received) return received.value().bytes;
  if (received.error() == lend::Errc::already_borrowed) return 0;  // nothing was posted: retry
  std::cerr << received.error().describe() << '\n';                // some lines
  return received.error();
}
// end of excerpt

lend::Result<void> send_datagrams(lend::ProtectionDomain const& domain) {
  if (!domain.context().capabilities().datagrams) return lend::success();
  LEND_TRY(completions, lend::CompletionQueue::create(domain.context(), 256));
  LEND_TRY(memory, domain.allocate(4096));
  LEND_TRY(prepared, lend::PreparedDatagramQueuePair::create(domain, completions, {}));
  lend::Endpoint const address = prepared.endpoint();  // for those who send here
  LEND_TRY(datagrams, std::move(prepared).activate());
  LEND_TRY(room, lend::DatagramRoom::in(memory.scatter(0, 40 + 1024)));
  LEND_TRYV(datagrams.unsafe_post_receive(1, room));

  LEND_TRY(there, datagrams.destination(address));  // here, itself
  LEND_TRYV(datagrams.unsafe_post_send(2, memory.gather(2048, 64), there));
  std::array<lend::DatagramCompletion, 2> done;
  for (std::size_t count = 0; count < done.size();) {
    LEND_TRY(some, completions.poll(std::span{done}.subspan(count)));
    count += some.size();
  }
  bool const is_first = done[0].id == 1;
  auto const* const arrived = done[is_first ? 0 : 1].success();
  return arrived != nullptr && arrived->bytes == 40 + 64 ? lend::Result<void>{lend::success()}
                                                         : lend::Errc::unsupported;
}

lend::Result<void> answer_datagrams(lend::ProtectionDomain const& domain) {
  if (!domain.context().capabilities().datagrams) return lend::success();
  LEND_TRY(memory, domain.allocate(4096));
  // excerpt datagram_channel
  LEND_TRY(channel, lend::datagram_channel_builder(domain).build());
  std::string const address = channel.address().to_text();  // for those who send here
  lend::DatagramScope scope{channel};
  LEND_TRY(room, lend::DatagramRoom::in(memory.scatter(0, 40 + 1024)));
  LEND_TRY(pending, scope.post_receive(room));

  LEND_TRY(parsed, lend::Endpoint::from_text(address));
  LEND_TRY(there, channel.destination(parsed));  // here, itself
  LEND_TRYV(channel.send(memory.gather(2048, 64), there));

  LEND_TRY(question, pending.wait(lend::within(2s)));  // question.message: bytes to read or to send
  LEND_TRY(back, channel.destination(question));
  LEND_TRYV(channel.send(question.message, back));
  LEND_TRYV(scope.finish());  // recalls the receives that took no datagram
  // end of excerpt
  return question.bytes() == 64 ? lend::Result<void>{lend::success()} : lend::Errc::unsupported;
}

lend::Result<void> keep_alive(lend::ProtectionDomain const& domain) {
  // excerpt keep_alive
  LEND_TRY(prepared, lend::channel_builder()
                         .protection_domain(domain)
                         .wait(lend::Wait::event)
                         .keep_alive(100ms)
                         .build());
  // end of excerpt
  return prepared.is_used_up() ? lend::Result<void>{lend::Errc::unsupported} : lend::success();
}

lend::Result<void> plan_faults() {
  // excerpt faults
  LEND_TRY(context, lend::open_device(lend::DeviceChoice::soft()));
  auto const plan = lend::FaultPlan{}.drop(17).peer_dies(40).control_call_fails(3, ENOMEM);
  LEND_TRYV(lend::inject_faults(context, plan));
  // or a random plan, the same for the same seed:
  auto const drawn = lend::FaultPlan::random(/*seed*/ 7, /*count*/ 5, /*operations*/ 1000);
  LEND_TRYV(lend::inject_faults(context, drawn));
  std::cout << "faults: " << drawn.text() << '\n';  // to repeat it: FaultPlan::parse(text)
  // end of excerpt
  return lend::success();
}

void examine_this_process() {
  // excerpt examine
  for (lend::Finding const& finding : lend::examine())
    if (finding.level != lend::FindingLevel::ok) std::cout << lend::text_of(finding);
  // end of excerpt
}

lend::Result<void> show_all() {
  examine_this_process();
  // excerpt open
  LEND_TRY(device, lend::open_device());
  std::cout << "running on " << device.name() << " (" << lend::name_of(device.kind()) << ")\n";
  LEND_TRY(gids, device.gids());  // the port's addresses, best first
  // end of excerpt
  if (gids.empty()) return lend::Errc::not_found;
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRYV(receive_first(domain));
  LEND_TRYV(lend_memory(domain));
  LEND_TRYV(post_a_batch(domain));
  LEND_TRYV(give_up(domain));
  LEND_TRYV(keep_alive(domain));
  LEND_TRYV(send_datagrams(domain));
  LEND_TRYV(answer_datagrams(domain));
  LEND_TRYV(loop_by_events(domain));
  LEND_TRYV(serve_a_set(domain));
  LEND_TRYV(hear_of_the_port(device));
  LEND_TRYV(serve_by_a_pool(domain));
  LEND_TRYV(exchange_with_many(domain));
  LEND_TRYV(lend_to_a_peer(domain));
  LEND_TRYV(join_a_group(domain));
  LEND_TRYV(solve_in_a_group(domain));
  LEND_TRYV(observe(domain));
  LEND_TRYV(come_from_elsewhere(domain));
  LEND_TRYV(plan_faults());
  LEND_TRY(channel, loop_back(domain));
  LEND_TRY(memory, domain.allocate(64));
  auto const nothing = receive_one(channel, memory);
  if (nothing || nothing.error() != lend::Errc::timed_out) return lend::Errc::unsupported;
  return lend::success();
}

}  // namespace

int main() {
  auto const done = show_all();
  if (!done) std::cerr << "guide: " << done.error().describe() << '\n';
  return done ? 0 : 1;
}
