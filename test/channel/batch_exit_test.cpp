// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a batch loses nothing of what goes wrong, and each way out of it ends with nothing on loan.
// Method: each of them in turn.
#include <optional>
#include <stdexcept>
#include <vector>

#include "channel/pieces.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

struct Oops : std::runtime_error {
  Oops() : std::runtime_error{"oops"} {}
};

}  // namespace

TEST_CASE("a batch posts what it has when it is destroyed", "[channel]") {
  Pieces it{2};
  PollingScope scope{it.ends.a};
  {
    auto batch = scope.batch();
    static_cast<void>(must(batch.add_write(it.write(0))));
    static_cast<void>(must(batch.add_write(it.write(1))));
  }
  CHECK(it.ends.a.send_depth() > 0);
  must(scope.finish());
  it.settle();
  CHECK(it.arrived(0) == word(0));
  CHECK(it.arrived(1) == word(1));
  CHECK(it.here.loans() == 0);
}

TEST_CASE("an exception gives back what a batch had not posted", "[channel]") {
  Pieces it{40};
  auto const body = [&](PollingScope& scope) -> Result<void> {
    auto batch = scope.batch();
    for (std::size_t i = 0; i < it.count; ++i)
      static_cast<void>(must(batch.add_write(it.write(i))));
    throw Oops{};
  };

  CHECK_THROWS_AS(static_cast<void>(it.ends.a.scope(body)), Oops);
  CHECK(it.here.loans() == 0);
  CHECK(it.ends.a.last_failures().empty());
  it.settle();
  CHECK(it.arrived(Batch::requests_max - 1) == word(Batch::requests_max - 1));  // was full
  CHECK(it.arrived(Batch::requests_max) != word(Batch::requests_max));
  must(it.ends.a.write(it.write(39)));
  it.settle();
  CHECK(it.arrived(39) == word(39));
}

TEST_CASE("work that an exception took back from its batch says so while its scope goes on",
          "[channel]") {
  Pieces it{2};
  PollingScope scope{it.ends.a};
  std::optional<PendingWork> kept;
  auto const fill = [&] {
    auto batch = scope.batch();
    kept = must(batch.add_write(it.write(0)));
    throw Oops{};
  };
  CHECK_THROWS_AS(fill(), Oops);

  auto const error = error_of(kept->wait());

  CHECK(error == Errc::stale_handle);
  CHECK(error.message() == "this work was dropped before it was posted, or its scope has ended");
  must(must(scope.post_write(it.write(1))).wait(within(10s)));
  must(scope.finish());
}

TEST_CASE("a batch gives back what it drops, and may be filled again", "[channel]") {
  Pieces it{2};
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  auto dropped = must(batch.add_write(it.write(0)));

  batch.drop();

  CHECK(batch.size() == 0);
  CHECK(it.here.loans() == 0);
  CHECK(error_of(dropped.wait(within(10s))) == Errc::stale_handle);
  auto posted = must(batch.add_write(it.write(1)));
  must(batch.post());
  must(posted.wait(within(10s)));
  must(scope.finish());
  it.settle();
  CHECK(it.arrived(0) != word(0));
  CHECK(it.arrived(1) == word(1));
}

