// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: of a batch no loan ends before a completion says so, and none is lost when the device takes
// a part of it only. Method: the fake provider, which completes what the test says, and refuses a
// chain in the middle.
#include "channel/fake_end.hpp"
#include "support/catch.hpp"

#include <lend/lend.hpp>
#include <verbs/queue/adoption.hpp>

#include <algorithm>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t piece = 8;

FakeEnd odd_end(std::uint32_t depth = 128, FakeDevice device = {}) {
  Fake::get().reset(std::move(device));
  auto const domain = open_fake().value().allocate_protection_domain().value();
  auto prepared = channel_builder()
                      .protection_domain(domain)
                      .send_depth(depth)
                      .receive_depth(depth)
                      .inline_bytes(0)
                      .build();
  auto queue_pair =
      verbs::QueuePairAccess::connected(prepared.value().take_queue_pair(), nullptr);  // iWARP, too
  return {domain.allocate(64 * piece).value(),
          std::move(prepared).value().adopt(std::move(queue_pair)).value()};
}

RemoteRegion const remote{0x1000, 64 * piece, 7};

Write write_of(FakeEnd& end, std::size_t i) {
  return {end.memory.gather(i * piece, piece), remote.slice(i * piece, piece)};
}
/// The same bytes, in two elements.
Write write_in_two_of(FakeEnd& end, std::size_t i) {
  return {{end.memory.gather(i * piece, piece / 2),
           end.memory.gather(i * piece + piece / 2, piece / 2)},
          remote.slice(i * piece, piece)};
}
Read read_of(FakeEnd& end, std::size_t i) {
  return {end.memory.scatter(i * piece, piece), remote.slice(i * piece, piece)};
}

bool is_signaled(std::size_t i) {
  return (Fake::get().posted.at(i).request.send_flags & IBV_SEND_SIGNALED) != 0;
}

/// A completion of the i-th posted request, which stays where it is.
void complete(std::size_t i, ibv_wc_status status = IBV_WC_SUCCESS) {
  complete(Fake::get().posted.at(i), status);
}

/// Posts four writes, of which the device takes `taken`.
std::vector<PendingWork> post_four(FakeEnd& end, Batch& batch, std::size_t taken) {
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < 4; ++i) works.push_back(batch.add_write(write_of(end, i)).value());
  Fake::get().refuse_after = static_cast<int>(taken);
  Fake::get().post_result = EIO;
  Fake::get().refuses_once = true;
  CHECK(batch.post().error() == Errc::system_failed);
  CHECK(batch.size() == 0);
  return works;
}

}  // namespace

TEST_CASE("a batch is one chain whose last request alone has a completion, which ends all",
          "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < 10; ++i) {
    works.push_back(i % 2 == 0 ? batch.add_write(write_of(end, i)).value()
                               : batch.add_read(read_of(end, i)).value());
  }
  CHECK(Fake::get().posted.empty());
  CHECK(batch.post().has_value());
  CHECK(Fake::get().post_calls == 1);
  REQUIRE(Fake::get().posted.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(is_signaled(i) == (i == 9));

  CHECK(!works[0].poll().value());
  CHECK(end.memory.loans() == 10);
  CHECK(scope.outstanding() == 10);
  complete(9);
  CHECK(works[0].poll().value()->bytes == piece);
  CHECK(end.memory.loans() == 0);
  CHECK(scope.outstanding() == 0);
  for (std::size_t i = 1; i < 10; ++i) CHECK(works[i].poll().value().has_value());
  CHECK(scope.finish().has_value());
}

TEST_CASE("a quarter of the send queue at most is without completions", "[channel]") {
  auto end = odd_end(8);
  auto const elements = GENERATE(std::size_t{1}, std::size_t{2});
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  for (std::size_t i = 0; i < 7; ++i) {
    auto const work = elements == 1 ? write_of(end, i) : write_in_two_of(end, i);
    CHECK(batch.add_write(work).has_value());
  }
  CHECK(batch.post().has_value());
  for (std::size_t i = 0; i < 7; ++i) CHECK(is_signaled(i) == (i % 2 == 1 || i == 6));

  complete(1);
  CHECK(end.channel.first_cause() == nullptr);
  auto next = batch.add_write(write_of(end, 7)).value();
  CHECK(!next.poll().value());
  CHECK(end.memory.loans() == 5 * elements + 1);  // the first two are over
  for (std::size_t i : {3u, 5u, 6u, 7u}) complete(i);
  CHECK(next.wait().has_value());
  CHECK(scope.finish().has_value());
}

