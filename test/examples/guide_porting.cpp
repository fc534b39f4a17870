// SPDX-License-Identifier: MIT OR Apache-2.0
// What the guide shows to those who come from verbs, MPI or UCX, and of tuning; guide.cpp says how
// it is tested.
#include "guide.hpp"

#include <lend/group.hpp>
#include <lend/lend.hpp>
#include <lend/transport/lending.hpp>
#include <lend/transport/memory.hpp>
#include <lend/transport/send_receive.hpp>
#include <lend/transport/waiting.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

lend::Result<void> from_verbs() {
  std::vector<std::byte> buffer(4096);
  // excerpt verbs_set_up
  LEND_TRY(device, lend::open_device());                  // ibv_open_device
  LEND_TRY(domain, device.allocate_protection_domain());  // ibv_alloc_pd
  LEND_TRY(memory, domain.register_memory(buffer));       // ibv_reg_mr; or domain.allocate()
  LEND_TRY(prepared, lend::channel_builder(domain)        // ibv_create_cq, ibv_create_qp, to INIT
                         .send_depth(64)                  // cap.max_send_wr
                         .receive_depth(64)               // cap.max_recv_wr
                         .elements(2)                     // cap.max_send_sge, max_recv_sge
                         .build());
  lend::Endpoint const peer = prepared.endpoint();  // LID or GID, queue pair, PSN: exchange them
  LEND_TRY(channel, std::move(prepared).handshake(peer));  // ibv_modify_qp to RTR, to RTS
  // end of excerpt

  // excerpt verbs_loop
  lend::PollingScope scope{channel};
  std::vector<lend::PendingWork> receives;  // in place of a table by wr_id
  for (std::size_t at = 2048; at < 4096; at += 256) {
    LEND_TRY(pending, scope.post_receive(memory.scatter(at, 256)));  // ibv_post_recv
    receives.push_back(std::move(pending));
  }
  LEND_TRYV(scope.post_send(memory.gather(0, 64)));  // ibv_post_send, IBV_WR_SEND, signaled
  LEND_TRY(index, lend::wait_any(receives, lend::within(1s)));  // ibv_poll_cq, wr_id, status
  LEND_TRY(message, receives[index.value()].wait());            // byte_len, imm_data
  // end of excerpt
  scope.drain_within(0s);  // the other receives
  return message.bytes == 64 ? lend::Result<void>{lend::success()} : lend::Errc::unsupported;
}

lend::Result<void> verbs_by_hand(lend::ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(128));
  // excerpt verbs_by_hand
  LEND_TRY(queue, lend::CompletionQueue::create(domain.context(), 256));
  LEND_TRY(prepared, lend::PreparedQueuePair::create(domain, queue, {.send_depth = 64}));
  lend::Endpoint const peer = prepared.endpoint();
  LEND_TRY(queue_pair, std::move(prepared).connect(peer));
  // SAFETY: `memory` outlives both, and is not accessed until they have completed.
  LEND_TRYV(queue_pair.unsafe_post_receive(/*wr_id*/ 7, memory.scatter(64, 64)));
  LEND_TRYV(queue_pair.unsafe_post_send(/*wr_id*/ 8, memory.gather(0, 64)));
  std::array<lend::Completion, 16> room;
  for (std::size_t seen = 0; seen < 2;) {
    LEND_TRY(completions, queue.poll(room));
    for (lend::Completion const& one : completions)
      if (one.failure() != nullptr) return lend::Errc::work_failed;  // status, vendor_code
    seen += completions.size();
  }
  // end of excerpt
  return lend::success();
}