TEST_CASE("of a batch whose middle fails, what is before succeeds and what is behind is flushed",
          "[channel]") {
  Pieces it{8};
  if (lacks(it.ends.context, &DeviceCapabilities::acknowledges)) return;
  PollingScope scope{it.ends.a};
  std::vector<PendingWork> works;
  auto batch = scope.batch();
  for (std::size_t i = 0; i < it.count; ++i) {
    if (i == 3)
      works.push_back(must(batch.add_write({it.from(i), nobody(piece)})));
    else
      works.push_back(must(batch.add_write(it.write(i))));
  }

  SECTION("asked from the front") {
    must(batch.post());
    for (std::size_t i = 0; i < it.count; ++i) {
      if (i < 3) {
        CHECK(must(works[i].wait(within(10s))).bytes == piece);
        continue;
      }
      auto const error = error_of(works[i].wait(within(10s)));
      CHECK(error == Errc::work_failed);
      REQUIRE(error.work() != nullptr);
      CHECK((error.work()->status == WorkStatus::flushed) == (i != 3));
    }
    CHECK(error_of(batch.add_write(it.write(0))) == Errc::channel_broken);
    must(scope.finish());
  }
  SECTION("dropped") {
    must(batch.post());
    works.clear();
    auto const error = error_of(scope.finish());
    REQUIRE(error.work() != nullptr);
    CHECK(error.work()->status == WorkStatus::remote_access);
    REQUIRE(error.drained().size() == 5);
    CHECK(!error.drained().front().is_flush());
    for (std::size_t i = 1; i < 5; ++i) CHECK(error.drained()[i].is_flush());
  }
  SECTION("added to, behind the failure") {
    must(batch.post());
    CHECK(error_of(works[3].wait(within(10s))) == Errc::work_failed);
    auto other = scope.batch();
    CHECK(error_of(other.add_write(it.write(0))) == Errc::channel_broken);
    must(other.post());  // nothing
  }
  CHECK(it.here.loans() == (scope.outstanding() == 0 ? 0 : it.here.loans()));
  works.clear();
  static_cast<void>(scope.finish());
  CHECK(it.here.loans() == 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(it.arrived(i) == word(i));
  for (std::size_t i = 4; i < it.count; ++i) CHECK(it.arrived(i) != word(i));
}

TEST_CASE("a batch whose channel broke before it was posted fails as a whole", "[channel]") {
  Pieces it{4};
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  auto kept = must(batch.add_write(it.write(1)));
  static_cast<void>(must(batch.add_write(it.write(2))));  // nobody keeps it
  auto extra = must(it.ends.domain.allocate(64));
  auto failing = post_failing(it.ends, scope, extra);
  CHECK(error_of(failing.wait(within(10s))) == Errc::work_failed);

  CHECK(error_of(batch.post()) == Errc::channel_broken);

  CHECK(batch.size() == 0);
  CHECK(it.here.loans() == 0);
  auto const why = error_of(kept.wait());
  CHECK(why == Errc::channel_broken);
  CHECK(why.cause() != nullptr);
  auto const end = error_of(scope.finish());
  CHECK(end == Errc::channel_broken);
  CHECK(end.drained().size() == 1);
}

TEST_CASE("a batch that finds no room before its deadline stays as it is", "[channel]") {
  Pieces it{6, options_with_depth(4)};
  if (lacks(it.ends.context, &DeviceCapabilities::waits_for_receives)) return;
  PollingScope sending{it.ends.a}, receiving{it.ends.b};
  for (std::size_t i = 0; i < 4; ++i) static_cast<void>(must(sending.post_send(it.from(i))));
  auto batch = sending.batch();
  auto fifth = must(batch.add_send(it.from(4)));
  auto sixth = must(batch.add_send(it.from(5)));

  CHECK(error_of(batch.post(within(20ms))) == Errc::timed_out);
  CHECK(error_of(fifth.wait(within(20ms))) == Errc::timed_out);
  CHECK(!must(sixth.poll()));
  CHECK(batch.size() == 2);
  CHECK(it.here.loans() == 6);

  std::vector<PendingWork> arrivals;
  for (std::size_t i = 0; i < 4; ++i) arrivals.push_back(must(receiving.post_receive(it.into(i))));
  for (auto& arrival : arrivals) must(arrival.wait(within(10s)));
  for (std::size_t i = 4; i < 6; ++i) arrivals.push_back(must(receiving.post_receive(it.into(i))));
  must(batch.post(within(10s)));
  must(sixth.wait(within(10s)));
  must(arrivals.back().wait(within(10s)));
  CHECK(it.arrived(5) == word(5));
  must(sending.finish());
}

TEST_CASE("a batch outlives its channel, with its bytes back and its handles stale", "[channel]") {
  Pieces it{2};
  std::optional<Channel> channel{std::move(it.ends.a)};
  PollingScope scope{*channel};
  auto batch = scope.batch();
  auto work = must(batch.add_write(it.write(0)));
  auto target = must(it.ends.domain.allocate(piece));
  static_cast<void>(must(batch.add_receive(target.scatter(0, piece))));

  channel.reset();

  CHECK(it.here.loans() == 0);
  CHECK(target.loans() == 0);
  CHECK(error_of(batch.add_write(it.write(1))) == Errc::stale_handle);
  CHECK(error_of(batch.post()) == Errc::stale_handle);
  CHECK(error_of(work.wait()) == Errc::stale_handle);
}

TEST_CASE("a manual scope counts work of a batch that nobody polled", "[channel]") {
  Pieces it{3};
  auto const error = error_of(it.ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
    auto batch = scope.batch();
    for (std::size_t i = 0; i < 3; ++i) {
      LEND_TRYV(batch.add_write(it.write(i)));
    }
    return success();
  }));
  CHECK(error == Errc::unpolled_work);
  CHECK(error.message().find("3 ") != std::string::npos);
  it.settle();
  CHECK(it.arrived(2) == word(2));
}
