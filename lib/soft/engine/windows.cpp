// SPDX-License-Identifier: MIT OR Apache-2.0
// A window opens and closes under rx of its queue pair, as its peer's accesses happen.
// Statuses: kernel drivers/infiniband/sw/rxe/rxe_req.c, rxe_do_local_ops().
#include <soft/engine/windows.hpp>

#include <soft/engine/responder.hpp>
#include <soft/objects/window.hpp>
#include <soft/peers/host.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/window_scope.hpp>

#include <cerrno>
#include <mutex>

namespace lend::soft {
namespace {

constexpr unsigned window_rights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

int check_binding(QueuePair const& qp, ibv_mw const* mw, ibv_mw_bind_info const& info) noexcept {
  if (mw == nullptr || info.mr == nullptr || mw->context != qp.context)
    return fail(EINVAL, "a bind needs a memory window and a region of its own device");
  if (mw->pd != qp.pd || info.mr->pd != qp.pd)
    return fail(EINVAL, "window, region and queue pair of a bind share one protection domain");
  // Local write is of no use to a window, and programs set it.
  auto const unknown = info.mw_access_flags & ~(window_rights | IBV_ACCESS_LOCAL_WRITE);
  if (unknown != 0)
    return fail(EOPNOTSUPP, "the soft device does not know access flags 0x%x of a window", unknown);
  if (!cross_memory().is_open && !qp.owner().regions.is_mappable(info.mr->lkey))
    return fail(EOPNOTSUPP,
                "peers cannot reach private memory here (%s): allocate it with the library's "
                "allocator",
                cross_memory().obstacle);
  return 0;
}

void describe_binding(Work& work, ibv_mw const& mw, std::uint32_t key,
                      ibv_mw_bind_info const& info) noexcept {
  auto const own = static_cast<Window const&>(mw).key;
  work.remote_address = info.addr;
  work.remote_key = (own & ~chosen_bits) | (key & chosen_bits);
  work.immediate = info.mw_access_flags & window_rights;
  work.binding = {info.mr->lkey, info.length};
}

Outcome execute_window_work(QueuePair& qp, Work const& work) noexcept {
  auto& context = qp.owner();
  auto& rx = qp.shared->rx;
  if (!rx.lock_in_time(context.claimant)) return held_back(qp, rx, 0);
  RobustGuard const guard{rx, std::adopt_lock};
  auto const scope = window_scope_of(*qp.shared, qp.index);
  if (work.opcode == IBV_WR_BIND_MW) {
    bool const is_bound = context.regions.bind(
        work.remote_key, {work.binding.region, qp.pd->handle, scope, work.immediate,
                          work.remote_address, work.binding.length});
    return is_bound ? ended(IBV_WC_SUCCESS, Fault::none) : ended(IBV_WC_MW_BIND_ERR, Fault::window);
  }
  return context.regions.unbind(work.immediate, scope) ? ended(IBV_WC_SUCCESS, Fault::none)
                                                       : ended(IBV_WC_LOC_QP_OP_ERR, Fault::window);
}

}  // namespace lend::soft
