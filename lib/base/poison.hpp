// SPDX-License-Identifier: MIT OR Apache-2.0
// Poisons bytes that only the device may access for AddressSanitizer; in other builds nothing. Any
// thread: no two loans of one region poison the same bytes. If bytes are registered twice, the loan
// that ends first removes the other's poison, and a stray access is then not reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEND_HAS_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LEND_HAS_ADDRESS_SANITIZER 1
#endif

#ifdef LEND_HAS_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace lend::base {

#ifdef LEND_HAS_ADDRESS_SANITIZER
inline constexpr bool can_poison = true;
#else
inline constexpr bool can_poison = false;
#endif

/// Only whole granules are poisoned: one at an edge may partly belong to a neighbour.
/// Source: compiler-rt asan_mapping.h, ASAN_SHADOW_GRANULARITY.
inline constexpr std::size_t poison_granule = 8;

/// The whole granules of some bytes.
[[nodiscard]] inline std::span<std::byte const> granules_of(
    std::span<std::byte const> bytes) noexcept {
  auto const skipped = (0 - reinterpret_cast<std::uintptr_t>(bytes.data())) % poison_granule;
  if (bytes.size() <= skipped) return {};
  return bytes.subspan(skipped, (bytes.size() - skipped) / poison_granule * poison_granule);
}

/// Lets AddressSanitizer report every access of the program to the whole granules of these bytes.
inline void poison([[maybe_unused]] std::span<std::byte const> bytes) noexcept {
#ifdef LEND_HAS_ADDRESS_SANITIZER
  auto const whole = granules_of(bytes);
  __asan_poison_memory_region(whole.data(), whole.size());
#endif
}

/// Undoes poison() of the same bytes.
inline void unpoison([[maybe_unused]] std::span<std::byte const> bytes) noexcept {
#ifdef LEND_HAS_ADDRESS_SANITIZER
  auto const whole = granules_of(bytes);
  __asan_unpoison_memory_region(whole.data(), whole.size());
#endif
}

[[nodiscard]] inline bool is_poisoned([[maybe_unused]] std::byte const* byte) noexcept {
#ifdef LEND_HAS_ADDRESS_SANITIZER
  return __asan_address_is_poisoned(byte) != 0;
#else
  return false;
#endif
}
/// Whether AddressSanitizer reports the program's access to these bytes, for whatever reason.
[[nodiscard]] inline bool has_poison([[maybe_unused]] std::span<std::byte const> bytes) noexcept {
#ifdef LEND_HAS_ADDRESS_SANITIZER
  // The interface takes no const. Source: sanitizer/asan_interface.h.
  return __asan_region_is_poisoned(const_cast<std::byte*>(bytes.data()), bytes.size()) != nullptr;
#else
  return false;
#endif
}

}  // namespace lend::base
