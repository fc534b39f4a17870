// SPDX-License-Identifier: MIT OR Apache-2.0
// Stopping a child in the middle of a request that it executes at a queue pair of this process. The
// thread that forked it.
#pragma once

#include <soft/objects/context.hpp>
#include <soft/objects/queue_pair.hpp>

#include <cstddef>
#include <span>

#include "support/peer_process.hpp"
#include "tracing.hpp"

namespace lend::test {

/// Where in its request the child stops.
enum class At {
  queue_pair,  // it has just taken the lock of the queue pair
  key,         // it has named the key that it uses, of a request from afar
  copy,        // some of the bytes are there, and some are not
  completion   // it holds the lock of the completion queue
};

/// A byte that may be on loan, which AddressSanitizer would report.
[[gnu::no_sanitize_address, gnu::noinline]] inline std::byte peek(std::byte const& byte) {
  return *const_cast<std::byte const volatile*>(&byte);
}

inline soft::QueuePair& first_queue_pair_of(soft::Context& context) {
  for (auto& entry : context.queue_pairs)
    if (auto* const qp = entry.load()) return *qp;
  FAIL("there is no queue pair");
  throw 0;
}

/// Walks the child on from its breakpoint(), instruction by instruction, and leaves it stopped as
/// by SIGSTOP. `bytes` are those that it copies to: zeros, which it overwrites by something else.
inline void stop_in_request(PeerProcess const& peer, soft::QueuePair& target, At at,
                            std::span<std::byte const> bytes) {
  auto const pid = peer.pid();
  auto const is_there = [&] {
    switch (at) {
      case At::queue_pair: return target.shared->rx.holder() != 0;
      case At::key: return target.shared->remote_key.load() != 0;
      case At::copy: return peek(bytes.front()) != std::byte{} && peek(bytes.back()) == std::byte{};
      default: return target.receives().shared->lock.holder() != 0;
    }
  };
  REQUIRE(stops(pid));
  while (!is_there()) REQUIRE(step(pid, PTRACE_SINGLESTEP));
  REQUIRE(target.shared->rx.holder() != 0);
  REQUIRE(::ptrace(PTRACE_DETACH, pid, nullptr, SIGSTOP) == 0);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, WUNTRACED) == pid);
  REQUIRE(WIFSTOPPED(status));
}

}  // namespace lend::test
