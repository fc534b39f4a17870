// SPDX-License-Identifier: MIT OR Apache-2.0
// Maps whole pages with AllocationOptions, from a memory file or anonymous. Any thread.
#pragma once

#include <lend/base/allocation.hpp>

#include <cstddef>
#include <string>

namespace lend::base {

[[nodiscard]] constexpr bool is_reserved(Pages pages) noexcept {
  return pages == Pages::huge_2m || pages == Pages::huge_1g;
}
/// `length` rounded up to whole `pages`, or 0 on overflow.
[[nodiscard]] std::size_t whole_pages(std::size_t length, Pages pages) noexcept;

/// The size of reserved `pages` as a flag of memfd_create(2) and mmap(2); otherwise 0.
[[nodiscard]] unsigned size_flag(Pages pages) noexcept;

/// Maps whole pages of `file`, shared, or private ones if that is -1; at a multiple of 2 MiB if
/// that helps. Null with errno: EOPNOTSUPP if the machine has no such pages.
[[nodiscard]] void* map_pages(int file, std::size_t length, Pages pages) noexcept;

/// Binds the pages to their node and populates them, except normal ones, so that a shortage is an
/// error now and not a signal later. Call it before any touch; `is_file` as for map_pages().
///
/// 0, or errno: EINVAL      there is no such node, or it is not for this process.
///              ENOSYS      the kernel has no NUMA support. EPERM: a sandbox forbids the choice.
///              ENOMEM      the node, or the machine, has no more such pages.
///              EOPNOTSUPP  transparent pages are disabled.
[[nodiscard]] int settle_pages(void* address, std::size_t length, AllocationOptions const& options,
                               bool is_file) noexcept;

/// Why settle_pages() or map_pages() failed, and what to do; empty if errno is sufficient.
[[nodiscard]] std::string paging_remedy(std::size_t length, AllocationOptions const& options,
                                        bool is_file, int errno_value);

}  // namespace lend::base
