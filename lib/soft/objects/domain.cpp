// SPDX-License-Identifier: MIT OR Apache-2.0
// Protection domains, registrations and allocated memory.
#include <soft/objects/domain.hpp>

#include <soft/objects/context.hpp>
#include <soft/objects/held_locks.hpp>
#include <soft/objects/queue_pair.hpp>
#include <soft/objects/receive_pool.hpp>
#include <soft/platform/reason.hpp>

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <span>

namespace lend::soft {
namespace {

/// Whether a receive of the queue pair that did not end names the key.
bool names_in_receives(QueuePair& qp, std::uint32_t key) noexcept {
  auto const names = [key](PostedReceive& receive) {
    auto const pieces = std::span{receive.pieces(), receive.piece_count};
    return std::any_of(pieces.begin(), pieces.end(),
                       [key](ibv_sge const& piece) { return piece.lkey == key; });
  };
  if (auto* const pool = qp.pool()) {
    std::lock_guard const posters{pool->lock};
    for (std::uint32_t i = 0; i < pool->depth; ++i)
      if (pool->words[i] != 0 && names(pool->kept_at(i))) return true;
    return false;
  }
  std::lock_guard const posters{qp.receive_lock};
  std::lock_guard const pollers{qp.receives().lock};
  for (auto at = qp.receive_done.load(); at != qp.receive_posted.load(); ++at)
    if (names(qp.posted_at(at))) return true;
  return false;
}

/// Whether the peer that holds rx may be at the memory by a request that names the key, which is
/// invalid by now.
bool may_name(QueuePair const& qp, std::uint32_t key) noexcept {
  // Pairs with the responder, which names the key and then looks whether it is valid: it found it
  // invalid, or is seen here. Source: membarrier(2).
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) return true;
  return qp.shared->remote_key.load(std::memory_order_acquire) == key;
}

/// Null when no CPU that saw the key before it was invalidated uses the memory any more; or the
/// lock of one that may. The caller holds Context::control, so that no queue pair goes.
RobustLock const* users_of_memory(Context& context, std::uint32_t key) noexcept {
  for (auto& entry : std::span{context.queue_pairs}.first(context.queue_pairs_end)) {
    auto* const qp = entry.load(std::memory_order_relaxed);
    if (qp == nullptr) continue;
    {
      std::lock_guard const ours{qp->send_lock};
      // No receiver gets bytes of it any more, not even a copy, nor takes what it reads just now;
      // what was taken stays so.
      if (qp->offered != 0 && qp->shared->offer.withdraw(qp->offered) == Withdrawn::yes)
        qp->offered = 0;
    }
    auto& rx = qp->shared->rx;
    if (rx.lock_in_time(context.claimant))
      rx.unlock();
    else if (may_name(*qp, key) || names_in_receives(*qp, key))
      return &rx;
    { std::lock_guard const polled{qp->receives().lock}; }
  }
  return nullptr;
}

/// The same of the key of bytes that were shown: only peers of its domain's queue pairs use these,
/// by a request that names it. No other queue pair, and nothing that this process sends or
/// receives, is touched.
RobustLock const* readers_of_memory(Context& context, ibv_mr const& shown) noexcept {
  for (auto& entry : std::span{context.queue_pairs}.first(context.queue_pairs_end)) {
    auto* const qp = entry.load(std::memory_order_relaxed);
    if (qp == nullptr || qp->pd != shown.pd) continue;
    // Who takes it from now on finds the key invalid.
    if (auto& rx = qp->shared->rx; rx.lock_in_time(context.claimant))
      rx.unlock();
    else if (may_name(*qp, shown.rkey))
      return &rx;
  }
  return nullptr;
}

/// How long the end of a region waits for a peer: not a second time for one that kept it.
std::uint64_t patience_of(Region const& region) noexcept {
  return region.was_kept ? 0 : holder_patience;
}

/// Makes the key invalid and waits for those who use its memory. 0, EBUSY with reason, or EINVAL
/// while a window is bound to it. Source: ibv_alloc_mw(3); kernel drivers/infiniband/sw/rxe/
/// rxe_verbs.c, rxe_dereg_mr().
int end_use(Context& context, Region const& region) noexcept {
  auto const key = region.lkey;
  if (!context.regions.invalidate_unless_bound(key))
    return fail(EINVAL, "a memory window is bound to the region: invalidate it first");
  return wait_for_holders(
      context,
      [&] {
        std::lock_guard const guard{context.control};
        return users_of_memory(context, key);
      },
      patience_of(region));
}

/// Brings the pages of `element` into memory. 0; or EFAULT, where some are not mapped for that.
int fetch_pages(ibv_sge const& element, bool writes) noexcept {
  if (element.length == 0) return 0;
  auto const begin = element.addr / page * page;
  auto const length = element.addr + element.length - begin;
  auto const done = ::madvise(reinterpret_cast<void*>(begin), length,
                              writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  if (done == 0) return 0;
  // A kernel before 5.14 does not know the advice: pages come when they are touched. Others say
  // EINVAL of memory without the rights. Source: madvise(2).
  static bool const is_known = [] {
    alignas(page) static std::byte own[page];
    return ::madvise(own, page, MADV_POPULATE_READ) == 0;
  }();
  return is_known ? EFAULT : 0;
}

}  // namespace

ibv_pd* alloc_pd(ibv_context* opened) noexcept {
  auto& context = Context::of(opened);
  if (context.check_ours() != 0) return nullptr;
  auto* const domain = new (std::nothrow) Domain{};
  if (domain == nullptr) {
    fail(ENOMEM);
    return nullptr;
  }
  std::lock_guard const guard{context.control};
  domain->context = opened;
  domain->handle = ++context.domains_made;
  ++context.domains;
  return domain;
}

int dealloc_pd(ibv_pd* pd) noexcept {
  auto* const domain = static_cast<Domain*>(pd);
  auto& context = Context::of(pd->context);
  if (!context.is_ours()) return 0;
  std::lock_guard const guard{context.control};
  if (domain->users.load() != 0)
    return fail(EBUSY,
                "the protection domain still has %u regions, windows, queue pairs, address handles "
                "or shared receive queues",
                domain->users.load());
  --context.domains;
  delete domain;
  return 0;
}

namespace {

/// `add(key)` gives the key: 0, or errno with reason.
template <class Add>
ibv_mr* make_region(ibv_pd* pd, void* address, std::size_t length, Add const& add) noexcept try {
  if (Context::of(pd->context).check_ours() != 0) return nullptr;
  auto region = std::make_unique<Region>();
  std::uint32_t key = 0;
  if (add(key) != 0) return nullptr;
  region->context = pd->context;
  region->pd = pd;
  region->addr = address;
  region->length = length;
  region->handle = index_of_key(key);
  region->lkey = key;
  region->rkey = key;
  static_cast<Domain*>(pd)->users.fetch_add(1);
  return region.release();
} catch (std::bad_alloc const&) {
  fail(ENOMEM);
  return nullptr;
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) noexcept {
  return make_region(pd, address, length, [&](std::uint32_t& key) {
    return Context::of(pd->context)
        .regions.add(pd->handle, reinterpret_cast<std::uint64_t>(address), length, access, key);
  });
}

ibv_mr* reg_shown(ibv_pd* pd) noexcept {
  // Or a peer that is stopped at any queue pair of the domain would seem to read them, and a group
  // that copies its parts does not wait for that one.
  if (auto const can = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
      can < 0 || (can & MEMBARRIER_CMD_GLOBAL) == 0) {
    fail(EOPNOTSUPP, "the kernel refuses membarrier(2), which tells who reads the bytes");
    return nullptr;
  }
  return make_region(pd, nullptr, 0, [&](std::uint32_t& key) {
    return Context::of(pd->context).regions.reserve(key);
  });
}

int show(ibv_mr* mr, std::byte const* address, std::size_t length) noexcept {
  auto& context = Context::of(mr->context);
  auto const start = reinterpret_cast<std::uint64_t>(address);
  if (!context.arenas.find(start, length))
    return fail(EOPNOTSUPP, "peers cannot map these bytes: they are not from allocate()");
  mr->lkey = mr->rkey = context.regions.key_after(mr->rkey);
  context.regions.renew(mr->rkey, mr->pd->handle, start, length, IBV_ACCESS_REMOTE_READ);
  return 0;
}

int hide(ibv_mr* mr) noexcept {
  auto& context = Context::of(mr->context);
  auto& region = *static_cast<Region*>(mr);
  context.regions.invalidate(mr->rkey);
  auto const error = wait_for_holders(
      context,
      [&] {
        std::lock_guard const guard{context.control};
        return readers_of_memory(context, region);
      },
      patience_of(region));
  region.was_kept = error != 0;
  return error;
}

int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length,
             int access) noexcept {
  auto& context = Context::of(mr->context);
  bool const moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  bool const changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if (planned_failure(mr->context) != 0 || context.check_ours() != 0) return IBV_REREG_MR_ERR_INPUT;
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) {
    fail(EINVAL, "the soft device supports none of the requested changes");
    return IBV_REREG_MR_ERR_INPUT;
  }
  // Source: rdma-core libibverbs/verbs.c, ibv_rereg_mr().
  if ((moves && address == nullptr) || (!changes_access && access != 0)) {
    fail(EINVAL, "a change is asked for without its value, or a value is given without its flag");
    return IBV_REREG_MR_ERR_INPUT;
  }
  auto* const owner = (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? pd : mr->pd;
  if (owner == nullptr || owner->context != mr->context) {
    fail(EINVAL, "a region can move only to a protection domain of its own device");
    return IBV_REREG_MR_ERR_INPUT;
  }
  auto* const start = moves ? address : mr->addr;
  auto const size = moves ? length : mr->length;
  auto const rights = changes_access ? access : context.regions.access_of(mr->lkey);
  if (context.regions.check(reinterpret_cast<std::uint64_t>(start), size, rights) != 0)
    return IBV_REREG_MR_ERR_INPUT;  // and the region is what it was
  auto const before = context.regions.access_of(mr->lkey);
  if (auto const error = end_use(context, *static_cast<Region*>(mr)); error == EINVAL) {
    return IBV_REREG_MR_ERR_INPUT;  // and the region is what it was
  } else if (error != 0) {
    auto* const domain = static_cast<Domain*>(mr->pd);
    context.regions.renew(mr->lkey, domain->handle, reinterpret_cast<std::uint64_t>(mr->addr),
                          mr->length, before);
    return IBV_REREG_MR_ERR_CMD;
  }
  context.regions.renew(mr->lkey, owner->handle, reinterpret_cast<std::uint64_t>(start), size,
                        rights);
  static_cast<Domain*>(owner)->users.fetch_add(1);
  static_cast<Domain*>(mr->pd)->users.fetch_sub(1);
  mr->pd = owner;
  mr->addr = start;
  mr->length = size;
  return 0;
}

ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) noexcept {
  fail(EOPNOTSUPP, "the soft device copies by the CPU, and registers no dmabuf");
  return nullptr;
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* elements,
              std::uint32_t count) noexcept {
  auto& context = Context::of(pd->context);
  if (auto const error = context.check_ours(); error != 0) return error;
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT ||
      (flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0)
    return fail(EOPNOTSUPP, "the soft device knows no such advice");
  bool const writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  unsigned const needed = IBV_ACCESS_ON_DEMAND | (writes ? unsigned{IBV_ACCESS_LOCAL_WRITE} : 0u);
  auto const all = std::span{elements, count};
  for (auto const& element : all)
    if (!context.regions.permits(element.lkey, pd->handle, element.addr, element.length, needed))
      return fail(EINVAL, "advice is on bytes of a region that was registered on demand%s",
                  writes ? ", and for local writes" : "");
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (auto const& element : all) {
    auto const error = fetch_pages(element, writes);
    if (error != 0 && (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0)
      return fail(error, "some of the bytes are not mapped, or not for this access");
  }
  return 0;
}

int dereg_mr(ibv_mr* mr) noexcept {
  auto* const region = static_cast<Region*>(mr);
  auto& context = Context::of(mr->context);
  if (!context.is_ours()) return 0;
  if (auto const error = end_use(context, *region); error != 0) return error;
  context.regions.recycle(mr->lkey);
  static_cast<Domain*>(mr->pd)->users.fetch_sub(1);
  delete region;
  return 0;
}

void* allocate(ibv_context* opened, std::size_t length, AllocationOptions const& options) noexcept {
  auto& context = Context::of(opened);
  return context.check_ours() == 0 ? context.arenas.allocate(length, options) : nullptr;
}

void* allocate_apart(ibv_context* opened, std::size_t length) noexcept {
  auto& context = Context::of(opened);
  return context.check_ours() == 0 ? context.arenas.allocate_apart(length) : nullptr;
}

void release(ibv_context* opened, void* address, std::size_t length) noexcept {
  auto& context = Context::of(opened);
  if (context.is_ours()) context.arenas.release(address, length);
}

}  // namespace lend::soft
