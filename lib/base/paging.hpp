// SPDX-License-Identifier: MIT OR Apache-2.0
// Mapping whole pages as AllocationOptions say, of a memory file or of none. Any thread.
#pragma once

#include <lend/base/allocation.hpp>

#include <cstddef>
#include <string>

namespace lend {

[[nodiscard]] constexpr bool is_reserved(Pages pages) noexcept {
  return pages == Pages::huge_2m || pages == Pages::huge_1g;
}
/// `length` rounded up to whole `pages`, or 0 where that is too much.
[[nodiscard]] std::size_t whole_pages(std::size_t length, Pages pages) noexcept;

/// The size of reserved `pages` as memfd_create(2) and mmap(2) take it among their flags; else 0.
[[nodiscard]] unsigned size_flag(Pages pages) noexcept;

/// Maps whole pages of `file`, shared, or where that is -1 private ones. At a multiple of 2 MiB
/// where that helps. Null with errno: EOPNOTSUPP where the machine has no such pages.
[[nodiscard]] void* map_pages(int file, std::size_t length, Pages pages) noexcept;

/// Brings them to their node, and but for normal ones here, so that a lack is an error and not a
/// signal later. Before they are touched; `is_file` as map_pages() was given one.
///
/// 0, or errno: EINVAL      there is no such node, or it is not for this process.
///              ENOSYS      the kernel knows no nodes. EPERM: a sandbox forbids choosing one.
///              ENOMEM      the node, or the machine, has no more such pages.
///              EOPNOTSUPP  transparent pages are switched off.
[[nodiscard]] int settle_pages(void* address, std::size_t length, AllocationOptions const& options,
                               bool is_file) noexcept;

/// Why settle_pages() or map_pages() refused, and what to do; empty where errno says it all.
[[nodiscard]] std::string paging_remedy(std::size_t length, AllocationOptions const& options,
                                        bool is_file, int errno_value);

}  // namespace lend
