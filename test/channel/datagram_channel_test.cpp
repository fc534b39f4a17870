// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: datagrams come with their senders, are answered, and are refused before they are posted
// where they cannot be sent. Method: channels of one process that know each other's addresses.
#include "support/datagrams.hpp"

#include <lend/soft/faults.hpp>

#include <optional>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("a datagram to an address of text comes with its sender, and is answered", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  put(ends.memory, 0, "question");
  put(ends.memory, 8, "answer");
  std::string const text = ends.b.address().to_text();
  CHECK(text.find_first_of(" \n") == std::string::npos);
  Destination const to_b = must(ends.a.destination(must(Endpoint::from_text(text))));

  DatagramScope scope{ends.b};
  auto pending = must(scope.post_receive(ends.room(0)));
  CHECK_FALSE(must(pending.poll()).has_value());
  must(ends.a.send(Send{ends.memory.gather(0, 8)}.with_immediate(9), to_b));
  ReceivedDatagram const question = must(pending.wait(within(5s)));
  CHECK(question.bytes() == 8);
  CHECK(ends.text_of(question) == "question");
  CHECK(question.immediate == 9u);
  CHECK(question.sender.number == ends.a.address().queue_pair_number);
  CHECK(must(pending.wait()).bytes() == 8);  // a handle keeps what it has taken

  DatagramScope asking{ends.a};
  auto reply = must(asking.post_receive(ends.room(1)));
  must(ends.b.send(ends.memory.gather(8, 6), must(ends.b.destination(question)), within(5s)));
  CHECK(ends.text_of(must(reply.wait(within(5s)))) == "answer");
  must(asking.finish());
  must(scope.finish());
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("a sender with a key of its own is answered by that key, and by no other", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  auto other = must(datagram_channel_builder(ends.domain).queue_key(0x77).build());
  DatagramScope scope{other};
  auto reply = must(scope.post_receive(ends.room(1)));
  DatagramScope answering{ends.a};
  auto pending = must(answering.post_receive(ends.room(0)));
  must(other.send(ends.memory.gather(0, 8), must(other.destination(ends.a.address()))));
  auto const question = must(pending.wait(within(5s)));

  must(ends.a.send(ends.memory.gather(0, 1), must(ends.a.destination(question))));
  must(ends.a.send(ends.memory.gather(0, 2), must(ends.a.destination(question, 0x77))));

  CHECK(must(reply.wait(within(5s))).bytes() == 2);
  must(scope.finish());
  must(answering.finish());
}

TEST_CASE("a datagram keeps its sender while its room takes the next one", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  auto third = must(datagram_channel_builder(ends.domain).build());
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  DatagramScope scope{ends.b};
  auto first = must(scope.post_receive(ends.room(0)));
  auto notice = must(scope.post_receive(ends.room(1)));
  must(ends.a.send(ends.memory.gather(0, 8), to_b));
  must(ends.a.send(ends.memory.gather(0, 8), to_b));
  must(notice.wait(within(5s)));  // which ended the first, too

  auto second = must(scope.post_receive(ends.room(0)));
  must(third.send(ends.memory.gather(0, 3), must(third.destination(ends.b.address()))));
  must(second.wait(within(5s)));

  auto const kept = must(first.wait(within(5s)));
  CHECK(kept.sender.number == ends.a.address().queue_pair_number);
  CHECK(must(ends.b.destination(kept)).number() == ends.a.address().queue_pair_number);
  must(scope.finish());
}

TEST_CASE("a channel keeps the address handle of a datagram until that has left", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  DatagramScope scope{ends.b};
  std::vector<PendingDatagram> works;
  for (std::size_t i = 0; i < 4; ++i) works.push_back(must(scope.post_receive(ends.room(i))));
  DatagramScope sending{ends.a};
  for (std::size_t i = 0; i < 4; ++i) {
    Destination const brief = must(ends.a.destination(ends.b.address()));
    static_cast<void>(must(sending.post_send(ends.memory.gather(0, i + 1), brief)));
  }
  // Datagrams are copied, too, and only the rooms are on loan.
  if (ends.a.inline_bytes() >= 4) CHECK(ends.memory.loans() == 4);
  must(sending.finish());
  for (std::size_t i = 0; i < 4; ++i) CHECK(must(works[i].wait(within(5s))).bytes() == i + 1);
  must(scope.finish());
}

