// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: messages of all channels of a pool arrive with their tags; a piece is lent exclusively
// while posted, shared while its message is held, and posted again once the last loan is over.
#include "channel/pooled.hpp"

#include <malloc.h>

#include <algorithm>
#include <filesystem>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("messages come in order, each with its bytes and its channel's tag", "[channel]") {
  Pooled pooled{2};
  CHECK(pooled.pool->posted() == Pooled::pieces);
  CHECK_FALSE(pooled.pool->next().has_value());
  CHECK(pooled.pool->native() != nullptr);

  pooled.say(0, "one");
  auto const one = pooled.heard();
  pooled.say(1, "three");
  auto const three = pooled.heard();

  CHECK(one.tag() == 100);
  CHECK(text_of(one) == "one");
  CHECK_FALSE(one.immediate().has_value());
  CHECK(three.tag() == 101);
  CHECK(text_of(three) == "three");
  CHECK(pooled.pool->posted() == Pooled::pieces - 2);
}

TEST_CASE("a message brings its immediate, and may have no bytes", "[channel]") {
  Pooled pooled{1};
  if (lacks(pooled.context, &DeviceCapabilities::immediates)) return;
  must(pooled.clients[0]->send(Send::only_immediate(77), within(10s)));
  auto const message = pooled.heard();
  CHECK(message.immediate() == 77u);
  CHECK(message.bytes().empty());
}

TEST_CASE("a write's immediate takes a piece, and none of its bytes are in it", "[channel]") {
  Pooled pooled{1};
  if (lacks(pooled.context, &DeviceCapabilities::immediates)) return;
  // SAFETY: these bytes are not looked at.
  MemoryRegion exposed = must(pooled.domain.unsafe_allocate_exposed(4096, RemoteAccess::write));
  must(pooled.clients[0]->write(
      Write{pooled.far.gather(0, 4096), must(exposed.remote())}.with_immediate(5), within(10s)));
  auto const message = pooled.heard();
  CHECK(message.immediate() == 5u);
  CHECK(message.bytes().empty());
  CHECK(message.gather().range.length == 0);
}

TEST_CASE("the set lists a pool with messages once, under the pool's tag", "[channel]") {
  Pooled pooled{2};
  pooled.say(0, "a");
  pooled.say(1, "b");
  std::size_t listed = 0;
  while (listed == 0) listed = must(pooled.set.wait(pooled.room, within(10s))).size();
  CHECK(listed == 1);
  CHECK(pooled.room[0].what == Ready::What::message);
  CHECK(pooled.room[0].tag == 7);
  CHECK(pooled.heard().tag() + pooled.heard().tag() == 201);
  static_cast<void>(pooled.set.poll(pooled.room));
  CHECK(must(pooled.set.poll(pooled.room)).empty());
}

TEST_CASE("a posted piece is the device's alone, a held one may be read by all", "[channel]") {
  Pooled pooled{1};
  CHECK(error_of(pooled.memory.bytes(0, 8)) == Errc::already_borrowed);
  {
    pooled.say(0, "shared");
    auto const message = pooled.heard();
    auto const offset = message.gather().range.offset;
    CHECK(text_at(pooled.memory, offset, 6) == "shared");
    CHECK(error_of(pooled.memory.mutable_bytes(offset, 6)) == Errc::already_borrowed);
    CHECK(pooled.memory.loans() == Pooled::pieces);
  }
  CHECK(pooled.pool->posted() == Pooled::pieces);
  CHECK(error_of(pooled.memory.bytes(0, 64)) == Errc::already_borrowed);
}

TEST_CASE("an echo without a copy keeps its piece until it has left", "[channel]") {
  Pooled pooled{1};
  pooled.say(0, "echo");
  // Where a message waits for its receive, the echo is under way until there is one.
  bool const waits = pooled.context.capabilities().waits_for_receives;
  PollingScope client{*pooled.clients[0]};
  std::optional<PendingWork> arrival;
  auto const post = [&] {
    arrival.emplace(must(client.post_receive(pooled.far.scatter(100, 64))));
  };
  if (!waits) post();
  {
    SetScope scope{pooled.set};
    {
      auto const message = pooled.heard();
      auto const echo = must(must(scope.on(*pooled.servers[0]))->post_send(message.gather()));
    }
    if (waits) {
      must(pooled.set.poll(pooled.room));
      CHECK(pooled.pool->posted() == Pooled::pieces - 1);
      post();
    }
    must(arrival->wait(within(10s)));
    must(scope.finish());
  }
  must(client.finish());
  CHECK(pooled.all_posted_but(0));
  CHECK(text_at(pooled.far, 100, 4) == "echo");
}

