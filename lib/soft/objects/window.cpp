// SPDX-License-Identifier: MIT OR Apache-2.0
// Making and deallocating memory windows.
#include <soft/objects/window.hpp>

#include <soft/objects/context.hpp>
#include <soft/objects/domain.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/window_scope.hpp>

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

namespace lend::soft {
namespace {

/// Null when no CPU uses the window any more, and it is not bound; or the lock of one that may.
RobustLock const* end_window(Context& context, std::uint32_t key) noexcept {
  std::lock_guard const guard{context.control};  // no queue pair goes
  for (;;) {                                     // again if a bind came in between
    auto const scope = context.regions.scope_of(key);
    auto const index = (scope & ~window_scope_bit) / (window_scope_bit >> index_bits);
    auto* const qp =
        scope == 0 ? nullptr : context.queue_pairs[index].load(std::memory_order_relaxed);
    // Never bound, or its queue pair is gone or was reset, and none is at the bytes.
    if (qp == nullptr || window_scope_of(*qp->shared, index) != scope) {
      if (context.regions.remove_window(key, scope)) return nullptr;
      continue;
    }
    auto& rx = qp->shared->rx;
    if (!rx.lock_in_time(context.claimant)) return &rx;
    RobustGuard const users{rx, std::adopt_lock};
    if (context.regions.remove_window(key, scope)) return nullptr;
  }
}

}  // namespace

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept try {
  auto& context = Context::of(pd->context);
  if (context.check_ours() != 0) return nullptr;
  if (type != IBV_MW_TYPE_2) {
    fail(type == IBV_MW_TYPE_1 ? EOPNOTSUPP : EINVAL,
         "the soft device has memory windows of type 2, each for one queue pair");
    return nullptr;
  }
  auto window = std::make_unique<Window>();
  if (context.regions.add_window(window->key) != 0) return nullptr;
  window->context = pd->context;
  window->pd = pd;
  window->rkey = window->key;
  window->handle = index_of_key(window->key);
  window->type = type;
  static_cast<Domain*>(pd)->users.fetch_add(1);
  return window.release();
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

int dealloc_mw(ibv_mw* mw) noexcept {
  auto* const window = static_cast<Window*>(mw);
  auto& context = Context::of(mw->context);
  if (!context.is_ours()) return 0;
  auto const error = wait_for_holders(context, [&] { return end_window(context, window->key); });
  if (error != 0) return error;
  static_cast<Domain*>(mw->pd)->users.fetch_sub(1);
  delete window;
  return 0;
}

}  // namespace lend::soft
