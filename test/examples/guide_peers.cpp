// SPDX-License-Identifier: MIT OR Apache-2.0
// What the guide shows of many peers and of groups; guide.cpp says how it is tested.
#include "guide.hpp"

#include <lend/group.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

lend::Result<void> exchange_with_many(lend::ProtectionDomain const& domain) {
  LEND_TRY(set, lend::WaitSet::create(domain.context()));
  LEND_TRY(prepared, lend::PreparedMultiChannel::prepare(domain, set, 2));
  auto endpoints = prepared.endpoints();
  std::swap(endpoints[0], endpoints[1]);  // the two are each other's peers
  LEND_TRY(peers, std::move(prepared).handshake(endpoints));
  LEND_TRY(memory, domain.allocate(256));
  // excerpt many_peers
  std::array const receives{lend::PeerReceive{0, memory.scatter(0, 64)},
                            lend::PeerReceive{1, memory.scatter(64, 64)}};
  std::array const sends{lend::PeerSend{0, memory.gather(128, 64)},
                         lend::PeerSend{1, memory.gather(192, 64)}};
  lend::MultiScope scope{peers};
  std::vector<lend::PendingWork> work;
  LEND_TRYV(scope.post_gather_receive(receives, work));
  LEND_TRYV(scope.post_scatter_send(sends, work));
  LEND_TRYV(lend::wait_all(work, lend::within(1s)));
  LEND_TRYV(scope.finish());
  // end of excerpt
  return lend::success();
}

namespace {

/// Two ends of one connection, in one process.
lend::Result<std::pair<lend::Channel, lend::Channel>> two_ends(
    lend::ProtectionDomain const& domain) {
  LEND_TRY(one, lend::channel_builder().protection_domain(domain).build());
  LEND_TRY(other, lend::channel_builder().protection_domain(domain).build());
  auto const endpoint = one.endpoint();
  LEND_TRY(here, std::move(one).handshake(other.endpoint()));
  LEND_TRY(there, std::move(other).handshake(endpoint));
  return std::pair{std::move(here), std::move(there)};
}

}  // namespace

lend::Result<void> lend_to_a_peer(lend::ProtectionDomain const& domain) {
  if (!domain.context().capabilities().peer_loans) return lend::success();
  LEND_TRY(ends, two_ends(domain));
  auto& [channel, peer] = ends;
  LEND_TRY(memory, domain.allocate(8192));
  LEND_TRY(theirs, domain.allocate(4096));
  // excerpt peer_loan
  lend::PollingScope scope{channel};
  LEND_TRY(loan, scope.post_lend(memory.scatter(0, 4096)));  // the peer may write here
  LEND_TRY(reply, scope.post_receive(memory.scatter(4096, 64)));
  auto const for_the_peer = loan.remote().encode();  // 32 bytes; send them to the peer
  // end of excerpt
  LEND_TRY(remote, lend::RemoteRegion::decode(for_the_peer));
  // excerpt peer_returns
  LEND_TRYV(peer.write({theirs.gather(0, 4096), remote}));
  LEND_TRYV(peer.send(lend::Send{theirs.gather(0, 8)}.returning(remote)));
  // end of excerpt
  // excerpt loan_ends
  LEND_TRY(answer, reply.wait(lend::within(1s)));  // answer.returned: the loan's key, if any
  LEND_TRYV(loan.recall(lend::within(1s)));        // nothing to do if it was returned
  LEND_TRY(bytes, memory.mutable_bytes(0, 4096));  // the program's again
  // end of excerpt
  if (!answer.returned) return lend::Errc::unsupported;
  bytes[0] = std::byte{0};
  return scope.finish();
}

lend::Result<void> join_a_group(lend::ProtectionDomain const& domain) {
  ::setenv("LEND_RANK", "0", 1);
  ::setenv("LEND_SIZE", "1", 1);
  // excerpt join
  LEND_TRY(seat, lend::Seat::from_environment());
  LEND_TRY(group, lend::Group::join(domain, seat, lend::within(30s)));
  // end of excerpt
  return group.barrier(lend::within(1s));
}

lend::Result<void> join_by_a_roster(std::uint32_t rank) {
  // excerpt roster
  LEND_TRY(roster, lend::Roster::from_file("roster.json"));
  LEND_TRY(seat, roster.seat(rank));
  LEND_TRY(device, lend::open_device({.name = roster.entries()[rank].device}));
  // end of excerpt
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(group, lend::Group::join(domain, seat, lend::within(30s)));
  return group.barrier(lend::within(1s));
}

lend::Result<void> meet_in_a_team(lend::Group& group) {
  // excerpt team
  std::array const even{0u, 2u, 4u, 6u};
  LEND_TRY(evens, group.team(even));
  LEND_TRYV(evens.barrier(lend::within(1s)));
  // end of excerpt
  return lend::success();
}

