// SPDX-License-Identifier: MIT OR Apache-2.0
// A set with servers that receive by a pool, each connected to a client outside. One thread.
#pragma once

#include "support/two_ends.hpp"

#include <array>
#include <optional>
#include <vector>

namespace lend::test {

struct Pooled {
  static constexpr std::size_t piece = 64;
  static constexpr std::uint32_t pieces = 8;

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(pieces * piece));
  MemoryRegion far = must(domain.allocate(4096));  // the clients'
  WaitSet set = must(WaitSet::create(context));
  std::optional<ReceivePool> pool;
  std::vector<std::optional<Channel>> servers{}, clients{};
  std::array<Ready, 16> room{};

  explicit Pooled(std::size_t count, ReceivePoolOptions const& options = {.tag = 7})
      : pool{must(ReceivePool::create(set, memory.chunks(piece), options))} {
    for (std::size_t i = 0; i < count; ++i) add(100 + i);
  }
  [[nodiscard]] ChannelOptions in_pool(std::uint64_t tag) {
    ChannelOptions options = options_with_depth(8);
    options.wait_set = &set;
    options.receive_pool = &*pool;
    options.tag = tag;
    return options;
  }
  void add(std::uint64_t tag, std::chrono::nanoseconds keep_alive = {}) {
    ChannelOptions options = in_pool(tag);
    options.keep_alive = keep_alive;
    auto [server, client] = connected(domain, options, options_with_depth(8));
    servers.emplace_back(std::move(server));
    clients.emplace_back(std::move(client));
  }
  void say(std::size_t client, std::string_view text) {
    put(far, 0, text);
    must(clients[client]->send(far.gather(0, text.size()), within(std::chrono::seconds{10})));
  }
  /// The next message, within 10 s.
  [[nodiscard]] Message heard() {
    for (;;) {
      if (auto message = pool->next()) return std::move(*message);
      must(set.wait(room, within(std::chrono::seconds{10})));
    }
  }
  /// Polls until all pieces but `others` are posted, for at most 10 s.
  [[nodiscard]] bool all_posted_but(std::uint32_t others) {
    Deadline const deadline = within(std::chrono::seconds{10});
    while (pool->posted() != pieces - others && !deadline.has_passed()) must(set.poll(room));
    return pool->posted() == pieces - others;
  }
  /// Polls until `channel` is broken, for at most 10 s.
  [[nodiscard]] bool breaks(Channel const& channel) {
    Deadline const deadline = within(std::chrono::seconds{10});
    while (channel.first_cause() == nullptr && !deadline.has_passed()) must(set.poll(room));
    return channel.first_cause() != nullptr;
  }
};

inline std::string text_of(Message const& message) {
  auto const bytes = message.bytes();
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

}  // namespace lend::test
