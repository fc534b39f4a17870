// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a window by hand opens its bytes to the peer, as the device says, until it is invalidated
// here or by the peer. Method: two queue pairs on the test's device; b opens, a uses. No key is
// invalidated twice, with which the kernel of SoftRoCE crashes.
#include <lend/soft/faults.hpp>
#include <lend/verbs/memory_window.hpp>

#include "verbs/verbs_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Windowed : VerbsEnds<> {
  MemoryRegion lent = must(domain.allocate(4096));

  /// The completion of the only request that is under way.
  Completion one() { return take(queue, 1).begin()->second; }
  FailedWork failed_write(RemoteRegion const& to) {
    must(a.unsafe_post_write(7, {memory.gather(0, 8), to.slice(0, 8)}));
    auto const completion = one();
    REQUIRE(completion.failure() != nullptr);
    return *completion.failure();
  }
};

bool lacks_windows() {
  auto const context = open_test_device();
  return lacks(context, &DeviceCapabilities::windows) ||
         lacks(context, &DeviceCapabilities::endpoints);
}

}  // namespace

TEST_CASE("a window that is bound by hand opens its bytes until it is invalidated", "[verbs]") {
  if (lacks_windows()) return;
  Windowed it;
  auto window = must(MemoryWindow::create(it.domain));
  put(it.memory, 0, "windowed");
  auto const remote = must(it.b.unsafe_post_bind(1, window, it.lent.scatter(64, 64)));
  REQUIRE(it.one().success() != nullptr);
  CHECK(remote.key() == window.key());
  must(it.a.unsafe_post_write(2, {it.memory.gather(0, 8), remote.slice(8, 8)}));
  REQUIRE(it.one().success() != nullptr);
  CHECK(text_at(it.lent, 72, 8) == "windowed");

  SECTION("here") {
    must(it.b.unsafe_post_invalidate(3, window.key()));
    REQUIRE(it.one().success() != nullptr);
  }
  SECTION("by the peer") {
    must(it.b.unsafe_post_receive(3, Receive::only_immediate()));
    must(it.a.unsafe_post_send(4, Send::only_returning(remote)));
    auto const both = take(it.queue, 2);
    CHECK(both.at(3).success() != nullptr);
    CHECK(both.at(4).success() != nullptr);
  }
  SECTION("by its end") {
    must(std::move(window).destroy());
    CHECK(window.native() == nullptr);
    CHECK(error_of(it.b.unsafe_post_bind(5, window, it.lent.gather(0, 8))) == Errc::stale_handle);
  }
  CHECK(it.failed_write(remote).status == WorkStatus::remote_access);
}

TEST_CASE("a message that ends a window says its key", "[verbs]") {
  if (lacks_windows()) return;
  Windowed it;
  auto window = must(MemoryWindow::create(it.domain));
  auto const remote = must(it.b.unsafe_post_bind(1, window, it.lent.scatter(64, 64)));
  REQUIRE(it.one().success() != nullptr);
  must(it.b.unsafe_post_receive(3, Receive::only_immediate()));
  must(it.a.unsafe_post_send(4, Send::only_returning(remote)));
  auto const both = take(it.queue, 2);
  REQUIRE(both.at(3).success() != nullptr);
  CHECK(both.at(3).success()->returned == remote.key());
  CHECK_FALSE(both.at(3).success()->immediate.has_value());
}

TEST_CASE("a window is bound again with another key", "[verbs]") {
  if (lacks_windows()) return;
  Windowed it;
  auto window = must(MemoryWindow::create(it.domain));
  auto const first = must(it.b.unsafe_post_bind(1, window, it.lent.scatter(0, 64)));
  REQUIRE(it.one().success() != nullptr);
  must(it.b.unsafe_post_invalidate(2, first.key()));
  REQUIRE(it.one().success() != nullptr);
  auto const second = must(it.b.unsafe_post_bind(3, window, it.lent.scatter(64, 64)));
  REQUIRE(it.one().success() != nullptr);
  CHECK(second.key() != first.key());
  must(it.a.unsafe_post_write(4, {it.memory.gather(0, 8), second.slice(0, 8)}));
  CHECK(it.one().success() != nullptr);
  CHECK(it.failed_write(first).status == WorkStatus::remote_access);
}

TEST_CASE("what a window cannot open is refused, and nothing is posted", "[verbs]") {
  if (lacks_windows()) return;
  Windowed it;
  auto window = must(MemoryWindow::create(it.domain));
  auto const other = must(it.context.allocate_protection_domain());
  auto foreign = must(MemoryWindow::create(other));
  CHECK(error_of(it.b.unsafe_post_bind(1, window, it.lent.scatter(4090, 8))) ==
        Errc::invalid_argument);
  CHECK(error_of(it.b.unsafe_post_bind(1, window, it.lent.scatter(0, 0))) ==
        Errc::invalid_argument);
  CHECK(error_of(it.b.unsafe_post_bind(1, foreign, it.lent.scatter(0, 8))) ==
        Errc::invalid_argument);
  CHECK(error_of(it.a.unsafe_post_send(2, Send::only_returning(nobody(8)).with_immediate(1))) ==
        Errc::invalid_argument);
  CHECK(is_quiet(it.queue));
}

TEST_CASE("an unreliable send returns nothing", "[verbs]") {
  if (lacks(open_test_device(), &DeviceCapabilities::unreliable)) return;
  VerbsEnds<Uc> ends;
  CHECK(error_of(ends.a.unsafe_post_send(1, Send::only_returning(nobody(8)))) ==
        Errc::invalid_argument);
}

TEST_CASE("a device without windows says so before anything is posted", "[verbs]") {
  auto const context = open_test_device();
  if (context.capabilities().windows) return skip(context, "has memory windows");
  auto const domain = must(context.allocate_protection_domain());
  CHECK(error_of(MemoryWindow::create(domain)) == Errc::unsupported);
  auto [a, b] = connected(domain, {}, {});
  CHECK(error_of(a.send(Send::only_returning(nobody(8)))) == Errc::unsupported);
}

TEST_CASE("a window that has ended is not bound by a request that comes later", "[verbs]") {
  if (lacks_windows()) return;
  Windowed it;
  if (it.context.kind() != DeviceKind::soft) return skip(it.context, "takes no faults");
  auto window = must(MemoryWindow::create(it.domain));
  must(inject_faults(it.context, FaultPlan{}.delay(1, 20ms)));
  auto const remote = must(it.b.unsafe_post_bind(1, window, it.lent.scatter(64, 64)));
  must(std::move(window).destroy());

  auto const bound = it.one();
  REQUIRE(bound.failure() != nullptr);
  CHECK(bound.failure()->status == WorkStatus::memory_window_bind);
  put(it.lent, 64, "as it was");
  static_cast<void>(it.failed_write(remote));
  CHECK(text_at(it.lent, 64, 9) == "as it was");
}
