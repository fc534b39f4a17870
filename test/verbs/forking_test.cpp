// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a forked child reaches nothing of its parent's device, whatever it calls or destroys.
// Method: the fake provider, which counts what is called in the child; its exit status is the
// number of the first check that failed.
#include <lend/lend.hpp>
#include <lend/verbs/exposure.hpp>

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "support/peer_process.hpp"
#include "verbs/fake_provider.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct ForkedEnd {
  Context context;
  ProtectionDomain domain;
  MemoryRegion owned;
  std::vector<std::byte> bytes;
  MemoryRegion viewed;
  Channel channel;
};

ForkedEnd forked_end() {
  Fake::get().reset({});
  auto const context = must(open_fake());
  auto const domain = must(context.allocate_protection_domain());
  auto prepared = must(prepare_channel(domain, {}));
  auto const itself = prepared.endpoint();
  std::vector<std::byte> bytes(64);
  auto viewed = must(domain.register_memory(bytes));
  return {context,
          domain,
          must(domain.allocate(64)),
          std::move(bytes),
          std::move(viewed),
          must(std::move(prepared).handshake(itself))};
}

/// What the device was asked for.
struct Asked {
  int calls = Fake::get().calls;
  int destructions = Fake::get().destructions;
  int posts = Fake::get().post_calls;
  std::size_t polls = Fake::get().polls.size();
  std::size_t violations = Fake::get().violations.size();
  bool operator==(Asked const&) const = default;
};

/// The parent's device gives back what is posted.
void complete_all() {
  for (Posted const& posted : std::exchange(Fake::get().posted, {})) complete(posted);
}

bool tells_of_fork(Error const& error) {
  return error.message().find("before fork()") != std::string::npos;
}

}  // namespace

TEST_CASE("a forked child that destroys its parent's objects asks nothing of the device",
          "[verbs]") {
  bool const scope_ends_first = GENERATE(true, false);
  auto end = forked_end();
  auto exposure = must(end.owned.unsafe_expose(RemoteAccess::write));
  auto prepared = must(prepare_channel(end.domain, {}));
  std::optional<PollingScope> scope{std::in_place, end.channel};
  auto work = must(scope->post_receive(end.viewed.scatter(0, 8)));
  auto other = must(scope->post_receive(end.owned.scatter(0, 8)));

  PeerProcess child{[&](Wire const&) {
    Asked const before;
    if (scope_ends_first) scope.reset();
    { MemoryRegion const gone{std::move(end.viewed)}; }  // a view on loan, unless the scope ended
    { MemoryRegion const gone{std::move(end.owned)}; }
    { Channel const gone{std::move(end.channel)}; }
    scope.reset();
    { Exposure const gone{std::move(exposure)}; }
    { PreparedChannel const gone{std::move(prepared)}; }
    return Asked{} == before ? 0 : 1;
  }};

  CHECK(child.exit_status() == 0);
  CHECK(Fake::get().live("queue pair") == 2);
  CHECK(end.viewed.loans() == 1);
  complete_all();
}

TEST_CASE("a forked child is refused each call on its parent's device, with the reason",
          "[verbs]") {
  auto end = forked_end();
  auto exposure = must(end.owned.unsafe_expose(RemoteAccess::write));
  auto queue = must(CompletionQueue::create(end.context, 4));
  QueuePairOptions one_each;
  one_each.send_depth = one_each.receive_depth = 1;
  std::optional<PollingScope> scope{std::in_place, end.channel};
  auto work = must(scope->post_receive(end.owned.scatter(0, 8)));

  PeerProcess child{[&](Wire const&) {
    Asked const before;
    if (!tells_of_fork(error_of(end.channel.send(end.owned.gather(8, 8))))) return 1;
    if (!tells_of_fork(error_of(scope->post_receive(end.owned.scatter(8, 8))))) return 2;
    if (!tells_of_fork(error_of(work.poll()))) return 3;
    if (!tells_of_fork(error_of(work.wait(within(10s))))) return 4;
    if (!tells_of_fork(error_of(scope->finish()))) return 5;
    if (!tells_of_fork(error_of(end.context.allocate_protection_domain()))) return 6;
    if (!tells_of_fork(error_of(end.context.gids()))) return 7;
    if (!tells_of_fork(error_of(end.domain.allocate(64)))) return 8;
    if (!tells_of_fork(error_of(end.domain.register_memory(end.bytes)))) return 9;
    if (!tells_of_fork(error_of(end.owned.unsafe_expose(RemoteAccess::read)))) return 10;
    if (!tells_of_fork(error_of(exposure.finish()))) return 11;
    if (!tells_of_fork(error_of(CompletionQueue::create(end.context, 4)))) return 12;
    if (!tells_of_fork(error_of(PreparedQueuePair::create(end.domain, queue, one_each)))) return 13;
    Completion completion{};
    if (!tells_of_fork(error_of(queue.poll({&completion, 1})))) return 14;
    if (!tells_of_fork(error_of(std::move(end.channel).prepare_again()))) return 15;
    if (end.context.kind() != DeviceKind::card) return 16;
    return Asked{} == before ? 0 : 17;
  }};

  CHECK(child.exit_status() == 0);
  complete_all();
  CHECK(work.wait(within(10s)).has_value());
}

TEST_CASE("a forked child and a child of that open the device anew, and end what they made",
          "[verbs]") {
  auto const end = forked_end();

  PeerProcess child{[](Wire const&) {
    auto const own = forked_end();
    PeerProcess grandchild{[&](Wire const&) {
      auto const last = must(open_fake());
      if (!tells_of_fork(error_of(own.context.allocate_protection_domain()))) return 1;
      return last.allocate_protection_domain().has_value() ? 0 : 2;
    }};
    if (grandchild.exit_status() != 0) return 1;
    { auto const domain = must(own.context.allocate_protection_domain()); }
    return Fake::get().destructions > 0 && Fake::get().violations.empty() ? 0 : 2;
  }};

  CHECK(child.exit_status() == 0);
}

TEST_CASE("a forked child destroys a channel that a thread of its parent is in", "[verbs]") {
  auto end = forked_end();
  std::optional<PollingScope> scope{std::in_place, end.channel};
  std::optional<PendingWork> handle{scope->post_receive(end.viewed.scatter(0, 8)).value()};
  Cancellation stopping;
  std::atomic<bool> is_inside{false};
  std::thread waiting{[&] {
    is_inside = true;
    static_cast<void>(end.channel.receive(end.viewed.scatter(8, 8), within(60s).unless(stopping)));
  }};
  while (!is_inside || end.viewed.loans() < 2) std::this_thread::yield();

  PeerProcess child{[&](Wire const&) {
    handle.reset();
    scope.reset();
    { Channel const gone{std::move(end.channel)}; }
    { MemoryRegion const gone{std::move(end.viewed)}; }
    return 0;
  }};

  CHECK(child.exit_status() == 0);
  Fake::get().at_error = complete_all;
  stopping.cancel();
  waiting.join();
}
