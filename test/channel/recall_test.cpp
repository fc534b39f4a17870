// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a scope for datagrams always ends, with all its rooms, and breaks nothing. Method: receives
// that no peer sends to, control calls that fail in turn.
#include "support/datagrams.hpp"

#include <lend/soft/faults.hpp>

#include <array>
#include <stdexcept>
#include <string>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Whether `from` reaches `to`, with 8 bytes, into a new room.
void check_reaches(Datagrams& ends, DatagramChannel& from, DatagramChannel& to) {
  DatagramScope scope{to};
  auto work = must(scope.post_receive(ends.room(7)));
  must(from.send(ends.memory.gather(0, 8), must(from.destination(to.address()))));
  CHECK(must(work.wait(within(5s))).bytes() == 8);
  must(scope.finish());
}

}  // namespace

TEST_CASE("a scope for datagrams ends though no peer sends, and the channel goes on", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  Endpoint const before = ends.b.address();
  std::optional<PendingDatagram> handle;

  SECTION("by finish()") {
    DatagramScope scope{ends.b};
    handle = must(scope.post_receive(ends.room(0)));
    static_cast<void>(must(scope.post_receive(ends.room(1))));
    must(scope.finish());
  }
  SECTION("by its destructor") {
    DatagramScope scope{ends.b};
    handle = must(scope.post_receive(ends.room(0)));
  }
  SECTION("by an exception") {
    try {
      DatagramScope scope{ends.b};
      handle = must(scope.post_receive(ends.room(0)));
      throw std::runtime_error{"on purpose"};
    } catch (std::runtime_error const&) {
    }
  }
  SECTION("by the error of its closure") {
    auto const result = ends.b.scope([&](DatagramScope& scope) -> Result<void> {
      handle = must(scope.post_receive(ends.room(0)));
      return Error{Errc::not_found, "on purpose"};
    });
    CHECK(error_of(result) == Errc::not_found);
  }

  CHECK(ends.memory.loans() == 0);
  CHECK(error_of(handle->poll()) == Errc::stale_handle);
  CHECK(ends.b.first_cause() == nullptr);
  CHECK(ends.b.last_failures().empty());
  CHECK(ends.b.address() == before);
  check_reaches(ends, ends.a, ends.b);
  check_reaches(ends, ends.b, ends.a);
}

