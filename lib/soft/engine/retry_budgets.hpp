// SPDX-License-Identifier: MIT OR Apache-2.0
// The retry budgets of a reliable connection, in nanoseconds. Pure.
#pragma once

#include <cstdint>

namespace lend::soft {

inline constexpr std::uint64_t for_ever = UINT64_MAX;

/// Local ACK timeout: 4.096 us * 2^timeout, 0 = for ever; the first try and `retries` more.
/// Source: ibv_modify_qp(3); InfiniBand Architecture Specification vol. 1, 9.7.6.1.3.
[[nodiscard]] constexpr std::uint64_t silence_budget(std::uint32_t timeout,
                                                     std::uint32_t retries) noexcept {
  return timeout == 0 ? for_ever : (std::uint64_t{4096} << (timeout & 31)) * (retries + 1);
}

/// For a lock of the target's to come free, whose holder may only not have run for some scheduler's
/// slices, which no retry timeout was made for. Those of unreliable connections have none.
inline constexpr std::uint64_t lock_budget_min = 1'000'000'000;

/// The delay a receiver asks for when it is not ready.
/// Source: InfiniBand Architecture Specification vol. 1, table 45.
[[nodiscard]] constexpr std::uint64_t receiver_delay(std::uint32_t timer) noexcept {
  constexpr std::uint32_t hundredths_of_ms[32] = {
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::uint64_t{hundredths_of_ms[timer & 31]} * 10'000;
}

/// `retries` such delays; 7 = for ever.
[[nodiscard]] constexpr std::uint64_t receiver_budget(std::uint32_t retries,
                                                      std::uint32_t timer) noexcept {
  return retries == 7 ? for_ever : receiver_delay(timer) * retries;
}

}  // namespace lend::soft
