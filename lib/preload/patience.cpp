// SPDX-License-Identifier: MIT OR Apache-2.0
// Counts empty polls per thread. Any thread.
#include "patience.hpp"

#include <base/yielding.hpp>
#include <soft/device/provider.hpp>
#include <soft/engine/poll.hpp>
#include <soft/objects/completion_queue.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>

namespace lend::preload {
namespace {

constinit thread_local std::uint32_t empty_polls = 0;
thread_local auto rule = base::SpinRule::of_this_thread();

void note(bool found_something) noexcept {
  if (found_something) {
    empty_polls = 0;
  } else if (empty_polls < rule.spins) {
    ++empty_polls;
    if (empty_polls % base::SpinRule::polls_per_clock_read == 0 &&
        rule.has_spun_enough(empty_polls))
      empty_polls = rule.spins;
  } else if (rule.yield(std::chrono::steady_clock::now())) {
    empty_polls = 0;
  }
}

int poll(ibv_cq* queue, int count, ibv_wc* completions) noexcept {
  int const found = soft::poll_cq(queue, count, completions);
  note(found != 0);
  return found;
}

// The same for every queue. Relaxed: a program gets its queues from create_cq_ex() below.
constinit std::atomic<decltype(ibv_cq_ex::start_poll)> soft_start_poll{nullptr};

int start_poll(ibv_cq_ex* queue, ibv_poll_cq_attr* attributes) noexcept {
  int const error = soft_start_poll.load(std::memory_order_relaxed)(queue, attributes);
  note(error != ENOENT);
  return error;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* asked) noexcept {
  auto* const made = soft::provider().create_cq_ex(context, asked);
  if (made == nullptr) return nullptr;
  soft_start_poll.store(made->start_poll, std::memory_order_relaxed);
  made->start_poll = start_poll;
  return made;
}

}  // namespace

void poll_patiently(ibv_context& context) noexcept {
  context.ops.poll_cq = poll;
  verbs_get_ctx(&context)->create_cq_ex = create_cq_ex;
}

}  // namespace lend::preload
