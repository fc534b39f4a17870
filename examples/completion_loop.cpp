// SPDX-License-Identifier: MIT OR Apache-2.0
// An event loop over queue pairs of the program's own: each has its completion queue, and one
// descriptor says which queue has news. A WaitSet does the same for channels. One thread.
#include <lend/lend.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr std::size_t links = 4;
constexpr std::size_t messages = 3;  // of each
constexpr std::size_t message_bytes = 64;

/// A queue pair that is connected to itself, as if the peer were elsewhere.
struct Link {
  lend::CompletionQueue queue;
  lend::QueuePair queue_pair;
  std::size_t received = 0;
};

lend::Result<Link> make_link(lend::ProtectionDomain const& domain,
                             lend::CompletionChannel const& channel, std::uint64_t tag) {
  LEND_TRY(queue, lend::CompletionQueue::create(domain.context(),
                                                {.depth = 32, .channel = &channel, .tag = tag}));
  LEND_TRY(prepared,
           lend::PreparedQueuePair::create(domain, queue, {.send_depth = 8, .receive_depth = 8}));
  auto const self = prepared.endpoint();
  LEND_TRY(queue_pair, std::move(prepared).connect(self));
  return Link{queue, std::move(queue_pair)};
}

/// Posts receives, and sends as many messages with one doorbell.
lend::Result<void> start(Link& link, lend::MemoryRegion& memory) {
  auto batch = link.queue_pair.unsafe_batch();
  for (std::size_t i = 0; i < messages; ++i) {
    // SAFETY: `memory` exists until the program ends, and no thread accesses it meanwhile.
    LEND_TRYV(batch.add_receive(i, memory.scatter(0, message_bytes)));
    LEND_TRYV(
        batch.add_send(messages + i, memory.gather(message_bytes, message_bytes),
                       i + 1 == messages ? lend::Completes::aloud : lend::Completes::silently));
  }
  return batch.post();
}

lend::Result<void> arm(Link& link) {
  if (link.queue.arm()) return lend::success();
  return lend::Error{lend::Errc::system_failed, "the device raises no events"};
}

/// Takes what has completed.
lend::Result<void> serve(Link& link) {
  std::array<lend::Completion, 16> room;
  for (;;) {
    LEND_TRY(completions, link.queue.poll(room));
    if (completions.empty()) return lend::success();
    for (auto const& completion : completions) {
      if (completion.failure() != nullptr)
        return lend::Error{lend::Errc::work_failed, "a request of the loop failed"};
      if (completion.id < messages) ++link.received;
    }
  }
}

lend::Result<void> run() {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(2 * message_bytes));
  LEND_TRY(channel, lend::CompletionChannel::create(device));
  std::vector<Link> all;
  for (std::size_t i = 0; i < links; ++i) {
    LEND_TRY(link, make_link(domain, channel, i));
    LEND_TRYV(arm(link));
    all.push_back(std::move(link));
  }
  for (auto& link : all) {
    LEND_TRYV(start(link, memory));
  }

  // The descriptor of `channel` is one of those of the program's own loop.
  for (std::size_t left = links * messages; left > 0;) {
    pollfd events{channel.descriptor(), POLLIN, 0};
    if (::poll(&events, 1, 10'000) == 0)
      return lend::Error{lend::Errc::timed_out, "no completion in 10 s"};
    LEND_TRY(tag, channel.next(lend::within(0s)));
    if (!tag) continue;
    Link& link = all[*tag];
    auto const before = link.received;
    LEND_TRYV(arm(link));  // first: what completes from here on is announced again
    LEND_TRYV(serve(link));
    left -= link.received - before;
  }
  for (std::size_t i = 0; i < links; ++i)
    std::cout << "queue " << i << ": " << all[i].received << " messages\n";
  return lend::success();
}

}  // namespace

int main() {
  auto const done = run();
  if (done) return 0;
  std::cerr << done.error().message() << '\n';
  return 1;
}