TEST_CASE("on iWARP each read has its own completion, for sends behind it end before it",
          "[channel]") {
  auto end = odd_end(128, {.transport = IBV_TRANSPORT_IWARP});
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  auto read = batch.add_read(read_of(end, 0)).value();
  auto first = batch.add_write(write_of(end, 1)).value();
  auto last = batch.add_write(write_of(end, 2)).value();
  auto const refused = batch.add_send(Send::only_immediate(1));
  CHECK(refused.error() == Errc::unsupported);
  CHECK(batch.post().has_value());
  CHECK(is_signaled(0));
  CHECK(!is_signaled(1));
  CHECK(is_signaled(2));

  complete(2);
  CHECK(last.poll().value().has_value());
  CHECK(first.poll().value().has_value());
  CHECK(!read.poll().value());
  CHECK(end.memory.loans() == 1);
  complete(0);
  CHECK(read.poll().value().has_value());
  CHECK(end.memory.loans() == 0);
}

TEST_CASE("a failure in the middle of a chain ends what was before it, and nothing behind it",
          "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < 5; ++i) works.push_back(batch.add_write(write_of(end, i)).value());
  CHECK(batch.post().has_value());

  complete(2, IBV_WC_REM_ACCESS_ERR);
  CHECK(works[0].poll().value().has_value());
  CHECK(works[1].poll().value().has_value());
  CHECK(works[2].poll().error().work()->status == WorkStatus::remote_access);
  CHECK(!works[3].poll().value());
  CHECK(end.memory.loans() == 2);
  complete(3, IBV_WC_WR_FLUSH_ERR);
  CHECK(works[3].poll().error().is_flush());
  CHECK(end.memory.loans() == 1);
  complete(4, IBV_WC_WR_FLUSH_ERR);
  CHECK(works[4].poll().error().is_flush());
  CHECK(end.memory.loans() == 0);
  CHECK(scope.finish().has_value());
}

TEST_CASE("of a chain that the device refuses from its first on, nothing was posted", "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  auto works = post_four(end, batch, 0);
  CHECK(Fake::get().posted.empty());
  CHECK(end.memory.loans() == 0);
  CHECK(scope.outstanding() == 0);
  for (auto& work : works) CHECK(work.poll().error() == Errc::system_failed);
  CHECK(end.channel.first_cause() == nullptr);

  auto work = batch.add_write(write_of(end, 0)).value();
  CHECK(batch.post().has_value());
  complete(0);
  CHECK(work.wait().has_value());
  CHECK(scope.finish().has_value());
}

TEST_CASE("a chain refused in the middle is closed behind what was posted", "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  auto works = post_four(end, batch, 2);
  // Two of ours, and a write of nothing that tells of their end.
  REQUIRE(Fake::get().posted.size() == 3);
  CHECK(!is_signaled(1));
  CHECK(is_signaled(2));
  CHECK(Fake::get().posted[2].elements.empty());
  CHECK(end.memory.loans() == 2);
  CHECK(scope.outstanding() == 2);
  CHECK(works[2].poll().error() == Errc::system_failed);
  CHECK(works[3].poll().error().message().find("earlier request of its batch") !=
        std::string::npos);
  CHECK(end.channel.first_cause() == nullptr);

  complete(2);
  CHECK(works[0].wait().has_value());
  CHECK(works[1].wait().has_value());
  CHECK(end.memory.loans() == 0);
  CHECK(scope.finish().has_value());
}

TEST_CASE("what closes a chain refused in the middle is told by nobody when it is flushed",
          "[channel]") {
  auto end = odd_end();
  {
    PollingScope scope{end.channel};
    auto batch = scope.batch();
    auto works = post_four(end, batch, 2);
    REQUIRE(Fake::get().posted.size() == 3);
    complete(0, IBV_WC_REM_ACCESS_ERR);
    complete(1, IBV_WC_WR_FLUSH_ERR);
    complete(2, IBV_WC_WR_FLUSH_ERR);
    for (auto& work : works) CHECK(work.wait().has_error());
    CHECK(scope.finish().has_value());
  }
  CHECK(end.channel.last_failures().empty());
  REQUIRE(end.channel.first_cause() != nullptr);
  CHECK(end.channel.first_cause()->work()->status == WorkStatus::remote_access);
  CHECK(end.channel.first_cause()->flushed_along() == 1);
}

TEST_CASE("dropped work of a batch that the device refused is told by the scope", "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  {
    auto batch = scope.batch();
    post_four(end, batch, 3).clear();
  }
  complete(3);
  auto const error = scope.finish().error();
  CHECK(error == Errc::system_failed);
  CHECK(error.drained().size() == 1);
  CHECK(error.describe().find("odd_batch_test.cpp") != std::string::npos);
  CHECK(end.memory.loans() == 0);
}

TEST_CASE("what a device refused of a batch stands among the failures where it was seen",
          "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  static_cast<void>(scope.post_write(write_of(end, 4)).value());
  std::vector<PendingWork> kept;
  {
    auto batch = scope.batch();
    kept = post_four(end, batch, 0);  // seen first, the other write after it
  }
  SECTION("told when its handles go") {
    kept.clear();
  }
  SECTION("kept back by its handles until the end") {}
  complete(0, IBV_WC_REM_ACCESS_ERR);

  auto const error = scope.finish().error();

  CHECK(error == Errc::system_failed);
  REQUIRE(error.drained().size() == 5);
  for (std::size_t i = 0; i < 4; ++i) CHECK(error.drained()[i] == Errc::system_failed);
  REQUIRE(error.drained()[4].work() != nullptr);
  CHECK(error.drained()[4].work()->status == WorkStatus::remote_access);
}

