// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests that bind a memory window, or invalidate its key. One thread at a time per queue pair.
#pragma once

#include <verbs/device/handles.hpp>
#include <verbs/memory/region_state.hpp>
#include <verbs/post/post_refusal.hpp>
#include <verbs/post/request.hpp>

#include <infiniband/verbs.h>
#include <cstdint>

namespace lend::verbs {

struct WindowHandle {
  std::shared_ptr<DomainHandle> domain;
  RawHandle<ibv_mw, &Provider::dealloc_mw> raw;
};

/// A window of the domain that is not bound.
/// Errors:  as MemoryWindow::create().
[[nodiscard]] Result<WindowHandle> make_window(std::shared_ptr<DomainHandle> const& domain);
[[nodiscard]] Error no_windows(ContextHandle const& context) noexcept;

/// Checks the bytes that a window is to open.
/// Errors:  invalid_argument.
[[nodiscard]] Result<void> check_bound_bytes(QueuePairHandle const& queue_pair,
                                             RegionState const* region, ByteRange range) noexcept;

/// Posts a bind of good bytes. If it was posted, the window has a new key.
[[nodiscard]] inline PostAnswer post_bind(QueuePairHandle const& queue_pair, std::uint64_t id,
                                          ibv_mw& window, RegionState const& region,
                                          ByteRange range, RemoteAccess access) noexcept {
  // Drivers look at the immediate of a bind. Source: rdma-core providers/rxe/rxe.c,
  // validate_send_wr().
  ibv_send_wr request{};
  ibv_sge none;
  fill(queue_pair, request, id, &none, {}, IBV_WR_BIND_MW, false);
  auto const address = reinterpret_cast<std::uintptr_t>(region.address + range.offset);
  // Each bind has another key. Source: rdma-core libibverbs/verbs.h, ibv_inc_rkey().
  request.bind_mw = {&window,
                     ibv_inc_rkey(window.rkey),
                     {region.registration.get(), address, range.length, flags_of(access)}};
  ibv_send_wr* refused = nullptr;
  if (int const result = post_chain(queue_pair, request, refused); result != 0)
    return device_answer(range.length, result, refused);
  window.rkey = request.bind_mw.rkey;
  return {};
}
[[nodiscard]] inline PostAnswer post_invalidate(QueuePairHandle const& queue_pair, std::uint64_t id,
                                                std::uint32_t key) noexcept {
  ibv_send_wr request;
  ibv_sge none;
  fill(queue_pair, request, id, &none, {}, IBV_WR_LOCAL_INV, false);
  request.invalidate_rkey = key;
  ibv_send_wr* refused = nullptr;
  if (int const result = post_chain(queue_pair, request, refused); result != 0)
    return device_answer(0, result, refused);
  return {};
}
/// Why the device did not take one of these.
[[nodiscard]] Error window_refused(QueuePairHandle const& queue_pair, Operation operation,
                                   PostAnswer answer) noexcept;

[[nodiscard]] inline RemoteRegion remote_of(ibv_mw const& window, RegionState const& region,
                                            ByteRange range, RemoteAccess access) noexcept {
  return {reinterpret_cast<std::uintptr_t>(region.address + range.offset), range.length,
          window.rkey, access};
}

}  // namespace lend::verbs
