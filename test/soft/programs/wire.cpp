// SPDX-License-Identifier: MIT OR Apache-2.0
// One program at a time, one thread.
#include "soft/programs/wire.hpp"

#include <endian.h>
#include <soft/objects/address_handle.hpp>

#include <algorithm>
#include <cstring>

namespace lend::test {

namespace {

constexpr std::size_t grh_bytes = 40;
constexpr std::uint32_t bad_key = 0xbad'0bad;  // of nobody()
constexpr std::uint32_t own_key = 1u << 31;    // stands for the sender's own

/// Bytes that may be on loan.
__attribute__((no_sanitize("address"))) void append(std::vector<std::byte>& bytes,
                                                    std::uint64_t address, std::size_t length) {
  auto const* const from = reinterpret_cast<unsigned char const volatile*>(address);
  for (std::size_t i = 0; i < length; ++i) bytes.push_back(std::byte{from[i]});
}

/// What came into `pieces`, beginning at `at`.
std::vector<std::byte> content_of(std::vector<Piece> const& pieces, std::size_t at,
                                  std::size_t length) {
  std::vector<std::byte> all;
  for (auto const& piece : pieces)
    append(all, piece.address, std::min<std::size_t>(piece.length, at + length - all.size()));
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(at, all.size())));
  return all;
}

}  // namespace

void Wire::begin(bool is_exact) {
  is_exact_ = is_exact;
  pairs_.clear();
  sent_.clear();
  awaited_.clear();
  matched_.clear();
  skipped_.clear();
}

void Wire::note_made(ibv_qp const& pair) {
  pairs_[pair.qp_num] = {.type = pair.qp_type, .sends = pair.send_cq, .receives = pair.recv_cq};
}

void Wire::note_moved(std::uint32_t number, ibv_qp_attr const& attributes, int mask) {
  Pair& pair = pairs_[number];
  if ((mask & IBV_QP_DEST_QPN) != 0) pair.peer = attributes.dest_qp_num;
  if ((mask & IBV_QP_QKEY) != 0) pair.key = attributes.qkey;
  if ((mask & IBV_QP_STATE) == 0) return;
  pair.state = attributes.qp_state;
  if (pair.state == IBV_QPS_ERR || pair.state == IBV_QPS_RESET) pair.waiting.clear();
}

void Wire::note_gone(std::uint32_t pair) {
  pairs_.erase(pair);
}

std::optional<Sent> Wire::describe(ibv_qp const& pair, ibv_send_wr const& request) const {
  bool const has_immediate =
      request.opcode == IBV_WR_SEND_WITH_IMM || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  bool const is_write = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  bool const is_send = request.opcode == IBV_WR_SEND || request.opcode == IBV_WR_SEND_WITH_IMM ||
                       request.opcode == IBV_WR_SEND_WITH_INV;
  if (!is_write && !is_send) return {};
  auto const found = pairs_.find(pair.qp_num);
  Sent sent;
  sent.from = pair.qp_num;
  sent.is_write = is_write;
  if (has_immediate) sent.immediate = be32toh(request.imm_data);
  for (int i = 0; i < request.num_sge; ++i)
    append(sent.bytes, request.sg_list[i].addr, request.sg_list[i].length);
  if (pair.qp_type == IBV_QPT_UD) {
    sent.to = request.wr.ud.remote_qpn;
    auto const& way = static_cast<soft::AddressHandle const*>(request.wr.ud.ah)->attributes;
    sent.has_header = way.is_global != 0;
    auto const key =
        (request.wr.ud.remote_qkey & own_key) != 0 ? found->second.key : request.wr.ud.remote_qkey;
    auto const target = pairs_.find(sent.to);
    sent.has_right = target != pairs_.end() && target->second.key == key;
  } else {
    sent.to = found != pairs_.end() ? found->second.peer : 0;
    // Nobody asks for the key of no bytes.
    sent.has_right = !is_write || sent.bytes.empty() || request.wr.rdma.rkey != bad_key;
  }
  return sent;
}

std::size_t Wire::room_of(std::size_t work) const {
  std::size_t room = 0;
  for (auto const& piece : works_[work].pieces) room += piece.length;
  return room;
}

void Wire::note_sent(Sent sent) {
  sent_.push_back(std::move(sent));
  deliver(sent_.size() - 1);
}

/// To the receive that has waited longest, if the message may come and fits.
void Wire::deliver(std::size_t index) {
  Sent const& sent = sent_[index];
  auto const from = pairs_.find(sent.from);
  auto const to = pairs_.find(sent.to);
  if (from == pairs_.end() || to == pairs_.end() || !is_exact(from->second)) return;
  Pair& target = to->second;
  bool const can_send = from->second.state == IBV_QPS_RTS;
  bool const can_receive = target.state == IBV_QPS_RTR || target.state == IBV_QPS_RTS;
  if (!can_send || !can_receive || !sent.has_right || target.waiting.empty()) return;
  std::size_t const before = target.type == IBV_QPT_UD ? grh_bytes : 0;
  auto const receive = target.waiting.front();
  if (!sent.is_write && room_of(receive) < before + sent.bytes.size()) return;
  target.waiting.pop_front();
  awaited_[receive] = index;
}