TEST_CASE("errors of datagrams name no peer, and no connection to prepare again", "[channel]") {
  if (Context const context = open_test_device(); context.kind() != DeviceKind::soft)
    return skip(context, "takes no faults");
  Datagrams ends;
  Destination const to_a = must(ends.b.destination(ends.a.address()));
  DatagramScope scope{ends.b};
  must(inject_faults(ends.context, FaultPlan{}.flush(1)));
  auto pending = must(scope.post_send(ends.memory.gather(0, 8), to_a));
  auto const flushed = error_of(pending.wait());
  auto const after = error_of(scope.post_send(ends.memory.gather(0, 8), to_a));
  auto const next = error_of(ends.b.receive(ends.room(0)));
  static_cast<void>(scope.finish());
  REQUIRE(ends.b.first_cause() != nullptr);

  for (Error const& error : {flushed, after, next, *ends.b.first_cause()}) {
    INFO(error.describe());
    CHECK(error.describe().find("prepare_again") == std::string::npos);
    CHECK(error.describe().find("queue pair 0") == std::string::npos);
    CHECK(error.message().find("prepare_again") == std::string::npos);
  }
}

TEST_CASE("a datagram that cannot be sent is refused, and nothing is posted", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  DatagramScope scope{ends.a};
  Destination to_b = must(ends.a.destination(ends.b.address()));
  std::uint64_t const mtu = ends.a.message_bytes_max();
  CHECK(mtu == ends.a.address().mtu_bytes);

  SECTION("beyond the MTU") {
    auto const error = error_of(scope.post_send(ends.memory.gather(0, mtu + 1), to_b));
    CHECK(error == Errc::invalid_argument);
    CHECK_THAT(error.message(), Catch::Contains("MTU") && Catch::Contains("nothing was posted"));
    CHECK(error_of(ends.a.send(ends.memory.gather(0, mtu + 1), to_b)) == Errc::invalid_argument);
    std::size_t const half = mtu / 2 + 1;
    Send const in_two{ends.memory.gather(0, half), ends.memory.gather(half, half)};
    CHECK(error_of(scope.post_send(in_two, to_b)) == Errc::invalid_argument);
  }
  SECTION("to a destination of another protection domain") {
    auto const domain = must(ends.context.allocate_protection_domain());
    auto const other = must(datagram_channel_builder(domain).build());
    Destination const foreign = must(other.destination(ends.b.address()));
    auto const error = error_of(scope.post_send(ends.memory.gather(0, 8), foreign));
    CHECK(error == Errc::invalid_argument);
    CHECK_THAT(error.message(), Catch::Contains("another protection domain"));
  }
  SECTION("to a destination that was moved from") {
    Destination const taken = std::move(to_b);
    auto const error = error_of(ends.a.send(ends.memory.gather(0, 8), to_b));  // NOLINT: on purpose
    CHECK(error == Errc::stale_handle);
  }
  SECTION("of bytes that are on loan") {
    static_cast<void>(must(scope.post_receive(ends.room(0))));
    auto const inside = ends.memory.gather(Datagrams::rooms_at + 100, 8);
    CHECK(error_of(scope.post_send(inside, to_b)) == Errc::already_borrowed);
    CHECK(scope.outstanding() == 1);
    must(scope.recall());
  }
  CHECK(scope.outstanding() == 0);
  CHECK(ends.memory.loans() == 0);
  must(scope.finish());
  CHECK(ends.a.first_cause() == nullptr);
}

