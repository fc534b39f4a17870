// SPDX-License-Identifier: MIT OR Apache-2.0
// Protection domains, registrations and allocated memory, as verbs asks for them. Any thread.
#pragma once

#include <lend/base/allocation.hpp>

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lend::soft {

struct Domain : ibv_pd {
  std::atomic<std::uint32_t> users{0};  // regions, windows and queue pairs
};

struct Region : ibv_mr {
  // What ibv_dereg_mr() reads behind it. Source: rdma-core libibverbs/driver.h, verbs_mr.
  std::byte behind[16] = {};
  bool was_kept = false;  // by a peer, at the last hide()
};

[[nodiscard]] ibv_pd* alloc_pd(ibv_context*) noexcept;
int dealloc_pd(ibv_pd*) noexcept;
[[nodiscard]] ibv_mr* reg_mr(ibv_pd*, void* address, std::size_t length, int access) noexcept;
/// As the man page; the keys stay. 0 or ibv_rereg_mr_err_code.
int rereg_mr(ibv_mr*, int flags, ibv_pd*, void* address, std::size_t length, int access) noexcept;
/// EBUSY where a stopped peer may be at the memory: the key is invalid, a later call can succeed.
/// EINVAL while a memory window is bound to it.
int dereg_mr(ibv_mr*) noexcept;
/// Provider::reg_shown, show and hide. EBUSY as of dereg_mr(); then neither waits again.
[[nodiscard]] ibv_mr* reg_shown(ibv_pd*) noexcept;
[[nodiscard]] int show(ibv_mr*, std::byte const* address, std::size_t length) noexcept;
[[nodiscard]] int hide(ibv_mr*) noexcept;
/// Refused, as it is by devices of the kernel without their own memory access.
[[nodiscard]] ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t offset, std::size_t length,
                                    std::uint64_t address, int descriptor, int access) noexcept;
/// Of regions on demand only. A flush reports pages that are not there, with EFAULT.
int advise_mr(ibv_pd*, ibv_advise_mr_advice, std::uint32_t flags, ibv_sge*,
              std::uint32_t count) noexcept;
[[nodiscard]] void* allocate(ibv_context*, std::size_t length, AllocationOptions const&) noexcept;
[[nodiscard]] void* allocate_apart(ibv_context*, std::size_t length) noexcept;
void release(ibv_context*, void* address, std::size_t length) noexcept;

}  // namespace lend::soft
