// SPDX-License-Identifier: MIT OR Apache-2.0
// Probes that bpftrace, perf and SystemTap attach to (the build option `usdt`): a nop each, and a
// note in the ELF file that says where it is and where its arguments are. Any thread.
//
// Arguments are references, because what is in memory or in a register is named where it is, and
// takes no instruction. Source: systemtap-sdt-dev 4.8, sys/sdt.h, STAP_SDT_ARG_CONSTRAINT.
#pragma once

#include <lend/base/work_failure.hpp>

#include <cstdint>

#ifdef LEND_WITH_USDT
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define LEND_PROBE(...) STAP_PROBEV(lend, __VA_ARGS__)
#else
#define LEND_PROBE(...) static_cast<void>(0)
#endif

namespace lend::observe {

/// A device took a request of a channel.
[[gnu::always_inline]] inline void probe_post(
    [[maybe_unused]] std::uint32_t const& queue_pair, [[maybe_unused]] std::uint32_t const& slot,
    [[maybe_unused]] Operation operation, [[maybe_unused]] std::uint64_t const& bytes) noexcept {
  LEND_PROBE(post, queue_pair, slot, static_cast<std::uint8_t>(operation), bytes);
}
/// Its completion was seen, with a status that is not `flushed`.
[[gnu::always_inline]] inline void probe_complete(
    [[maybe_unused]] std::uint32_t const& queue_pair, [[maybe_unused]] std::uint32_t const& slot,
    [[maybe_unused]] Operation const& operation,
    [[maybe_unused]] WorkStatus status = WorkStatus::success) noexcept {
  LEND_PROBE(complete, queue_pair, slot, static_cast<std::uint8_t>(operation),
             static_cast<std::uint8_t>(status));
}
/// It was flushed, given up or taken back.
[[gnu::always_inline]] inline void probe_flush([[maybe_unused]] std::uint32_t const& queue_pair,
                                               [[maybe_unused]] std::uint32_t const& slot,
                                               [[maybe_unused]] Operation operation) noexcept {
  LEND_PROBE(flush, queue_pair, slot, static_cast<std::uint8_t>(operation));
}
/// A channel broke.
[[gnu::always_inline]] inline void probe_break(
    [[maybe_unused]] std::uint32_t const& queue_pair) noexcept {
  LEND_PROBE(break, queue_pair);
}
/// A wait goes to sleep.
[[gnu::always_inline]] inline void probe_sleep() noexcept {
  LEND_PROBE(sleep);
}

}  // namespace lend::observe