lend::Result<void> from_mpi(lend::ProtectionDomain const& domain) {
  LEND_TRY(prepared, lend::PreparedGroup::prepare(domain, 0, 1));
  auto const cards = std::vector(prepared.cards().begin(), prepared.cards().end());
  LEND_TRY(group, std::move(prepared).handshake(cards));
  std::vector<double> residuals(8, 1.0);
  int const cells = 17;
  double const own_step = 0.5;
  // excerpt mpi_calls
  LEND_TRYV(group.allreduce(lend::sum<double>, residuals));      // MPI_Allreduce, MPI_IN_PLACE
  LEND_TRY(step, group.allreduce(lend::min<double>, own_step));  // of one value: it is returned
  LEND_TRY(count, group.broadcast(0, cells));                    // MPI_Bcast(&n, 1, MPI_INT, 0)
  std::vector<int> counts(group.size());
  LEND_TRYV(group.allgather(count, counts));    // MPI_Allgather
  LEND_TRYV(group.barrier(lend::within(10s)));  // MPI_Barrier, which names who has not come
  // end of excerpt

  int const color = 1;
  // excerpt mpi_split
  std::vector<int> colors(group.size());
  LEND_TRYV(group.allgather(color, colors));  // MPI_Comm_split, with rank for a key
  std::vector<std::uint32_t> members;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank)
    if (colors[rank] == color) members.push_back(rank);
  LEND_TRY(team, group.team(members));
  // end of excerpt
  return team.size() == 1 && step == own_step && counts[0] == cells
             ? lend::Result<void>{lend::success()}
             : lend::Errc::unsupported;
}

lend::Result<void> requests_of_mpi(lend::ProtectionDomain const& domain) {
  LEND_TRY(prepared, lend::PreparedGroup::prepare(domain, 0, 1));
  auto const cards = std::vector(prepared.cards().begin(), prepared.cards().end());
  LEND_TRY(group, std::move(prepared).handshake(cards));
  LEND_TRY(memory, domain.allocate(128));
  auto const left = lend::no_rank, right = lend::no_rank;
  // excerpt mpi_requests
  LEND_TRY(peers, lend::Peers::connect(group, std::array{left, right}, lend::within(10s)));
  lend::PeerScope scope{peers};
  std::array<lend::PendingWork, 2> works;  // MPI_REQUEST_NULL: PendingWork{}
  auto const ghost = memory.scatter(0, 64);
  auto const edge = memory.gather(64, 64);
  LEND_TRY(receive, scope.post_receive(left, ghost));  // MPI_Irecv; MPI_PROC_NULL: no_rank
  LEND_TRY(send, scope.post_send(right, edge));        // MPI_Isend
  works = {std::move(receive), std::move(send)};
  LEND_TRYV(lend::wait_all(works, lend::within(10s)));  // MPI_Waitall
  LEND_TRYV(scope.finish());
  LEND_TRYV(peers.send_receive(right, edge, left, ghost, lend::within(10s)));  // MPI_Sendrecv
  // end of excerpt
  LEND_TRY(cells, domain.allocate<double>(512));
  // excerpt mpi_types
  lend::Blocks const column{.first = 7, .length = 1, .count = 64, .stride = 8};  // MPI_Type_vector
  auto const face = lend::Blocks::box({8, 8, 8}, {0, 0, 7}, {8, 8, 1});  // MPI_Type_create_subarray
  std::vector<std::uint32_t> const picked{3, 8, 21};  // MPI_Type_create_indexed_block
  lend::Exchange halo{peers};
  halo.send(right, {cells.gather(face), cells.gather(picked)});  // one message of 67 values
  halo.receive(left, cells.scatter(column));
  LEND_TRYV(halo.run(lend::within(10s)));
  // end of excerpt
  return halo.finish();
}

lend::Result<void> from_ucx() {
  LEND_TRY(ends, lend::memory_transports());
  auto& [here, there] = ends;
  std::array<std::byte, 64> const message{};
  // excerpt ucx_messages
  LEND_TRYV(lend::send_message(here, message, lend::within(1s)));      // ucp_am_send_nbx
  LEND_TRY(received, lend::receive_message(there, lend::within(1s)));  // ucp_am_recv_data_nbx
  if (received.is_end()) return lend::success();                       // the peer has finished
  auto const bytes = received.bytes();                                 // in place, until it goes
  // end of excerpt
  return bytes.size() == message.size() ? lend::Result<void>{lend::success()}
                                        : lend::Errc::unsupported;
}

