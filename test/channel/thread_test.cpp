// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a channel belongs to one thread at a time, not to the one that made it; domains and regions
// belong to all of them. Method: threads one after another, and threads that race.
#include "support/two_ends.hpp"

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Has `work(index)` done by `count` threads at once; what went wrong first, or nothing.
template <class Work>
std::string on_threads(std::size_t count, Work const& work) {
  std::vector<std::string> complaints(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t index = 0; index < count; ++index)
      threads.emplace_back([&work, &complaint = complaints[index], index] {
        Result<void> const done = work(index);
        if (!done.has_value()) complaint = done.error().message();
      });
  }
  for (auto const& complaint : complaints)
    if (!complaint.empty()) return complaint;
  return {};
}

}  // namespace

TEST_CASE("a channel goes from thread to thread", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(4096));
  put(memory, 0, "handed on");
  PollingScope scope{ends.b};
  auto arrival = must(scope.post_receive(memory.scatter(64, 64)));

  std::thread{[channel = std::move(ends.a), &memory]() mutable {
    auto const sent = channel.send(memory.gather(0, 9), within(5s));
    if (!sent.has_value()) stop("the channel does not work on another thread");
  }}.join();

  std::thread{[&arrival] {
    if (!arrival.wait(within(5s)).has_value()) stop("the handle does not");
  }}.join();
  must(scope.finish());
  CHECK(text_at(memory, 64, 9) == "handed on");
}

TEST_CASE("threads make what they need from one protection domain", "[channel]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  bool const connects = context.capabilities().endpoints;

  auto const complaint = on_threads(4, [&](std::size_t) -> Result<void> {
    for (int round = 0; round < 5; ++round) {
      std::array<std::byte, 64> bytes{};
      LEND_TRY(view, domain.register_memory(bytes));
      LEND_TRY(owned, domain.allocate(64));
      LEND_TRY(prepared, prepare_channel(domain, options_with_depth(4)));
      if (!connects) continue;
      auto const itself = prepared.endpoint();
      LEND_TRY(channel, std::move(prepared).handshake(itself));
      PollingScope scope{channel};
      LEND_TRYV(scope.post_receive(view.scatter()));
      LEND_TRYV(scope.post_send(owned.gather()));
      LEND_TRYV(scope.finish());
    }
    return success();
  });

  CHECK(complaint.empty());
}

TEST_CASE("threads expose bytes of one region, and end that, at once", "[channel]") {
  auto const context = open_test_device();
  auto const domain = must(context.allocate_protection_domain());
  auto memory = must(domain.allocate(4096));

  auto const complaint = on_threads(4, [&](std::size_t index) -> Result<void> {
    for (int round = 0; round < 10; ++round) {
      // SAFETY: no peer is told.
      LEND_TRY(exposure, memory.unsafe_expose(512 * index, 1024, RemoteAccess::write));
      LEND_TRYV(exposure.finish());
    }
    return success();
  });

  CHECK(complaint.empty());
  CHECK(memory.loans() == 0);
  CHECK(memory.mutable_bytes().has_value());
}

TEST_CASE("a region is destroyed while another thread's channel returns its last loan",
          "[channel]") {
  auto ends = two_ends();
  auto words = must(ends.domain.allocate(8));
  for (int round = 0; round < 30; ++round) {
    std::optional<MemoryRegion> region{must(ends.domain.allocate(64))};
    auto const target = region->scatter();
    std::atomic<bool> has_failed{false};
    std::atomic<bool> is_posted{false};  // not all devices let a message wait for its receive
    std::jthread receiver{[&] {
      PollingScope scope{ends.b};
      auto work = scope.post_receive(target);
      is_posted = true;
      if (!work.has_value() || !work.value().wait(within(20s)).has_value()) has_failed = true;
    }};
    while (!is_posted) std::this_thread::yield();

    auto const sent = ends.a.send(words.gather(), within(20s));
    region.reset();
    receiver.join();

    CHECK(!has_failed);
    must(sent);
  }
}
