// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: work of a batch without handles keeps each promise of work with handles but the handle.
// Method: two ends; what arrives is read, and what is on loan is counted.
#include <vector>

#include "channel/pieces.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

ChannelOptions not_inline() {
  ChannelOptions options;
  options.queue_pair.inline_bytes = 0;
  return options;
}

}  // namespace

TEST_CASE("a handle at the end of a batch tells that those before it are over", "[channel]") {
  Pieces it{20, not_inline()};
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  for (std::size_t i = 0; i + 1 < it.count; ++i) must(batch.add_write(it.write(i), no_handle));
  auto last = must(batch.add_write(it.write(it.count - 1)));
  CHECK(batch.size() == it.count);
  CHECK(it.here.loans() == it.count);
  CHECK(error_of(it.here.mutable_bytes(0, piece)) == Errc::already_borrowed);

  must(batch.post());
  CHECK(batch.size() == 0);
  CHECK(it.here.loans() == scope.outstanding());
  must(last.wait(within(10s)));

  CHECK(it.here.loans() == 0);
  CHECK(scope.outstanding() == 0);
  must(it.here.mutable_bytes(0, it.count * piece));
  must(scope.finish());
  it.settle();
  for (std::size_t i = 0; i < it.count; ++i) CHECK(it.arrived(i) == word(i));
}

TEST_CASE("a scope waits for work of each kind that has no handle", "[channel]") {
  Pieces it{6, not_inline()};
  auto back = must(it.ends.domain.allocate(it.count * piece));
  PollingScope sending{it.ends.a}, receiving{it.ends.b};
  auto receives = receiving.batch();
  auto batch = sending.batch();
  for (std::size_t i = 0; i < it.count; ++i) {
    must(receives.add_receive(it.into(i), no_handle));
    must(batch.add_send(it.from(i), no_handle));
    must(batch.add_write(it.write(i), no_handle));
    must(batch.add_read({back.scatter(i * piece, piece), it.slice(i)}, no_handle));
  }
  CHECK(it.there.loans() == it.count);
  CHECK(back.loans() == it.count);
  must(receives.post());
  must(batch.post());

  must(sending.finish());
  must(receiving.finish());
  CHECK(it.here.loans() + it.there.loans() + back.loans() == 0);
  for (std::size_t i = 0; i < it.count; ++i) {
    CHECK(it.arrived(i) == word(i));
    CHECK(text_at(back, i * piece, piece) == word(i));
  }
}

TEST_CASE("work without a handle holds no slot once it is over", "[channel]") {
  Deadline const until = GENERATE(true, false) ? within(10s) : Deadline::never();
  Pieces it{300, options_with_depth(4)};  // of which a channel of this depth has 16
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  for (std::size_t i = 0; i < it.count; ++i) must(batch.add_write(it.write(i), no_handle, until));
  must(batch.post(until));
  must(scope.finish());
  it.settle();
  for (std::size_t i = 0; i < it.count; ++i) CHECK(it.arrived(i) == word(i));
}

TEST_CASE("the scope reports the failures of work without handles, in their order", "[channel]") {
  Pieces it{8};
  if (lacks(it.ends.context, &DeviceCapabilities::acknowledges)) return;
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  unsigned line = 0;
  for (std::size_t i = 0; i < it.count; ++i) {
    if (i == 3)
      must(batch.add_write({it.from(i), nobody(piece)}, no_handle)), line = __LINE__;
    else
      must(batch.add_write(it.write(i), no_handle));
  }
  must(batch.post());

  auto const error = error_of(scope.finish());

  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->status == WorkStatus::remote_access);
  CHECK(error.work()->posted_at.line == line);
  REQUIRE(error.drained().size() == 5);
  for (std::size_t i = 1; i < 5; ++i) CHECK(error.drained()[i].is_flush());
  CHECK(it.here.loans() == 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(it.arrived(i) == word(i));
}

TEST_CASE("what is refused without a handle says why, and nothing was added", "[channel]") {
  Pieces it{4};
  auto target = must(it.ends.domain.allocate(piece));
  PollingScope scope{it.ends.a};
  auto batch = scope.batch();
  must(batch.add_read({target.scatter(0, piece), it.slice(0)}, no_handle));

  auto const error = error_of(batch.add_send(target.gather(0, piece), no_handle));
  CHECK(error == Errc::already_borrowed);
  CHECK(error.message().find("batch_unheld_test.cpp") != std::string::npos);
  CHECK(error_of(batch.add_write({it.here.gather(4 * piece, piece), it.slice(1)}, no_handle)) ==
        Errc::invalid_argument);
  CHECK(error_of(batch.add_write({it.from(1), it.remote.slice(0, 2 * piece)}, no_handle)) ==
        Errc::invalid_argument);
  CHECK(batch.size() == 1);
  CHECK(target.loans() == 1);
  CHECK(it.here.loans() == 0);
  must(batch.post());
  must(scope.finish());
  CHECK(error_of(batch.add_write(it.write(0), no_handle)) == Errc::stale_handle);
}

TEST_CASE("several elements, and a batch that goes both with handles and without", "[channel]") {
  Pieces it{9, not_inline()};
  PollingScope scope{it.ends.a};
  std::vector<PendingWork> works;
  auto batch = scope.batch();
  for (std::size_t i = 0; i < it.count; i += 3) {
    std::vector<GatherElement> const two{it.from(i), it.from(i + 1)};
    must(batch.add_write({std::span{two}, it.remote.slice(i * piece, 2 * piece)}, no_handle));
    works.push_back(must(batch.add_write(it.write(i + 2))));
  }
  CHECK(it.here.loans() == it.count);
  must(batch.post());
  for (auto& work : works) CHECK(must(work.wait(within(10s))).bytes == piece);
  CHECK(it.here.loans() == 0);
  must(scope.finish());
  it.settle();
  for (std::size_t i = 0; i < it.count; ++i) CHECK(it.arrived(i) == word(i));
}

TEST_CASE("work without a handle is unpolled to a manual scope", "[channel]") {
  Pieces it{2};
  auto const error = error_of(it.ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
    auto batch = scope.batch();
    LEND_TRYV(batch.add_write(it.write(0), no_handle));
    LEND_TRY(last, batch.add_write(it.write(1)));
    LEND_TRYV(batch.post());
    LEND_TRYV(last.wait(within(10s)));
    return success();
  }));
  CHECK(error == Errc::unpolled_work);
}