lend::Result<void> lent_messages(lend::ProtectionDomain const& domain) {
  lend::TransportOptions const options{.lent_bytes_max = 4 << 20};
  LEND_TRY(one, lend::SendReceive::prepare(domain, options));
  LEND_TRY(other, lend::SendReceive::prepare(domain, options));
  auto const endpoint = one.endpoint();
  auto const terms = one.terms();
  LEND_TRY(here, std::move(one).handshake(other.endpoint(), other.terms()));
  LEND_TRY(there, std::move(other).handshake(endpoint, terms));
  LEND_TRY(field, domain.allocate(3 << 20));
  LEND_TRY(copy, domain.allocate(3 << 20));
  // excerpt lent_messages
  LEND_TRY(lent, lend::send_lent(here, field.gather(0, 3 << 20), lend::within(1s)));
  // at the peer: room for message.length() bytes, then
  LEND_TRY(message, lend::receive_message(there, lend::within(1s)));
  LEND_TRYV(lend::fetch(there, message, copy.scatter(0, message.length()), lend::within(1s)));
  // here: from now on `field` may be written again
  LEND_TRYV(lend::wait_until_over(here, lent, lend::within(1s)));
  // end of excerpt
  return lend::success();
}

lend::Result<void> puts_of_ucx(lend::ProtectionDomain const& domain) {
  LEND_TRY(one, lend::channel_builder(domain).build());
  LEND_TRY(other, lend::channel_builder(domain).build());
  LEND_TRY(both, lend::connect_local(std::move(one), std::move(other)));
  auto& [channel, peer] = both;
  LEND_TRY(table, domain.allocate(4096));
  LEND_TRY(memory, domain.allocate(4096));
  // excerpt ucx_put
  LEND_TRY(exposure, table.unsafe_expose(lend::RemoteAccess::read_write));  // ucp_mem_map
  auto const packed = exposure.remote().encode();                           // ucp_rkey_pack
  // …                                          32 bytes, which one message carries to the peer
  LEND_TRY(theirs, lend::RemoteRegion::decode(packed));  // ucp_ep_rkey_unpack
  lend::PollingScope scope{channel};
  LEND_TRY(put, scope.post_write({memory.gather(0, 512), theirs.slice(1024, 512)}));
  LEND_TRY(get, scope.post_read({memory.scatter(512, 512), theirs.slice(0, 512)}));
  LEND_TRYV(put.wait(lend::within(1s)));  // ucp_put_nbx, and its request
  LEND_TRYV(get.wait(lend::within(1s)));  // ucp_get_nbx
  LEND_TRYV(scope.finish());              // ucp_ep_flush_nbx: the peer's device has all of it
  // end of excerpt
  static_cast<void>(peer);
  return exposure.finish();
}

lend::Result<void> tune(lend::ProtectionDomain const& domain) {
  // excerpt tuned
  if (auto const node = domain.context().attributes().numa_node)
    LEND_TRYV(lend::run_on_node(*node));  // this thread, beside the card
  LEND_TRY(memory, domain.allocate(64 << 20, {.pages = lend::Pages::prefer_huge}));
  LEND_TRY(prepared, lend::channel_builder(domain)
                         .wait(lend::Wait::spin)  // the job owns its cores
                         .send_depth(256)         // requests under way, at most
                         .elements(1)             // less memory for each slot
                         .build());
  // end of excerpt
  return memory.size() > 0 && !prepared.is_used_up() ? lend::Result<void>{lend::success()}
                                                     : lend::Errc::unsupported;
}

}  // namespace

lend::Result<void> come_from_elsewhere(lend::ProtectionDomain const& domain) {
  LEND_TRYV(from_verbs());
  LEND_TRYV(verbs_by_hand(domain));
  LEND_TRYV(from_mpi(domain));
  LEND_TRYV(requests_of_mpi(domain));
  LEND_TRYV(from_ucx());
  LEND_TRYV(lent_messages(domain));
  LEND_TRYV(puts_of_ucx(domain));
  return tune(domain);
}
