// SPDX-License-Identifier: MIT OR Apache-2.0
// Preloaded into a verbs program, lets two that spin share a CPU: the one that has posted, or found
// its completion queue empty, hands the CPU to the other. LEND_HANDOVER_EVERY: after how many
// requests (1). Only for programs with one thread.
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <sched.h>
#include <array>
#include <cstddef>
#include <cstdlib>

namespace {

/// A device that was opened, and what it did. librdmacm opens all there are.
struct Opened {
  ibv_context* context;
  decltype(ibv_context_ops::post_send) post;
  decltype(ibv_context_ops::poll_cq) poll;
};
std::array<Opened, 8> devices;
std::size_t device_count;
unsigned long every = 1, left = 1;

Opened const& opened(ibv_context const* context) {
  std::size_t i = 0;
  while (devices[i].context != context) ++i;
  return devices[i];
}

int post(ibv_qp* queue_pair, ibv_send_wr* first, ibv_send_wr** refused) {
  int const status = opened(queue_pair->context).post(queue_pair, first, refused);
  bool is_due = false;
  for (auto const* request = first; request != nullptr; request = request->next) {
    if (--left > 0) continue;
    is_due = true;
    left = every;
  }
  if (is_due) sched_yield();
  return status;
}

int poll(ibv_cq* queue, int room, ibv_wc* completions) {
  int const taken = opened(queue->context).poll(queue, room, completions);
  if (taken == 0) sched_yield();
  return taken;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] ibv_context* ibv_open_device(ibv_device* device) {
  void* found = dlsym(RTLD_NEXT, __func__);
  // lend is not linked with libibverbs, but has loaded it.
  if (found == nullptr) found = dlsym(dlopen("libibverbs.so.1", RTLD_NOW), __func__);
  auto const open = reinterpret_cast<decltype(&ibv_open_device)>(found);
  ibv_context* const context = open != nullptr ? open(device) : nullptr;
  if (context == nullptr) return nullptr;
  char const* const asked = std::getenv("LEND_HANDOVER_EVERY");
  if (asked != nullptr) every = left = std::strtoul(asked, nullptr, 10);
  if (device_count == devices.size()) std::abort();
  devices[device_count++] = {context, context->ops.post_send, context->ops.poll_cq};
  context->ops.post_send = post;
  context->ops.poll_cq = poll;
  return context;
}