void Wire::note_receive(std::uint32_t number, std::size_t work) {
  Pair& pair = pairs_[number];
  if (is_exact(pair) && pair.state != IBV_QPS_ERR) pair.waiting.push_back(work);
}

std::string Wire::note_received(Accepted& receive, std::optional<std::size_t> work,
                                ibv_wc const& entry) {
  auto const found = pairs_.find(receive.queue_pair);
  if (found == pairs_.end()) return "a message came to a queue pair that is gone";
  Pair const& pair = found->second;
  bool const is_datagram = pair.type == IBV_QPT_UD;
  std::size_t const before = is_datagram ? grh_bytes : 0;
  if (entry.byte_len < before) return "a datagram is shorter than its header";
  if (entry.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
    receive.content = content_of(receive.pieces, before, entry.byte_len - before);
  receive.has_header = is_datagram && (entry.wc_flags & IBV_WC_GRH) != 0;
  if (receive.has_header) {
    auto const header = content_of(receive.pieces, 0, grh_bytes);
    std::copy(header.begin(), header.end(), receive.header.begin());
  }
  receive.source = entry.src_qp;
  if (!is_exact(pair) || !work) return match(receive, entry);
  auto const awaited = awaited_.find(*work);
  if (awaited == awaited_.end()) return "a message came that was not sent, or should be lost";
  auto const sent = awaited->second;
  awaited_.erase(awaited);
  return compare(sent_[sent], receive, entry);
}

std::string Wire::compare(Sent const& sent, Accepted const& receive, ibv_wc const& entry) const {
  bool const is_datagram = pairs_.at(receive.queue_pair).type == IBV_QPT_UD;
  std::size_t const before = is_datagram ? grh_bytes : 0;
  if (is_datagram && entry.src_qp != sent.from) return "a datagram names another sender";
  if (sent.is_write != (entry.opcode == IBV_WC_RECV_RDMA_WITH_IMM))
    return "a message came as one of another kind";
  if (entry.byte_len != before + sent.bytes.size()) return "a message came with another length";
  auto const immediate = (entry.wc_flags & IBV_WC_WITH_IMM) != 0
                             ? std::optional<std::uint32_t>{be32toh(entry.imm_data)}
                             : std::nullopt;
  if (immediate != sent.immediate) return "a message came with another immediate";
  if (!sent.is_write && receive.content != sent.bytes) return "a message came torn, or is another";
  if (!is_datagram) return {};
  if (receive.has_header != sent.has_header) return "a datagram has a header, or none, wrongly";
  if (!sent.has_header) return {};
  ibv_grh header;
  std::memcpy(&header, receive.header.data(), sizeof header);
  auto const length = 24 + (sent.immediate ? 4 : 0) + (sent.bytes.size() + 3) / 4 * 4;
  if (be16toh(header.paylen) != length || be32toh(header.version_tclass_flow) >> 28 != 6)
    return "the header of a datagram is torn";
  return {};
}

/// Messages of one queue pair to another come in order, if they come.
std::string Wire::match(Accepted const& receive, ibv_wc const& entry) {
  Pair const& pair = pairs_.at(receive.queue_pair);
  bool const is_datagram = pair.type == IBV_QPT_UD;
  auto const from = is_datagram ? entry.src_qp : pair.peer;
  std::size_t& up_to = matched_[{from, receive.queue_pair}];
  std::string first;
  for (std::size_t i = up_to; i < sent_.size(); ++i) {
    Sent const& sent = sent_[i];
    if (sent.from != from || sent.to != receive.queue_pair) continue;
    auto wrong = compare(sent, receive, entry);
    if (wrong.empty()) {
      up_to = i + 1;
      return {};
    }
    if (first.empty()) first = std::move(wrong);
    if (pair.type != IBV_QPT_RC) continue;
    if (works_[sent.work].has_succeeded()) return first;
    skipped_[sent.work] = i;
  }
  return first.empty() ? "a message came twice, or nobody sent it" : first;
}

std::string Wire::note_left(std::size_t work) {
  return skipped_.contains(work) ? "a reliable message was lost, and its send succeeded" : "";
}

std::string Wire::note_drained(ibv_cq const* queue) const {
  if (!is_exact_) return {};
  auto const is_of = [&](std::size_t work) {
    auto const pair = pairs_.find(works_[work].queue_pair);
    return pair != pairs_.end() && pair->second.receives == queue && works_[work].is_in_progress();
  };
  for (auto const& [receive, sent] : awaited_)
    if (is_of(receive)) return "a message is lost for which a receive waited";
  for (auto const& sent : sent_) {
    auto const pair = pairs_.find(sent.from);
    Accepted const& work = works_[sent.work];
    if (pair != pairs_.end() && is_exact(pair->second) && pair->second.sends == queue &&
        work.is_in_progress() && !work.is_silent)
      return "an unreliable message was sent, and its send is not over";
  }
  return {};
}

}  // namespace lend::test
