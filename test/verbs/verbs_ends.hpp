// SPDX-License-Identifier: MIT OR Apache-2.0
// Pairs of queue pairs on the test's device, which complete in one queue. One thread.
#pragma once

#include "support/two_ends.hpp"

#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <span>

namespace lend::test {

/// Whether the device cannot connect by endpoints; then the test is skipped.
inline bool cannot_connect() {
  return lacks(open_test_device(), &DeviceCapabilities::endpoints);
}

/// What the queue pairs of a test have in common.
struct VerbsPlace {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  CompletionQueue queue = must(CompletionQueue::create(context, 1024));
  MemoryRegion memory = must(domain.unsafe_allocate_exposed(65536, RemoteAccess::read_write));

  /// The slice of this memory, as a peer has it.
  RemoteSlice remote(std::size_t offset, std::size_t length) const {
    return must(memory.remote()).slice(offset, length);
  }
};

/// Polls until it has taken `count` completions, by id; fails if they do not come.
inline std::map<std::uint64_t, Completion> take(CompletionQueue& queue, std::size_t count) {
  std::map<std::uint64_t, Completion> taken;
  std::array<Completion, 16> room;
  for (Deadline const deadline = within(std::chrono::seconds{10});
       taken.size() < count && !deadline.has_passed();)
    for (auto const& completion :
         must(queue.poll(std::span{room}.first(std::min(room.size(), count - taken.size())))))
      taken[completion.id] = completion;
  REQUIRE(taken.size() == count);
  return taken;
}
/// Whether nothing comes for a while.
inline bool is_quiet(CompletionQueue& queue) {
  std::array<Completion, 1> room;
  for (int i = 0; i < 1000; ++i)
    if (!must(queue.poll(room)).empty()) return false;
  return true;
}

/// Two queue pairs of service S, connected to each other.
template <IsConnected S>
struct VerbsPair {
  QueuePairOf<S> a;
  QueuePairOf<S> b;

  static VerbsPair of(ProtectionDomain const& domain, CompletionQueues at_a, CompletionQueues at_b,
                      OptionsOf<S> const& options = {}) {
    auto a = must(PreparedQueuePairOf<S>::create(domain, at_a, options));
    auto b = must(PreparedQueuePairOf<S>::create(domain, at_b, options));
    Endpoint const of_a = a.endpoint();
    auto connected = must(std::move(a).connect(b.endpoint()));
    return {std::move(connected), must(std::move(b).connect(of_a))};
  }
};

/// On one completion queue.
template <IsConnected S = Rc>
struct VerbsEnds : VerbsPlace {
  VerbsPair<S> pair = VerbsPair<S>::of(domain, queue, queue);
  QueuePairOf<S>& a = pair.a;
  QueuePairOf<S>& b = pair.b;
};

}  // namespace lend::test