TEST_CASE("what a failed poll kept from being posted is told before what broke the channel later",
          "[channel]") {
  auto end = odd_end(1);
  PollingScope scope{end.channel};
  static_cast<void>(scope.post_write(write_of(end, 0)).value());
  {
    auto batch = scope.batch();
    CHECK(batch.add_write(write_of(end, 1), no_handle).has_value());
    Fake::get().poll_result = -EIO;  // as its end waits for room
  }
  Fake::get().poll_result = 0;
  complete(0, IBV_WC_REM_ACCESS_ERR);

  auto const error = scope.finish().error();

  CHECK(error == Errc::system_failed);
  CHECK(error.work() == nullptr);
  REQUIRE(error.drained().size() == 2);
  CHECK(error.drained()[0] == Errc::system_failed);
  CHECK(error.drained()[1] == Errc::work_failed);
  REQUIRE(end.channel.first_cause() != nullptr);
  CHECK(*end.channel.first_cause() == Errc::work_failed);
}

TEST_CASE("a failure hides behind nothing that was not posted since the channel was broken",
          "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  static_cast<void>(scope.post_write(write_of(end, 0)).value());
  auto receive = scope.post_receive(end.memory.scatter(piece, piece)).value();
  static_cast<void>(batch.add_write(write_of(end, 2)).value());
  complete(1, IBV_WC_WR_FLUSH_ERR);
  CHECK(receive.wait().error().is_flush());
  CHECK(batch.post().error() == Errc::channel_broken);
  complete(0, IBV_WC_REM_ACCESS_ERR);

  auto const error = scope.finish().error();

  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->status == WorkStatus::remote_access);
  CHECK(error.drained().size() == 2);
}

TEST_CASE("a chain that cannot be closed breaks the channel, and every byte comes back",
          "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  std::vector<PendingWork> works;
  for (std::size_t i = 0; i < 4; ++i) works.push_back(batch.add_write(write_of(end, i)).value());
  Fake::get().post_result = EIO;
  Fake::get().refuse_after = 2;
  SECTION("that refuses what would close it, too") {
    CHECK(batch.post().error() == Errc::system_failed);
    REQUIRE(Fake::get().posted.size() == 2);
    CHECK(end.memory.loans() == 2);
  }
  SECTION("of a device that does not say where it stopped") {
    Fake::get().silent_after = 0;
    CHECK(batch.post().error() == Errc::system_failed);
    CHECK(end.memory.loans() == 4);
  }
  SECTION("of a device that takes what would close it, and does not say so") {
    Fake::get().silent_after = 1;
    Fake::get().at_error = [] {
      for (std::size_t i = 0; i < 3; ++i) complete(i, IBV_WC_WR_FLUSH_ERR);
    };
    CHECK(batch.post().error() == Errc::system_failed);
    REQUIRE(Fake::get().posted.size() == 3);
    CHECK(end.memory.loans() == 2);
  }
  CHECK(end.channel.first_cause() != nullptr);
  for (auto& work : works) CHECK(work.wait().has_error());  // without a deadline
  CHECK(end.memory.loans() == 0);
  CHECK(scope.finish().has_value());
}

TEST_CASE("receives refused in the middle hold back the sends of their batch", "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  std::vector<PendingWork> works;
  works.push_back(batch.add_write(write_of(end, 0)).value());
  for (std::size_t i = 1; i < 4; ++i)
    works.push_back(batch.add_receive(end.memory.scatter(i * piece, piece)).value());
  Fake::get().refuse_after = 1;
  Fake::get().post_result = ENOMEM;

  CHECK(batch.post().error() == Errc::queue_full);

  CHECK(Fake::get().posted.size() == 1);
  CHECK(end.memory.loans() == 1);
  for (std::size_t i : {0u, 2u, 3u}) CHECK(works[i].poll().error() == Errc::queue_full);
  complete(0);
  CHECK(works[1].wait().has_value());
  Fake::get().post_result = 0;
  CHECK(scope.finish().has_value());
}

TEST_CASE("receives of a batch are posted before its sends", "[channel]") {
  auto end = odd_end();
  PollingScope scope{end.channel};
  auto batch = scope.batch();
  CHECK(batch.add_write(write_of(end, 0)).has_value());
  CHECK(batch.add_receive(end.memory.scatter(piece, piece)).has_value());
  CHECK(batch.add_receive(end.memory.scatter(2 * piece, piece)).has_value());
  CHECK(batch.post().has_value());
  REQUIRE(Fake::get().posted.size() == 3);
  CHECK(Fake::get().posted[0].is_receive);
  CHECK(Fake::get().posted[1].is_receive);
  CHECK(Fake::get().post_calls == 2);
  for (std::size_t i = 0; i < 3; ++i) complete(i);
  CHECK(scope.finish().has_value());
}
