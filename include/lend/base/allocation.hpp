// SPDX-License-Identifier: MIT OR Apache-2.0
// Which pages memory is allocated with, and on which NUMA node. Values; any thread.
#pragma once

#include <lend/base/export.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lend {

/// The pages of allocated memory. Larger pages cost CPU and card fewer address translations, and
/// registering pins fewer of them.
enum class Pages : std::uint8_t {
  normal,       ///< 4 KiB on x86-64; the kernel supplies each at its first touch
  transparent,  ///< normal ones that the kernel joins to 2 MiB where it can; an error only where it
                ///< never does
  huge_2m,      ///< 2 MiB, reserved by vm.nr_hugepages; an error if too few are free
  huge_1g,      ///< 1 GiB, likewise
  prefer_huge,  ///< the first available of huge_2m, transparent, normal; below 2 MiB normal
};

/// Options of ProtectionDomain::allocate().
///
/// The trap: the kernel supplies normal pages when they are touched, others at once. With a node
/// and normal pages a shortage shows only at a touch, and the kernel then kills the program; with
/// other pages allocate() returns `exhausted`.
///
///     domain.allocate(1 << 30, {.pages = Pages::huge_2m, .node = 0})
struct AllocationOptions {
  Pages pages = Pages::normal;
  std::optional<std::uint32_t> node{};  ///< the NUMA node; nothing: that of the first touch
};

[[nodiscard]] LEND_EXPORT std::string_view name_of(Pages) noexcept;
/// Bytes of one page; 4096 for transparent, because more is not guaranteed; 0 for prefer_huge.
[[nodiscard]] LEND_EXPORT std::size_t bytes_of(Pages) noexcept;

}  // namespace lend
