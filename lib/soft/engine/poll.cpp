// SPDX-License-Identifier: MIT OR Apache-2.0
// The consuming side of completion queues.
//
// Sends before receives before flushes: so the error that broke a queue pair precedes the flushes
// it caused. Order within each queue is kept; none is owed across.
#include <soft/engine/placing.hpp>
#include <soft/engine/poll.hpp>
#include <soft/engine/send_queue.hpp>
#include <soft/memory/copy.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/queue_pair_states.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/platform/clock.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/bounce.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace lend::soft {
namespace {

/// What a slot of the shared ring was to the caller.
enum class Polled : std::uint8_t { none, well, failed };

/// References, so that each is read where it is written, which takes fewer registers.
[[gnu::always_inline]] inline void fill(ibv_wc& wc, QueuePair const& qp, std::uint64_t const& id,
                                        ibv_wc_status const& status,
                                        ibv_wc_opcode const& opcode = IBV_WC_SEND,
                                        std::uint32_t const& length = 0,
                                        unsigned const& flags = 0) noexcept {
  wc.wr_id = id;
  wc.status = status;
  wc.opcode = opcode;
  // The rest by two wide stores: of the whole a compiler may think that it is rare, and clear it
  // byte by byte.
  static_assert(offsetof(ibv_wc, vendor_err) == 16 && sizeof wc == 48);
  auto* const rest = reinterpret_cast<std::byte*>(&wc) + 16;
  std::memset(rest, 0, 16);
  std::memset(rest + 16, 0, 16);
  wc.byte_len = length;
  wc.qp_num = qp.qp_num;
  wc.wc_flags = flags;
}

[[gnu::always_inline]] inline bool take_local(CompletionQueue& cq, ibv_wc& wc) noexcept {
  auto const head = cq.local_head;
  if (head == cq.local_tail) return false;
  auto const& end = cq.local[head & cq.mask];
  cq.local_head = head + 1;
  // Read once: for all a compiler knows, `wc` lies in the ring.
  auto& qp = *end.queue_pair;
  auto const status = end.status;
  fill(wc, qp, end.id, status, end.opcode, end.length);
  if (status != IBV_WC_SUCCESS) [[unlikely]]
    std::swap(wc.byte_len, wc.vendor_err);
  // Frees this position and all unsignalled ones before. Release pairs with post_send's acquire.
  qp.send_freed.store(end.position + 1, std::memory_order_release);
  return true;
}

/// The bytes in a completion, to any pieces. Everything a peer wrote is checked here.
void scatter_words(QueuePair& qp, ibv_pd const& pd, PostedReceive& receive,
                   SharedCompletion const& slot, std::uint32_t left) noexcept {
  std::uint64_t const words[] = {slot.bytes[0].get(), slot.bytes[1].get(), slot.bytes[2].get(),
                                 slot.bytes[3].get()};
  static_assert(sizeof words == sizeof slot.bytes);
  auto const* source = reinterpret_cast<std::byte const*>(words);
  if (left > sizeof words) return;  // a peer scribbled
  auto const& regions = qp.owner().regions;
  for (auto const& piece : std::span{receive.pieces(), receive.piece_count}) {
    auto const part = std::min(piece.length, left);
    // The owner may have deregistered it meanwhile; then it must not be read.
    if (regions.permits(piece.lkey, pd.handle, piece.addr, part, IBV_ACCESS_LOCAL_WRITE))
      copy_few(reinterpret_cast<std::byte*>(piece.addr), source, part);
    if (part == left) return;
    source += part;
    left -= part;
  }
}

/// The same of a wide completion.
[[gnu::noinline]] void scatter_wide(QueuePair& qp, ibv_pd const& pd, PostedReceive& receive,
                                    SharedCompletion const& slot) noexcept {
  auto const length = how_of(slot).inline_length();
  if (length > SharedCompletion::inline_max) return;
  auto const& cq = qp.receives();
  auto const& rest = rest_of(cq.ring, cq.mask, static_cast<std::uint64_t>(&slot - cq.ring));
  std::uint64_t words[SharedCompletion::inline_max / 8];
  auto* next = words;
  for (auto const& word : slot.bytes) *next++ = word.get();
  for (auto const& word : rest.bytes) *next++ = word.get();
  place_bytes(qp, pd, receive, reinterpret_cast<std::byte const*>(words), length);
}

/// A message in the eager ring. Everything a peer wrote is checked here.
[[gnu::noinline]] void take_eager(QueuePair& qp, ibv_pd const& pd, PostedReceive& receive,
                                  SharedCompletion const& slot, std::uint64_t position) noexcept {
  auto* const buffers = bounce_of(qp.owner().segment, *qp.shared);
  auto const length = std::min(slot.length.get(), receive.length);
  auto const at = position % eager_ring_bytes;
  if (buffers == nullptr || length > eager_bytes_max || length > eager_ring_bytes - at) return;
  place_bytes(qp, pd, receive, buffers->eager + at, length);
  // Release pairs with the sender's acquire: the bytes were read.
  qp.shared->eager_head.store(position + whole_lines(length), std::memory_order_release);
}

/// end_receive() of what came in another way than most, or failed.
[[gnu::noinline]] Polled end_unusual(QueuePair& qp, ibv_pd const& pd, PostedReceive& receive,
                                     SharedCompletion const& slot, ibv_wc& wc) noexcept {
  auto const length = slot.length.get();
  auto const how = how_of(slot);
  auto status = how.status();
  // Only a corrupt peer says that more bytes came than fit, or a status that there is not.
  if (status > IBV_WC_GENERAL_ERR || (status == IBV_WC_SUCCESS && length > receive.length))
    status = IBV_WC_GENERAL_ERR;
  auto const flags = how.flags() & unsigned{IBV_WC_WITH_IMM | IBV_WC_WITH_INV};
  if (status != IBV_WC_SUCCESS) {
    fill(wc, qp, receive.id, static_cast<ibv_wc_status>(status));
    wc.vendor_err = slot.immediate.get();
    return Polled::failed;
  }
  fill(wc, qp, receive.id, IBV_WC_SUCCESS, IBV_WC_RECV, length, flags);
  if (flags != 0) wc.imm_data = slot.immediate.get();
  auto const kind = how.kind();
  if (kind == ReceiveKind::datagram) {
    auto const sender = slot.bytes[0].get();
    wc.src_qp = static_cast<std::uint32_t>(sender) & ((1u << 24) - 1);
    wc.slid = 1;
    wc.sl = static_cast<std::uint8_t>(sender >> 40 & 0xf);
    if ((sender >> 32 & 1) != 0) wc.wc_flags |= IBV_WC_GRH;
    if (how.inline_length() == 2 * word_bytes)
      take_eager(qp, pd, receive, slot, slot.bytes[1].get());
  } else if (kind == ReceiveKind::eager) {
    take_eager(qp, pd, receive, slot, slot.bytes[0].get());
  } else if (kind == ReceiveKind::wide) {
    scatter_wide(qp, pd, receive, slot);
  }
  return Polled::well;
}

/// Makes the completion of `receive`, whose pieces are of `pd`, from what a peer wrote.
[[gnu::always_inline]] inline Polled end_receive(QueuePair& qp, ibv_pd const& pd,
                                                 PostedReceive& receive,
                                                 SharedCompletion const& slot,
                                                 ibv_wc& wc) noexcept {
  auto const length = slot.length.get();
  auto const how = how_of(slot);
  bool const is_message = how.is_success_of(ReceiveKind::send);
  if (is_message ? length > receive.length : !how.is_success_of(ReceiveKind::write_with_immediate))
      [[unlikely]]
    return end_unusual(qp, pd, receive, slot, wc);
  auto const flags = how.flags() & unsigned{IBV_WC_WITH_IMM | IBV_WC_WITH_INV};
  fill(wc, qp, receive.id, IBV_WC_SUCCESS, is_message ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
       length, flags);
  if (flags != 0) wc.imm_data = slot.immediate.get();
  if (how.inline_length() != 0) scatter_words(qp, pd, receive, slot, how.inline_length());
  return Polled::well;
}

/// The end of a receive of a shared receive queue.
[[gnu::noinline]] Polled take_pooled(QueuePair& qp, SharedCompletion const& slot,
                                     ibv_wc& wc) noexcept {
  auto& pool = *qp.pool();
  auto const index = pool.end_of(slot);
  if (!index) return Polled::none;
  auto const taken = end_receive(qp, *pool.pd, pool.kept_at(*index), slot, wc);
  pool.recycle(*index);
  return taken;
}

/// The queue pair of that name whose receives complete here, or null.
[[gnu::always_inline]] inline QueuePair* find_receiver(CompletionQueue const& cq,
                                                       std::uint64_t receiver) noexcept {
  auto const index = static_cast<std::uint32_t>(receiver);
  if (index >= queue_pairs_max) return nullptr;
  // A corrupt peer may name one that is just made.
  auto* const qp = Context::of(cq.context).queue_pairs[index].load(std::memory_order_acquire);
  // Of another epoch: it was reset, or destroyed and made again.
  return qp != nullptr && qp->recv_cq == &cq && qp->receiver == receiver ? qp : nullptr;
}

/// Whether a completion is that of the next receive of its queue pair.
[[gnu::always_inline]] inline bool is_next(QueuePair const& qp, SharedCompletion const& slot,
                                           std::uint64_t done) noexcept {
  // Acquire pairs with post_recv: the posted receive was written before it was counted.
  return done != qp.receive_posted.load(std::memory_order_acquire) &&
         slot.receive.get() == static_cast<std::uint32_t>(done);
}

/// None: the slot held no completion for the caller; either way it is consumed.
[[gnu::always_inline]] inline Polled take_shared(CompletionQueue& cq, SharedCompletion const& slot,
                                                 ibv_wc& wc) noexcept {
  auto* const qp = find_receiver(cq, slot.receiver.get());
  if (qp == nullptr) return Polled::none;
  if (qp->srq != nullptr) return take_pooled(*qp, slot, wc);
  auto const done = qp->receive_done.load(std::memory_order_relaxed);
  if (!is_next(*qp, slot, done))
    return Polled::none;  // a corrupt peer: every receive ends once, in order
  qp->fetch_next_receive();
  auto const polled = end_receive(*qp, *qp->pd, qp->posted_at(done), slot, wc);
  // Release pairs with post_recv's acquire: the slot is read before it is written again.
  qp->receive_done.store(done + 1, std::memory_order_release);
  return polled;
}

/// The bytes of a completion, if they are a word for one piece.
[[gnu::always_inline]] inline bool place_word(QueuePair const& qp, PostedReceive const& receive,
                                              SharedCompletion const& slot,
                                              ReceiveHow how) noexcept {
  auto const& piece = *receive.pieces();
  if (how.inline_length() != word_bytes || receive.piece_count == 0 || piece.length < word_bytes ||
      !qp.owner().regions.permits(piece.lkey, qp.pd->handle, piece.addr, word_bytes,
                                  IBV_ACCESS_LOCAL_WRITE)) [[unlikely]]
    return false;
  auto const word = slot.bytes[0].get();
  copy_few(reinterpret_cast<std::byte*>(piece.addr), reinterpret_cast<std::byte const*>(&word),
           word_bytes);
  return true;
}

/// Takes a published completion in fewer steps, if it is of a queue pair's own queue, and a
/// success whose bytes are placed or a word for one piece, as most are. False: nothing was done.
[[gnu::always_inline]] inline bool take_plain(CompletionQueue const& cq,
                                              SharedCompletion const& slot, ibv_wc& wc) noexcept {
  auto* const qp = find_receiver(cq, slot.receiver.get());
  if (qp == nullptr || qp->srq != nullptr) [[unlikely]]
    return false;
  auto const done = qp->receive_done.load(std::memory_order_relaxed);
  if (!is_next(*qp, slot, done)) [[unlikely]]
    return false;
  auto const& receive = qp->posted_at(done);
  auto const how = how_of(slot);
  auto const length = slot.length.get();
  bool const is_message = how.is_success_of(ReceiveKind::send);
  if (is_message ? length > receive.length : !how.is_success_of(ReceiveKind::write_with_immediate))
      [[unlikely]]
    return false;
  qp->fetch_next_receive();
  if (how.inline_length() != 0 && !place_word(*qp, receive, slot, how)) [[unlikely]]
    return false;
  auto const flags = how.flags() & unsigned{IBV_WC_WITH_IMM | IBV_WC_WITH_INV};
  fill(wc, *qp, receive.id, IBV_WC_SUCCESS, is_message ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
       length, flags);
  if (flags != 0) wc.imm_data = slot.immediate.get();
  // Release pairs with post_recv's acquire: the slot is read before it is written again.
  qp->receive_done.store(done + 1, std::memory_order_release);
  return true;
}

int flush_sends(CompletionQueue& cq, int count, ibv_wc* wc) noexcept {
  int made = 0;
  for (auto* qp = cq.flushing_sends; qp != nullptr; qp = qp->next_flushing_send) {
    // Acquire pairs with post_send, which appends.
    auto const tail = qp->pending_tail.load(std::memory_order_acquire);
    auto head = qp->pending_head.load(std::memory_order_relaxed);
    while (head != tail && made < count) {
      auto const& work = qp->pending_at(head++).work;
      fill(wc[made++], *qp, work.id, IBV_WC_WR_FLUSH_ERR);
      auto const freed = work.position + 1;
      qp->pending_head.store(head, std::memory_order_relaxed);
      qp->send_freed.store(freed, std::memory_order_release);
    }
  }
  return made;
}

/// Flushes the receive that was claimed, unless it turned out complete.
[[gnu::noinline]] int flush_claim(QueuePair& qp, ibv_wc& wc) noexcept {
  auto const word = std::exchange(qp.flushing_claim, 0);
  auto& pool = *qp.pool();
  if (!pool.end_as(word)) return 0;
  auto const index = PoolRing::index_of(word);
  fill(wc, qp, pool.kept_at(index).id, IBV_WC_WR_FLUSH_ERR);
  pool.recycle(index);
  return 1;
}

int flush_receives(CompletionQueue& cq, int count, ibv_wc* wc) noexcept {
  int made = 0;
  for (auto* qp = cq.flushing_receives; qp != nullptr; qp = qp->next_flushing_receive) {
    if (cq.head < qp->flush_after && first_published(cq) != nullptr) continue;
    if (qp->flushing_claim != 0 && made < count) made += flush_claim(*qp, wc[made]);
    auto const posted = qp->receive_posted.load(std::memory_order_acquire);
    auto done = qp->receive_done.load(std::memory_order_relaxed);
    while (done != posted && made < count) {
      fill(wc[made++], *qp, qp->posted_at(done++).id, IBV_WC_WR_FLUSH_ERR);
      qp->receive_done.store(done, std::memory_order_release);
    }
  }
  return made;
}

[[gnu::noinline]] int flush(CompletionQueue& cq, int count, ibv_wc* wc) noexcept {
  int const sends = flush_sends(cq, count, wc);
  return sends + flush_receives(cq, count - sends, wc + sends);
}

/// Takes what is there, `left` of `count` at most, and releases the queue's lock, which the caller
/// holds. With `is_timed` one completion at a time, and its time into the queue.
template <bool is_timed>
[[gnu::noinline]] int poll_on(CompletionQueue& cq, int count, ibv_wc* wc, int left) noexcept {
  bool has_failed = false;
  {
    std::lock_guard const guard{cq.lock, std::adopt_lock};
    if constexpr (is_timed) cq.current_time = now();  // of a flush; others are overwritten
    for (; left > 0 && take_local(cq, *wc); --left, ++wc)
      if constexpr (is_timed) cq.current_time = cq.local_times[(cq.local_head - 1) & cq.mask];
    auto head = cq.head;
    // Once around: a corrupt peer may publish nonsense for ever.
    auto const head_max = head + cq.mask + 1;
    for (; left > 0 && head != head_max; ++head) {
      auto const* const slot = published_at(cq, head);
      if (slot == nullptr) break;
      auto const polled = take_shared(cq, *slot, *wc);
      if (polled == Polled::none) continue;
      if constexpr (is_timed) cq.current_time = time_of(cq.ring, cq.mask, head).get();
      if (polled == Polled::failed) has_failed = true;
      --left;
      ++wc;
    }
    if (head != cq.head) {
      cq.head = head;
      give_back_slots(cq);
    }
    if (left > 0 && has_flushes(cq)) left -= flush(cq, left, wc);
  }
  // Who failed the receive was about to break its queue pair, and may have died before.
  if (has_failed) [[unlikely]]
    notice_trouble(Context::of(cq.context));
  return count - left;
}

/// poll_on() in fewer steps, behind the ends of sends.
[[gnu::noinline]] int poll_shared(CompletionQueue& cq, int count, ibv_wc* wc, int left) noexcept {
  for (; left > 0; --left, ++wc) {
    auto const& slot = slot_at(cq, cq.head);
    if (!is_published(slot, cq.head)) break;
    if (!take_plain(cq, slot, *wc)) [[unlikely]]
      return poll_on<false>(cq, count, wc, left);
    ++cq.head;
    give_back_slots(cq);
  }
  if (left > 0 && has_flushes(cq)) return poll_on<false>(cq, count, wc, left);
  cq.lock.unlock();
  return count - left;
}

/// Whether nothing is to be done before a poll.
[[gnu::always_inline]] inline bool is_quiet(CompletionQueue const& cq) noexcept {
  auto const& context = Context::of(cq.context);
  // Acquire pairs with the release of a peer that moved a queue pair to ERR.
  return context.is_ours() && !cq.fails.load(std::memory_order_relaxed) &&
         !context.stalled.maybe_any() &&
         context.segment.header.trouble.load(std::memory_order_acquire) ==
             context.trouble_seen.load(std::memory_order_relaxed);
}

template <bool is_timed>
[[gnu::noinline]] int poll_generally(CompletionQueue& cq, int count, ibv_wc* wc) noexcept {
  auto& context = Context::of(cq.context);
  if (!is_quiet(cq)) {
    if (!context.is_ours()) return -context.check_ours();
    if (cq.fails.load(std::memory_order_relaxed)) return -fail(EIO);
    if (context.stalled.maybe_any()) retry_stalled(context, RetriedFor::pollers);
    if (context.segment.header.trouble.load(std::memory_order_acquire) !=
        context.trouble_seen.load(std::memory_order_relaxed))
      notice_trouble(context);
  }
  cq.lock.lock();
  cq.is_told = false;
  return poll_on<is_timed>(cq, count, wc, count);
}

}  // namespace

// The short way: it calls nothing but what takes its place.
int poll_cq(ibv_cq* queue, int count, ibv_wc* wc) noexcept {
  auto& cq = *static_cast<CompletionQueue*>(queue);
  if (!is_quiet(cq) || !cq.lock.try_lock()) [[unlikely]]
    return poll_generally<false>(cq, count, wc);
  cq.is_told = false;
  int left = count;
  for (; left > 0 && take_local(cq, *wc); ++wc) --left;
  if (left > 0) return poll_shared(cq, count, wc, left);
  cq.lock.unlock();
  return count;
}

int poll_current(CompletionQueue& queue) noexcept {
  return queue.is_timed ? poll_generally<true>(queue, 1, &queue.current)
                        : poll_cq(&queue, 1, &queue.current);
}

}  // namespace lend::soft