TEST_CASE("addresses that lie, and rooms too short, are refused", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  CHECK(error_of(DatagramRoom::in(ends.memory.scatter(0, 40))) == Errc::invalid_argument);

  std::string text = ends.b.address().to_text();
  text.back() = text.back() == '0' ? '1' : '0';
  CHECK(error_of(Endpoint::from_text(text)) == Errc::incompatible_peer);

  auto const connection = must(channel_builder(ends.domain).build());
  CHECK(error_of(ends.a.destination(connection.endpoint())) == Errc::incompatible_peer);
  Endpoint elsewhere = ends.b.address();
  elsewhere.device_kind =
      ends.context.kind() == DeviceKind::soft ? DeviceKind::card : DeviceKind::soft;
  CHECK(error_of(ends.a.destination(elsewhere)) == Errc::incompatible_peer);
  ReceivedDatagram forged;
  forged.sender.has_header = true;
  CHECK(ends.a.destination(forged).has_error());
}

TEST_CASE("datagrams to a channel that is gone succeed, and nothing breaks", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  std::optional<DatagramChannel> gone = must(datagram_channel_builder(ends.domain).build());
  Destination const to_it = must(ends.a.destination(gone->address()));
  gone.reset();
  for (int i = 0; i < 300; ++i) must(ends.a.send(ends.memory.gather(0, 64), to_it));
  CHECK(ends.a.first_cause() == nullptr);
  CHECK_THAT(ends.a.describe(), Catch::Contains("for datagrams"));
}

