// SPDX-License-Identifier: MIT OR Apache-2.0
// What allocated memory is made of, and where it lies. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lend {

/// The pages of allocated memory. With larger ones a CPU and a card look fewer addresses up, and
/// registering on a card pins fewer.
enum class Pages : std::uint8_t {
  normal,       ///< 4 KiB each on x86-64; they come when they are touched
  transparent,  ///< normal ones that the kernel joins to 2 MiB where it can; refused only where it
                ///< never does
  huge_2m,  ///< 2 MiB each, of those that vm.nr_hugepages reserves; refused where too few are free
  huge_1g,  ///< 1 GiB each, likewise
  prefer_huge,  ///< the first of huge_2m, transparent, normal that is to be had; below 2 MiB normal
};

/// How ProtectionDomain::allocate() takes memory.
///
/// The trap: normal pages come as they are touched, others all at once. With a node and normal
/// pages a lack shows only at a touch, and the kernel then ends the program; with other pages
/// allocate() answers `exhausted`.
///
///     domain.allocate(1 << 30, {.pages = Pages::huge_2m, .node = 0})
struct AllocationOptions {
  Pages pages = Pages::normal;
  std::optional<std::uint32_t> node{};  ///< the NUMA node to lie on; nothing: where it is touched
};

[[nodiscard]] std::string_view name_of(Pages) noexcept;
/// How large one is; 4096 of transparent ones, since that is what is sure. Of prefer_huge: 0.
[[nodiscard]] std::size_t bytes_of(Pages) noexcept;

}  // namespace lend