lend::Result<void> talk_to_neighbours(lend::ProtectionDomain const& domain, lend::Group& group) {
  LEND_TRY(peers, lend::Peers::connect(group, {}, lend::within(10s)));
  LEND_TRY(memory, domain.allocate(128));
  auto const left = lend::no_rank, right = lend::no_rank;
  lend::PeerScope scope{peers};
  LEND_TRYV(scope.post_receive(left, memory.scatter(0, 64)));
  LEND_TRYV(scope.post_send(right, memory.gather(64, 64)));
  return scope.drain_within(1s).finish();
}

lend::Result<void> write_to_a_neighbour(lend::Peers& peers, std::uint32_t right,
                                        lend::MemoryRegion& ghosts, lend::MemoryRegion& cells) {
  // excerpt window
  LEND_TRY(window, lend::Window::create(peers, ghosts, lend::RemoteAccess::all, lend::within(10s)));
  LEND_TRY(theirs, window.of<double>(right));
  LEND_TRY(epoch, window.open(lend::within(10s)));  // ghosts.bytes() is refused from here on
  LEND_TRY(to, epoch.on(right));
  LEND_TRYV(to->post_write({cells.gather(0, 64), theirs.subspan(0, 8)}));
  LEND_TRYV(epoch.finish(lend::within(10s)));  // the own ghosts are here, and this rank's again
  // end of excerpt
  return lend::success();
}

lend::Result<void> compute_beside_a_group(lend::ProtectionDomain const& domain,
                                          lend::Group& group) {
  auto const compute_a_little = [] { return false; };
  // excerpt group_scope
  LEND_TRY(weights, domain.allocate<float>(1'000'000));
  lend::GroupScope scope{group};
  LEND_TRY(total, scope.post_allreduce(lend::sum<float>, weights.scatter()));
  while (compute_a_little()) {
    LEND_TRY(is_over, total.poll());  // sends and takes what it can, and never waits
    if (is_over) break;
  }
  LEND_TRYV(total.wait(lend::within(10s)));
  LEND_TRYV(scope.finish());
  // end of excerpt
  return lend::success();
}

lend::Result<void> go_on_in_a_group(lend::Group& group, lend::Seat const& seat) {
  auto const go_back = [] {};
  // excerpt rejoin
  auto const finished = group.finished();
  LEND_TRY(next, group.rejoin(seat, lend::within(30s), {.at_least = 3}));
  if (finished > next.finished_by_all()) go_back();  // the last call
  group = std::move(next);
  // end of excerpt
  return lend::success();
}

lend::Result<void> solve_in_a_group(lend::ProtectionDomain const& domain) {
  std::uint32_t const rank = 0, size = 1;
  auto const all_to_all = [](auto const& ours) { return std::vector(ours.begin(), ours.end()); };
  // excerpt group
  LEND_TRY(prepared, lend::PreparedGroup::prepare(domain, rank, size));
  auto const theirs = all_to_all(prepared.cards());  // cards()[i] goes to rank i
  LEND_TRY(group, std::move(prepared).handshake(theirs));
  // end of excerpt
  std::vector<float> gradient(1000, 1.0f);
  double const own_error = 0.5;
  auto const report = [](std::string const&) {};
  // excerpt allreduce
  LEND_TRYV(group.allreduce(lend::sum<float>, gradient, lend::within(10s)));
  LEND_TRY(worst, group.allreduce(lend::max<double>, own_error, lend::within(1s)));
  // end of excerpt
  // excerpt barrier
  auto met = group.barrier(lend::within(1s));
  while (!met && met.error() == lend::Errc::timed_out) {
    report(met.error().message());  // names the ranks that have not come
    met = group.barrier(lend::within(1s));
  }
  // end of excerpt
  if (worst != own_error) return lend::Errc::unsupported;
  LEND_TRYV(met);
  LEND_TRYV(talk_to_neighbours(domain, group));
  return compute_beside_a_group(domain, group);
}

lend::Result<void> observe(lend::ProtectionDomain const& domain) {
  LEND_TRY(prepared, lend::channel_builder(domain).observe({.metrics = true}).build());
  auto const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));
  // excerpt metrics
  if (lend::ChannelMetrics const* const metrics = channel.metrics()) {
    lend::OperationMetrics const& sends = metrics->of(lend::Operation::send);
    std::cout << sends.completed << " of " << sends.posted << " sends, half of them within "
              << sends.latency.percentile(50).count() << " ns, 99 in 100 within "
              << sends.latency.percentile(99).count() << " ns\n";
  }
  // end of excerpt
  return lend::success();
}
