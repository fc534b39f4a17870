// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading completions field by field. One completion is taken at a time, so that a program may post
// between two of them, which takes the queue's lock.
// Source: ibv_create_cq_ex(3).
#include <soft/engine/extended.hpp>
#include <soft/engine/poll.hpp>
#include <soft/objects/completion_queue.hpp>
#include <soft/platform/reason.hpp>

#include <cerrno>

namespace lend::soft {
namespace {

CompletionQueue& of(ibv_cq_ex* queue) noexcept {
  return *static_cast<CompletionQueue*>(ibv_cq_ex_to_cq(queue));
}

int take_next(ibv_cq_ex* queue) noexcept {
  auto& cq = of(queue);
  auto const made = poll_current(cq);
  if (made <= 0) return made == 0 ? ENOENT : -made;
  queue->wr_id = cq.current.wr_id;
  queue->status = cq.current.status;
  return 0;
}

int start_poll(ibv_cq_ex* queue, ibv_poll_cq_attr* attributes) noexcept {
  if (attributes->comp_mask != 0) return EINVAL;
  auto& cq = of(queue);
  cq.reading.lock();
  auto const error = take_next(queue);
  if (error != 0) cq.reading.unlock();
  return error;
}

void end_poll(ibv_cq_ex* queue) noexcept {
  of(queue).reading.unlock();
}

/// Sets what reads its completions field by field.
void fill_readers(CompletionQueue& cq) noexcept {
  auto* const made = reinterpret_cast<ibv_cq_ex*>(static_cast<ibv_cq*>(&cq));
  made->start_poll = start_poll;
  made->next_poll = take_next;
  made->end_poll = end_poll;
  made->read_opcode = [](ibv_cq_ex* queue) { return of(queue).current.opcode; };
  made->read_vendor_err = [](ibv_cq_ex* queue) { return of(queue).current.vendor_err; };
  made->read_byte_len = [](ibv_cq_ex* queue) { return of(queue).current.byte_len; };
  made->read_imm_data = [](ibv_cq_ex* queue) { return of(queue).current.imm_data; };
  made->read_qp_num = [](ibv_cq_ex* queue) { return of(queue).current.qp_num; };
  made->read_src_qp = [](ibv_cq_ex* queue) { return of(queue).current.src_qp; };
  made->read_wc_flags = [](ibv_cq_ex* queue) { return of(queue).current.wc_flags; };
  made->read_slid = [](ibv_cq_ex* queue) { return std::uint32_t{of(queue).current.slid}; };
  made->read_sl = [](ibv_cq_ex* queue) { return of(queue).current.sl; };
  made->read_completion_ts = [](ibv_cq_ex* queue) { return of(queue).current_time; };
  made->read_dlid_path_bits = [](ibv_cq_ex* queue) { return of(queue).current.dlid_path_bits; };
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* asked) noexcept {
  constexpr std::uint64_t fields =
      std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  auto const flags = (asked->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? asked->flags : 0;
  if ((asked->comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) != 0 ||
      (asked->wc_flags & ~fields) != 0 ||
      (flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0) {
    fail(EOPNOTSUPP,
         "an extended completion queue of the soft device has the standard fields and timestamps, "
         "and no parent domain");
    return nullptr;
  }
  auto* const made = make_cq(context, static_cast<int>(asked->cqe), asked->cq_context,
                             asked->channel, static_cast<int>(asked->comp_vector),
                             (asked->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0);
  if (made == nullptr) return nullptr;
  fill_readers(*static_cast<CompletionQueue*>(made));
  return reinterpret_cast<ibv_cq_ex*>(made);
}

}  // namespace lend::soft