TEST_CASE("a scope that ends leaves the receives of others posted", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  DatagramScope scope{ends.b};
  auto first = must(scope.post_receive(ends.room(0)));
  auto second = must(scope.post_receive(ends.room(1)));
  {
    DatagramScope inner{ends.b};
    for (std::size_t i = 2; i < 6; ++i) static_cast<void>(must(inner.post_receive(ends.room(i))));
    must(inner.finish());
  }
  CHECK(scope.outstanding() == 2);
  CHECK(ends.memory.loans() == 2);

  must(ends.a.send(ends.memory.gather(0, 5), to_b));
  must(ends.a.send(ends.memory.gather(0, 6), to_b));
  CHECK(must(first.wait(within(5s))).bytes() + must(second.wait(within(5s))).bytes() == 11);
  must(scope.finish());
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("the receives of others are posted again in their order", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  DatagramScope scope{ends.b};
  // Slots that were used come back in another order.
  std::vector<PendingDatagram> used;
  for (std::size_t i = 0; i < 3; ++i) used.push_back(must(scope.post_receive(ends.room(i))));
  for (auto& work : used) {
    must(ends.a.send(ends.memory.gather(0, 4), to_b));
    must(work.wait(within(5s)));
  }
  std::vector<PendingDatagram> works;
  for (std::size_t i = 0; i < 3; ++i) works.push_back(must(scope.post_receive(ends.room(i))));
  {
    DatagramScope inner{ends.b};
    static_cast<void>(must(inner.post_receive(ends.room(3))));
    must(inner.finish());
  }
  for (std::size_t i = 0; i < 3; ++i) must(ends.a.send(ends.memory.gather(0, i + 1), to_b));
  for (std::size_t i = 0; i < 3; ++i) CHECK(must(works[i].wait(within(5s))).bytes() == i + 1);
  must(scope.finish());
}

TEST_CASE("a datagram that is there already needs no recall", "[channel]") {
  if (Context const context = open_test_device(); context.kind() != DeviceKind::soft)
    return skip(context, "takes no faults");
  Datagrams ends;
  DatagramScope scope{ends.b};
  static_cast<void>(must(scope.post_receive(ends.room(0))));
  must(ends.a.send(ends.memory.gather(0, 8), must(ends.a.destination(ends.b.address()))));
  must(inject_faults(ends.context, FaultPlan{}.control_call_fails(1, EACCES)));
  must(scope.finish());
  CHECK(ends.b.first_cause() == nullptr);
}

TEST_CASE("a recall of a channel that has just broken says so", "[channel]") {
  if (Context const context = open_test_device(); context.kind() != DeviceKind::soft)
    return skip(context, "takes no faults");
  Datagrams ends;
  Destination const to_a = must(ends.b.destination(ends.a.address()));
  DatagramScope scope{ends.b};
  must(inject_faults(ends.context, FaultPlan{}.delay(1, 50ms).flush(2)));
  auto first = must(scope.post_send(ends.memory.gather(0, 8), to_a));
  auto second = must(scope.post_send(ends.memory.gather(0, 8), to_a));
  static_cast<void>(must(scope.post_receive(ends.room(0))));
  CHECK(error_of(scope.recall(within(5s))) == Errc::channel_broken);
  CHECK(ends.b.first_cause() != nullptr);
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("a handle has the datagram that came before the recall", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  DatagramScope scope{ends.b};
  auto first = must(scope.post_receive(ends.room(0)));
  auto second = must(scope.post_receive(ends.room(1)));
  must(ends.a.send(ends.memory.gather(0, 5), must(ends.a.destination(ends.b.address()))));
  must(first.wait(within(5s)));  // it is there

  auto third = must(scope.post_receive(ends.room(2)));
  must(scope.recall(within(5s)));

  CHECK(must(first.poll())->bytes() == 5);
  CHECK(error_of(second.poll()) == Errc::stale_handle);
  CHECK(error_of(third.wait(within(1s))) == Errc::stale_handle);
  CHECK(scope.outstanding() == 0);
  CHECK(ends.memory.loans() == 0);
  static_cast<void>(must(scope.post_receive(ends.room(0))));
  must(scope.finish());
}

TEST_CASE("a receive that times out gives its room back, and the channel works on", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  for (int i = 0; i < 3; ++i) {
    auto const error = error_of(ends.b.receive(ends.room(0), within(1ms)));
    CHECK(error == Errc::timed_out);
    CHECK_THAT(error.message(), Catch::Contains("no datagram came"));
    CHECK(ends.memory.loans() == 0);
  }
  check_reaches(ends, ends.a, ends.b);
}

TEST_CASE("a scope with datagrams under way waits for them before it recalls", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  DatagramScope theirs{ends.b};
  std::vector<PendingDatagram> works;
  for (std::size_t i = 0; i < 8; ++i) works.push_back(must(theirs.post_receive(ends.room(i))));
  DatagramScope sending{ends.a};
  if (ends.context.kind() == DeviceKind::soft)
    must(inject_faults(ends.context, FaultPlan{}.delay(8, 50ms)));
  {
    DatagramScope scope{ends.a};
    static_cast<void>(must(scope.post_receive(ends.room(8))));
    for (int i = 0; i < 4; ++i) {
      static_cast<void>(must(scope.post_send(ends.memory.gather(0, 8), to_b)));
      static_cast<void>(must(sending.post_send(ends.memory.gather(0, 8), to_b)));
    }
    must(scope.finish());
  }
  must(sending.finish());
  for (auto& work : works) CHECK(must(work.wait(within(5s))).bytes() == 8);
  must(theirs.finish());
}

TEST_CASE("a recall that the device refuses breaks the channel, and the rooms are back",
          "[channel]") {
  if (Context const context = open_test_device(); context.kind() != DeviceKind::soft)
    return skip(context, "takes no faults");
  Datagrams ends;
  std::uint64_t const call = GENERATE(1u, 2u, 3u, 4u, 5u);
  CAPTURE(call);
  DatagramScope scope{ends.b};
  static_cast<void>(must(scope.post_receive(ends.room(0))));
  DatagramScope other{ends.b};
  auto theirs = must(other.post_receive(ends.room(1)));
  must(inject_faults(ends.context, FaultPlan{}.control_call_fails(call, EACCES)));

  auto const error = error_of(scope.finish());

  CHECK(error == Errc::system_failed);
  CHECK_THAT(error.message(), Catch::Contains("ibv_modify_qp"));
  CHECK(ends.b.first_cause() != nullptr);
  CHECK(theirs.wait(within(5s)).has_error());
  must(other.finish());  // the handle has said it
  CHECK(ends.memory.loans() == 0);
  CHECK(error_of(ends.b.receive(ends.room(0))) == Errc::channel_broken);
}

TEST_CASE("a channel of a set recalls its receives and leaves the others alone", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  WaitSet set = must(WaitSet::create(ends.context));
  auto one = must(datagram_channel_builder(ends.domain).wait_set(set, 1).build());
  auto two = must(datagram_channel_builder(ends.domain).wait_set(set, 2).build());
  DatagramScope of_two{two};
  auto work = must(of_two.post_receive(ends.room(0)));
  {
    DatagramScope of_one{one};
    static_cast<void>(must(of_one.post_receive(ends.room(1))));
    must(of_one.finish());
  }
  must(ends.a.send(ends.memory.gather(0, 8), must(ends.a.destination(two.address()))));
  std::array<Ready, 4> room;
  std::uint64_t tag = 0;
  for (Deadline const deadline = within(5s); tag != 2 && !deadline.has_passed();)
    for (Ready const& ready : must(set.wait(room, within(5s)))) tag = ready.tag;
  CHECK(tag == 2);
  CHECK(must(work.poll())->bytes() == 8);
  must(of_two.finish());
  CHECK(ends.memory.loans() == 0);
}
