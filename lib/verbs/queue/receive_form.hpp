// SPDX-License-Identifier: MIT OR Apache-2.0
// Receives of one element, posted to one shared receive queue again and again: what is the same in
// each is described once. One thread at a time.
#pragma once

#include <lend/verbs/receive_queue.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/post/plain_work.hpp>

#include <cstdint>

namespace lend::verbs {

class ReceiveForm {
 public:
  explicit ReceiveForm(ReceiveQueue const& queue) noexcept : queue_{queue.handle()} {}

  /// Posts bytes of `region` that this queue has taken before. False: the device refuses. One that
  /// fails without saying so of this receive may have taken it, which counts as posted.
  [[nodiscard, gnu::always_inline]] bool post(std::uint64_t id, RegionState const& region,
                                              ByteRange range) noexcept {
    fill_element(form_.entry, region, range);
    form_.request.wr_id = id;
    ibv_recv_wr* refused = nullptr;
    return post_chain(queue_, form_.request, refused) == 0 || refused == nullptr;
  }

 private:
  ReceiveQueueHandle const& queue_;
  Form<Receive> form_;
};

}  // namespace lend::verbs
