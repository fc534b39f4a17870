// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: fenced requests do what the others do, solicited ones alone wake who armed for them, and
// what means nothing is refused before it is posted. Method: queue pairs of the test's device.
#include "verbs/verbs_ends.hpp"

#include <lend/soft/faults.hpp>

#include <poll.h>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

void check_refused(Result<void> const& posted, char const* words) {
  auto const error = error_of(posted);
  CHECK(error == Errc::invalid_argument);
  CHECK(error.message().find(words) != std::string::npos);
}

/// Ends whose receives complete in a queue that can wake.
struct Waking : VerbsPlace {
  CompletionQueue receives = must(CompletionQueue::create(context, 128, Wakeable::yes));
  VerbsPair<Rc> pair = VerbsPair<Rc>::of(domain, queue, {queue, receives});

  bool is_woken_within(int milliseconds) {
    pollfd wait{receives.descriptor(), POLLIN, 0};
    return ::poll(&wait, 1, milliseconds) == 1;
  }
};

}  // namespace

TEST_CASE("a fenced send follows a read whose bytes it sends", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  put(ends.memory, 1000, "fetched");

  must(ends.b.unsafe_post_receive(1, ends.memory.scatter(3000, 7)));
  must(ends.a.unsafe_post_read(2, Read{ends.memory.scatter(2000, 7), ends.remote(1000, 7)}));
  must(ends.a.unsafe_post_send(3, Send{ends.memory.gather(2000, 7)}.fenced()));
  auto const done = take(ends.queue, 3);

  for (auto const& [id, completion] : done) CHECK(completion.success() != nullptr);
  CHECK(text_at(ends.memory, 2000, 7) == "fetched");
  CHECK(text_at(ends.memory, 3000, 7) == "fetched");
}

TEST_CASE("a fenced request is not copied before a late read has brought its bytes", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  if (ends.context.kind() != DeviceKind::soft) return skip(ends.context, "takes no faults");
  REQUIRE(ends.a.inline_bytes() >= 7);
  put(ends.memory, 1000, "fetched");
  must(inject_faults(ends.context, FaultPlan{}.delay(1, 5ms)));
  bool const is_batch = GENERATE(false, true);
  Read const read{ends.memory.scatter(2000, 7), ends.remote(1000, 7)};
  Write const write{ends.memory.gather(2000, 7), ends.remote(4000, 7)};
  auto const send = Send{ends.memory.gather(2000, 7)}.fenced();

  must(ends.b.unsafe_post_receive(1, ends.memory.scatter(3000, 7)));
  if (is_batch) {
    auto batch = ends.a.unsafe_batch();
    must(batch.add_read(2, read));
    must(batch.add_send(3, send));
    must(batch.add_write(4, write.fenced()));
    must(batch.post());
  } else {
    must(ends.a.unsafe_post_read(2, read));
    must(ends.a.unsafe_post_send(3, send));
    must(ends.a.unsafe_post_write(4, write.fenced()));
  }
  take(ends.queue, 4);

  for (auto const offset : {2000, 3000, 4000})
    CHECK(text_at(ends.memory, static_cast<std::size_t>(offset), 7) == "fetched");
}

TEST_CASE("the bytes of a fenced send are on loan until it ends, however few", "[channel]") {
  ChannelOptions options;
  options.queue_pair.inline_bytes = 16;
  auto ends = two_ends(options);
  if (ends.context.kind() != DeviceKind::soft) return skip(ends.context, "takes no faults");
  auto memory = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  PollingScope sending{ends.a};
  auto received = must(scope.post_receive(memory.scatter(16, 6)));
  must(inject_faults(ends.context, FaultPlan{}.delay(1, 5ms)));

  auto sent = must(sending.post_send(Send{memory.gather(0, 6)}.fenced()));
  CHECK(error_of(memory.mutable_bytes(0, 6)) == Errc::already_borrowed);
  must(sent.wait(within(10s)));
  CHECK(memory.mutable_bytes(0, 6).has_value());

  must(received.wait(within(10s)));
  must(scope.finish());
  must(sending.finish());
}

TEST_CASE("fenced writes, reads and atomic operations do what the others do", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  put(ends.memory, 0, "written!");

  must(ends.a.unsafe_post_write(1, Write{ends.memory.gather(0, 8), ends.remote(1000, 8)}.fenced()));
  must(ends.a.unsafe_post_read(2,
                               Read{ends.memory.scatter(2000, 8), ends.remote(1000, 8)}.fenced()));
  for (auto const& [id, completion] : take(ends.queue, 2)) CHECK(completion.success() != nullptr);

  CHECK(text_at(ends.memory, 2000, 8) == "written!");
  if (lacks(ends.context, &DeviceCapabilities::atomics)) return;
  auto exposed = must(ends.domain.unsafe_allocate_exposed(8, RemoteAccess::atomic));
  auto const word = must(exposed.remote()).word(0);
  must(ends.a.unsafe_post_atomic(
      3, Atomic::fetch_add(ends.memory.scatter(4096, 8), word, 7).fenced()));
  CHECK(take(ends.queue, 1).at(3).success() != nullptr);
  CHECK(std::to_integer<int>(must(exposed.bytes())[0]) == 7);
}