TEST_CASE("pieces go round and round", "[channel]") {
  Pooled pooled{3};
  std::size_t const rounds = pooled.context.kind() == DeviceKind::soft ? 3000 : 300;
  for (std::size_t i = 0; i < rounds; ++i) {
    std::string const text = "message " + std::to_string(i);
    pooled.say(i % 3, text);
    auto const message = pooled.heard();
    CHECK(message.tag() == 100 + i % 3);
    CHECK(text_of(message) == text);
  }
  CHECK(pooled.pool->posted() == Pooled::pieces);
}

TEST_CASE("a message can be moved, and goes once", "[channel]") {
  Pooled pooled{1};
  pooled.say(0, "first");
  Message kept = pooled.heard();
  Message moved = std::move(kept);
  CHECK(kept.bytes().empty());  // NOLINT(bugprone-use-after-move)
  pooled.say(0, "second");
  CHECK(pooled.all_posted_but(2));
  moved = pooled.heard();
  CHECK(text_of(moved) == "second");
  CHECK(pooled.pool->posted() == Pooled::pieces - 1);
}

TEST_CASE("a pool tells once that it is low, and again after it was not", "[channel]") {
  Pooled pooled{1, {.low_mark = 7, .tag = 9}};
  auto const lows = [&pooled] {
    auto const ready = must(pooled.set.poll(pooled.room));
    return std::ranges::count(ready, Ready::What::pool_low, &Ready::what);
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<Message> held;
    pooled.say(0, "a");
    CHECK(pooled.all_posted_but(1));
    CHECK(lows() == 0);
    pooled.say(0, "b");
    std::ptrdiff_t told = 0;
    for (Deadline const until = within(10s); told == 0 && !until.has_passed();) told += lows();
    CHECK(told == 1);
    CHECK(lows() == 0);
    held.push_back(pooled.heard());
    held.push_back(pooled.heard());
    held.clear();
    CHECK(pooled.pool->posted() == Pooled::pieces);
  }
}

TEST_CASE("a set that sleeps is woken by a message", "[channel]") {
  Pooled pooled{1};
  CHECK(must(pooled.set.arm()));
  pooled.say(0, "wake");
  CHECK(must(pooled.set.wait(pooled.room, within(10s))).size() == 1);
  CHECK(text_of(pooled.heard()) == "wake");
}

TEST_CASE("an idle channel with a pool takes at most 16 KiB and no descriptor", "[channel]") {
  Pooled pooled{8};
  if (lacks(pooled.context, &DeviceCapabilities::endpoints)) return;
  auto const descriptors = [] {
    std::filesystem::directory_iterator const all{"/proc/self/fd"};
    return std::distance(begin(all), end(all));
  };
  auto const allocated = [] {
    auto const now = ::mallinfo2();  // of a sanitizer's own malloc nothing
    return now.uordblks + now.hblkhd;
  };
  constexpr std::size_t count = 64;
  std::vector<Channel> idle;
  idle.reserve(count);
  auto const add = [&] {
    auto prepared = must(channel_builder()
                             .protection_domain(pooled.domain)
                             .send_depth(16)
                             .wait_set(pooled.set, idle.size())
                             .receive_pool(*pooled.pool)
                             .build());
    auto const itself = prepared.endpoint();
    idle.push_back(must(std::move(prepared).handshake(itself)));
  };
  auto const descriptors_before = descriptors();
  auto const before = allocated();
  while (idle.size() < count) add();
  auto const each = (allocated() - before) / count;
  CAPTURE(each);
  if (pooled.context.kind() == DeviceKind::soft) CHECK(each <= 16 * 1024);
  CHECK(descriptors() == descriptors_before);
}
