// SPDX-License-Identifier: MIT OR Apache-2.0
// Transports of a set whose near ends share a MessagePool, and their far ends outside.
#pragma once

#include <lend/channel/wait_set.hpp>
#include <lend/transport/message_pool.hpp>
#include <lend/transport/waiting.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/channel_ends.hpp"
#include "transport/conformance.hpp"

namespace lend::test {

using PooledMade = Result<std::pair<AnyTransport, AnyTransport>>;

/// A set and a pool for one transport of these options.
struct PoolOfOne {
  PoolOfOne(ProtectionDomain const& domain, TransportOptions const& asked)
      : set{must(WaitSet::create(domain.context(), asked.wait))},
        pool{
            must(MessagePool::create(set, domain,
                                     {.message_bytes_max = std::max(asked.message_bytes_max, 4096u),
                                      .transports_max = 1,
                                      .shared = 64,
                                      .drafts = 64}))},
        options{asked} {
    options.wait_set = &set;
    options.pool = &pool;
  }
  PoolOfOne(PoolOfOne const&) = delete;
  PoolOfOne& operator=(PoolOfOne const&) = delete;

  WaitSet set;
  MessagePool pool;
  TransportOptions options;
};

/// How early a sender learns what was freed is the pool's decision.
inline bool is_for_pools(Scenario const& scenario) {
  return std::string_view{scenario.sentence}.find("window") == std::string_view::npos;
}

struct PooledServer {
  explicit PooledServer(std::size_t count, MessagePoolOptions const& options = {},
                        std::chrono::nanoseconds keep_alive = {})
      : pool{must(MessagePool::create(set, domain, options))} {
    for (std::size_t tag = 0; tag < count; ++tag) must(add(keep_alive));
  }
  Result<void> add(std::chrono::nanoseconds keep_alive = {}) {
    LEND_TRY(ends,
             try_unlike_ends<SendReceive>(
                 domain,
                 {.keep_alive = keep_alive, .wait_set = &set, .tag = near.size(), .pool = &*pool},
                 {.window = 16, .message_bytes_max = 4096}));
    near.push_back(std::move(ends.first));
    far.push_back(std::move(ends.second));
    return success();
  }
  /// The tags that the set lists.
  std::set<std::uint64_t> listed() {
    std::set<std::uint64_t> tags;
    std::array<Ready, 8> room;
    for (auto some = must(set.poll(room)); !some.empty(); some = must(set.poll(room)))
      for (auto const& ready : some) tags.insert(ready.tag);
    return tags;
  }

  /// Until `holds()`, for at most a minute: devices take their time.
  template <class Holds>
  [[nodiscard]] bool comes_to(Holds holds) {
    for (auto const limit = within(std::chrono::minutes{1}); !limit.has_passed();) {
      if (holds()) return true;
      static_cast<void>(listed());
      for (auto* const ends : {&near, &far})
        for (auto& one : *ends)
          if (one) static_cast<void>(one->poll());
    }
    return false;
  }
  /// The next message of that near end.
  [[nodiscard]] Received received(std::size_t which) {
    Received message;
    CHECK(comes_to([&] {
      message = must(near[which]->try_receive());
      return bool{message};
    }));
    return message;
  }

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  WaitSet set = must(WaitSet::create(context));
  std::optional<MessagePool> pool;
  std::vector<std::optional<AnyTransport>> near{};
  std::vector<std::optional<AnyTransport>> far{};
};

/// Whether there was room for it.
inline bool says(AnyTransport& transport, std::string_view text) {
  auto const bytes = std::as_bytes(std::span{text});
  return must(try_send(transport, SendPieces{&bytes, 1}));
}

}  // namespace lend::test
