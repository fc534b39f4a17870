// SPDX-License-Identifier: MIT OR Apache-2.0
// The fake provider's data path: what programs post and poll.
#include "verbs/fake_provider.hpp"

#include <cerrno>
#include <utility>

namespace lend::test {

namespace {

Posted posted_from(ibv_send_wr const& request) {
  return {request, {request.sg_list, request.sg_list + request.num_sge}, false};
}
Posted posted_from(ibv_recv_wr const& request) {
  Posted posted{{}, {request.sg_list, request.sg_list + request.num_sge}, true};
  posted.request.wr_id = request.wr_id;
  posted.request.num_sge = request.num_sge;
  return posted;
}

/// A chain, up to the request that is to be refused. `queue_pair` is 0 of a shared queue.
template <class Request>
int post_chain(std::uint32_t queue_pair, Request* request, Request** refused) {
  ++fake().post_calls;
  bool is_refused = false;
  for (; request != nullptr; request = request->next) {
    is_refused = is_refused || (fake().post_result != 0 && fake().refuse_after-- <= 0);
    if (is_refused && fake().post_calls <= fake().silent_after) {
      *refused = request;
      break;
    }
    fake().posted.push_back(posted_from(*request));
    fake().posted.back().queue_pair = queue_pair;
  }
  if (!is_refused) return 0;
  fake().refuse_after = 0;
  return fake().refuses_once ? std::exchange(fake().post_result, 0) : fake().post_result;
}

template <class Request>
int post(ibv_qp* queue_pair, Request* request, Request** refused) {
  fake().last_to_post = queue_pair->qp_num;
  return post_chain(queue_pair->qp_num, request, refused);
}

int post_srq_recv(ibv_srq*, ibv_recv_wr* request, ibv_recv_wr** refused) {
  return post_chain(0, request, refused);
}

int req_notify_cq(ibv_cq*, int) {
  return fake().fails("ibv_req_notify_cq") ? EIO : 0;
}

int poll_cq(ibv_cq*, int count, ibv_wc* target) {
  fake().polls.push_back(count);
  int taken = 0;
  for (; taken < count && !fake().completions.empty(); ++taken) {
    target[taken] = fake().completions.front();
    // Where the test does not say whose it is.
    if (target[taken].qp_num == 0) target[taken].qp_num = fake().last_to_post;
    fake().completions.pop_front();
  }
  if (taken == 0 && fake().at_empty_poll) std::exchange(fake().at_empty_poll, nullptr)();
  if (taken == 0 && fake().always) target[taken++] = *fake().always;
  return taken == 0 && fake().poll_result < 0 ? fake().poll_result : taken;
}

}  // namespace

void fill_data_path(ibv_context_ops& ops) {
  ops.post_send = &post<ibv_send_wr>;
  ops.post_recv = &post<ibv_recv_wr>;
  ops.post_srq_recv = &post_srq_recv;
  ops.poll_cq = &poll_cq;
  ops.req_notify_cq = &req_notify_cq;
}

}  // namespace lend::test