TEST_CASE("a batch of datagrams goes to each its destination, by one doorbell", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  auto third = must(datagram_channel_builder(ends.domain).build());
  put(ends.memory, 0, "for b");
  put(ends.memory, 8, "for the third");
  DatagramScope of_b{ends.b};
  DatagramScope of_third{third};
  auto at_b = must(of_b.post_receive(ends.room(0)));
  auto at_third = must(of_third.post_receive(ends.room(1)));
  DatagramScope scope{ends.a};
  {
    auto batch = scope.batch();
    // A destination may go before its datagram is posted.
    static_cast<void>(must(batch.add_send(Send{ends.memory.gather(0, 5)}.with_immediate(3),
                                          must(ends.a.destination(ends.b.address())))));
    auto sent =
        must(batch.add_send(ends.memory.gather(8, 13), must(ends.a.destination(third.address()))));
    CHECK(batch.size() == 2);
    CHECK_FALSE(must(at_b.poll()).has_value());
    must(batch.post());
    must(sent.wait(within(5s)));
  }
  auto const got = must(at_b.wait(within(5s)));
  CHECK(ends.text_of(got) == "for b");
  CHECK(got.immediate == 3u);
  CHECK(got.sender.number == ends.a.address().queue_pair_number);
  CHECK(ends.text_of(must(at_third.wait(within(5s)))) == "for the third");
  must(scope.finish());
  must(of_b.finish());
  must(of_third.finish());
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("a batch of datagrams refuses what a post refuses, and the others go", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  auto const domain = must(ends.context.allocate_protection_domain());
  auto const other = must(datagram_channel_builder(domain).build());
  Destination const foreign = must(other.destination(ends.b.address()));
  DatagramScope of_b{ends.b};
  auto first = must(of_b.post_receive(ends.room(0)));
  auto second = must(of_b.post_receive(ends.room(1)));
  DatagramScope scope{ends.a};
  auto batch = scope.batch();
  static_cast<void>(must(batch.add_send(ends.memory.gather(0, 1), to_b)));
  CHECK(error_of(batch.add_send(ends.memory.gather(0, ends.a.message_bytes_max() + 1), to_b)) ==
        Errc::invalid_argument);
  CHECK(error_of(batch.add_send(ends.memory.gather(0, 8), foreign)) == Errc::invalid_argument);
  static_cast<void>(must(batch.add_send(ends.memory.gather(0, 2), to_b)));
  must(batch.post());
  CHECK(must(first.wait(within(5s))).bytes() == 1);
  CHECK(must(second.wait(within(5s))).bytes() == 2);
  must(scope.finish());
  must(of_b.finish());
}

TEST_CASE("datagrams of a batch without handles go to each its destination, and the scope waits",
          "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  auto third = must(datagram_channel_builder(ends.domain).build());
  auto const domain = must(ends.context.allocate_protection_domain());
  auto const other = must(datagram_channel_builder(domain).build());
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  Destination const foreign = must(other.destination(ends.b.address()));
  DatagramScope of_b{ends.b};
  DatagramScope of_third{third};
  auto first = must(of_b.post_receive(ends.room(0)));
  auto second = must(of_b.post_receive(ends.room(1)));
  auto at_third = must(of_third.post_receive(ends.room(2)));
  DatagramScope scope{ends.a};
  auto batch = scope.batch();
  must(batch.add_send(ends.memory.gather(0, 1000), to_b, no_handle));
  must(batch.add_send(Send{ends.memory.gather(0, 5)}.with_immediate(3),
                      must(ends.a.destination(third.address())), no_handle));
  must(batch.add_send(ends.memory.gather(0, 7), to_b, no_handle, within(5s)));
  CHECK(error_of(batch.add_send(ends.memory.gather(0, 8), foreign, no_handle)) ==
        Errc::invalid_argument);
  CHECK(error_of(batch.add_send(ends.memory.gather(0, ends.a.message_bytes_max() + 1), to_b,
                                no_handle)) == Errc::invalid_argument);
  CHECK(batch.size() == 3);
  // Those of the rooms, and of what the batch does not copy.
  CHECK(ends.memory.loans() == (ends.a.inline_bytes() >= 7 ? 4 : 6));

  must(scope.finish());

  CHECK(ends.memory.loans() == 3);
  CHECK(must(first.wait(within(5s))).bytes() == 1000);
  CHECK(must(second.wait(within(5s))).bytes() == 7);
  auto const got = must(at_third.wait(within(5s)));
  CHECK(got.bytes() == 5);
  CHECK(got.immediate == 3u);
  must(of_b.finish());
  must(of_third.finish());
}

TEST_CASE("the scope reports the failure of a datagram without a handle", "[channel]") {
  if (Context const context = open_test_device(); context.kind() != DeviceKind::soft)
    return skip(context, "takes no faults");
  Datagrams ends;
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  DatagramScope scope{ends.a};
  auto batch = scope.batch();
  must(inject_faults(ends.context, FaultPlan{}.flush(2)));
  must(batch.add_send(ends.memory.gather(0, 1000), to_b, no_handle));
  must(batch.add_send(ends.memory.gather(0, 1000), to_b, no_handle));
  unsigned const line = __LINE__ - 1;
  must(batch.post());

  auto const error = error_of(scope.finish());

  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->posted_at.line == line);
  CHECK(ends.memory.loans() == 0);
}

TEST_CASE("a batch of datagrams waits in its scope, whatever is recalled meanwhile", "[channel]") {
  if (has_no_datagrams(open_test_device())) return;
  Datagrams ends;
  Destination const to_b = must(ends.a.destination(ends.b.address()));
  DatagramScope of_b{ends.b};
  std::vector<PendingDatagram> rooms;
  for (std::size_t i = 0; i < 8; ++i) rooms.push_back(must(of_b.post_receive(ends.room(i))));
  {
    DatagramScope scope{ends.a};
    auto own_room = must(scope.post_receive(ends.room(8)));
    auto batch = scope.batch();
    for (std::size_t i = 0; i < 8; ++i)
      static_cast<void>(must(batch.add_send(ends.memory.gather(0, i + 1), to_b)));
    must(scope.recall());
    CHECK(error_of(own_room.poll()) == Errc::stale_handle);
    CHECK(batch.size() == 8);
  }
  for (std::size_t i = 0; i < 8; ++i) CHECK(must(rooms[i].wait(within(5s))).bytes() == i + 1);
  must(of_b.finish());
  CHECK(ends.memory.loans() == 0);
  CHECK(ends.a.first_cause() == nullptr);
}
