// SPDX-License-Identifier: MIT OR Apache-2.0
// Both sides of connections on the fake librdmacm and the fake device, by one event loop. One
// thread.
#pragma once

#include <lend/lend.hpp>

#include <poll.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cm/event_loop.hpp"
#include "cm/fake_cm.hpp"
#include "verbs/fake_provider.hpp"

namespace lend::test {

using namespace std::chrono_literals;

inline FakeCm& cm_calls() {
  return FakeCm::get();
}

inline FakeDevice roomy(ibv_transport_type transport) {
  FakeDevice device;
  device.transport = transport;
  device.queue_pairs_max = 1024;
  device.completions_max = 1 << 20;
  device.queue_pair_step = 1;
  return device;
}

/// A device with queue pairs to connect; at its end nothing of rdma_cm's is left.
class Host {
 public:
  explicit Host(ibv_transport_type transport = IBV_TRANSPORT_IB) : Host{roomy(transport)} {}
  explicit Host(FakeDevice device) {
    auto const transport = device.transport;
    Fake::get().reset(std::move(device));
    context_.emplace(must(open_fake()));
    domain_.emplace(must(context_->allocate_protection_domain()));
    queue_.emplace(must(CompletionQueue::create(*context_, 1u << 20)));
    cm_calls().reset(context_->native());
    cm_calls().is_iwarp = transport == IBV_TRANSPORT_IWARP;
  }
  Host(Host const&) = delete;
  Host& operator=(Host const&) = delete;
  ~Host() {
    cm_calls().let_destroy();
    queue_.reset();
    domain_.reset();
    context_.reset();
    // On iWARP threads may be at it.
    for (auto const limit = within(5s); Fake::get().live() != 0 && !limit.has_passed();)
      std::this_thread::yield();
    CHECK(Fake::get().live() == 0);
    CHECK(Fake::get().violations == std::vector<std::string>{});
    CHECK(cm_calls().violations == std::vector<std::string>{});
    CHECK(cm_calls().ids() == 0);
    CHECK(cm_calls().channels() == 0);
    CHECK(cm_calls().unacknowledged() == 0);
  }

  [[nodiscard]] PreparedQueuePair prepare(ConnectionOptions const& options = {}) const {
    return must(PreparedQueuePair::create(*domain_, *queue_, {.connection = options}));
  }

 private:
  std::optional<Context> context_{};
  std::optional<ProtectionDomain> domain_{};
  std::optional<CompletionQueue> queue_{};
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  auto const bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

/// Whether the descriptor is readable, or becomes so.
inline bool is_readable(int descriptor, std::chrono::milliseconds within_time = 0ms) {
  pollfd wait{descriptor, POLLIN, 0};
  return ::poll(&wait, 1, int(within_time.count())) == 1;
}

inline CmListener listener_here() {
  return must(CmListener::open("10.0.0.1:0"));
}

/// A listener and its connectors, by one thread.
struct Stage {
  explicit Stage(Host const& on, Deadline limit = within(20s)) : host{on}, deadline{limit} {
    loop.serve(listener, [this](CmRequest request) {
      auto const said = request.peer().private_data;
      return std::move(request).begin_accept(host.prepare(), deadline, said);
    });
  }
  Making& connect(CmOptions const& options = {}) {
    return loop.add(CmConnecting::begin(listener.address(), host.prepare(), deadline, options));
  }
  /// Until nothing happens any more.
  void run() {
    while (loop.turn(0)) continue;
  }

  Host const& host;
  Deadline deadline;
  CmListener listener = listener_here();
  EventLoop loop{};
};

}  // namespace lend::test