TEST_CASE("a queue that is armed for solicited completions wakes for those alone", "[verbs]") {
  if (cannot_connect()) return;
  Waking ends;
  for (std::uint64_t id = 1; id <= 2; ++id)
    must(ends.pair.b.unsafe_post_receive(id, ends.memory.scatter(100, 8)));
  REQUIRE(ends.receives.arm(EventFor::solicited));

  must(ends.pair.a.unsafe_post_send(3, ends.memory.gather(0, 8)));
  take(ends.queue, 1);
  CHECK_FALSE(ends.is_woken_within(0));
  must(ends.pair.a.unsafe_post_send(4, Send{ends.memory.gather(0, 8)}.solicited()));
  take(ends.queue, 1);
  CHECK(ends.is_woken_within(10'000));

  CHECK(take(ends.receives, 2).size() == 2);
}

TEST_CASE("a solicited write with an immediate wakes as a solicited send does", "[verbs]") {
  if (cannot_connect() || lacks(open_test_device(), &DeviceCapabilities::immediates)) return;
  Waking ends;
  must(ends.pair.b.unsafe_post_receive(1, Receive::only_immediate()));
  REQUIRE(ends.receives.arm(EventFor::solicited));

  Write const write{ends.memory.gather(0, 8), ends.remote(100, 8)};
  must(ends.pair.a.unsafe_post_write(2, write.with_immediate(7).solicited()));
  CHECK(ends.is_woken_within(10'000));

  CHECK(take(ends.receives, 1).at(1).success()->immediate == 7u);
}

TEST_CASE("a failure wakes a queue that is armed for solicited completions", "[verbs]") {
  if (cannot_connect()) return;
  Waking ends;
  must(ends.pair.b.unsafe_post_receive(1, ends.memory.scatter(100, 8)));
  REQUIRE(ends.receives.arm(EventFor::solicited));

  must(ends.pair.b.abort_all());
  CHECK(ends.is_woken_within(10'000));

  CHECK(take(ends.receives, 1).at(1).failure()->status == WorkStatus::flushed);
}

TEST_CASE("options that mean nothing are refused before they are posted", "[verbs]") {
  if (cannot_connect()) return;
  VerbsEnds<> ends;
  Write const write{ends.memory.gather(0, 8), ends.remote(100, 8)};
  check_refused(ends.a.unsafe_post_write(1, write.solicited()), "solicited without an immediate");
  must(ends.a.unsafe_post_write(2, write.fenced()));
  CHECK(take(ends.queue, 1).count(2) == 1);

  if (lacks(ends.context, &DeviceCapabilities::unreliable)) return;
  VerbsEnds<Uc> unreliable;
  check_refused(unreliable.a.unsafe_post_send(1, Send{unreliable.memory.gather(0, 8)}.fenced()),
                "only a reliable connection");
  CHECK(is_quiet(unreliable.queue));
}

TEST_CASE("a channel carries the options of its requests", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(64));
  put(memory, 0, "fenced");
  PollingScope scope{ends.b};
  PollingScope sending{ends.a};

  auto first = must(scope.post_receive(memory.scatter(16, 6)));
  auto second = must(scope.post_receive(memory.scatter(32, 6)));
  auto batch = sending.batch();
  auto fenced = must(batch.add_send(Send{memory.gather(0, 6)}.fenced()));
  must(batch.post());
  auto both = must(sending.post_send(Send{memory.gather(0, 6)}.fenced().solicited()));
  for (auto* const work : {&first, &second, &fenced, &both}) must(work->wait(within(10s)));
  must(scope.finish());
  must(sending.finish());

  CHECK(text_at(memory, 16, 6) == "fenced");
  CHECK(text_at(memory, 32, 6) == "fenced");
  auto exposed = must(ends.domain.unsafe_allocate_exposed(8, RemoteAccess::write));
  Write const write{memory.gather(0, 8), must(exposed.remote())};
  auto const refused = error_of(ends.a.write(write.solicited()));
  CHECK(refused == Errc::invalid_argument);
  CHECK(refused.message().find("solicited without an immediate") != std::string::npos);
  CHECK(memory.loans() == 0);
}
