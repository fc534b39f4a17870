// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: values that do not lie together are written and read as one operation: each arrives where
// its part says, one handle tells the end, and what is wrong is refused before anything is posted.
// Method: both ends here; random blocks and picked values against lists of their values.
#include "support/seed.hpp"
#include "support/two_ends.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t size = 256;

struct Stage {
  explicit Stage(ChannelOptions const& options = {}) : ends{two_ends(options)} {
    std::iota(here.begin(), here.end(), 1);
    std::iota(there.begin(), there.end(), 1001);
  }
  TwoEnds ends;
  TypedRegion<std::uint64_t> own = must(ends.domain.allocate<std::uint64_t>(size));
  TypedRegion<std::uint64_t> peers = must(ends.domain.allocate<std::uint64_t>(size));
  // SAFETY: both ends are this thread.
  Exposure exposure = must(peers.region().unsafe_expose(RemoteAccess::read_write));
  RemoteSpan<std::uint64_t> remote = must(RemoteSpan<std::uint64_t>::of(exposure.remote()));
  std::span<std::uint64_t> here = must(own.mutable_values());
  std::span<std::uint64_t> there{reinterpret_cast<std::uint64_t*>(exposure.remote().address()),
                                 size};
};

std::vector<std::size_t> values_of(Blocks const& blocks) {
  std::vector<std::size_t> values;
  for (std::size_t block = 0; block < blocks.count; ++block)
    for (std::size_t i = 0; i < blocks.length; ++i)
      values.push_back(blocks.first + block * blocks.stride + i);
  return values;
}

/// `count` values in blocks that do not overlap.
Blocks blocks_of(std::size_t count, std::mt19937& random) {
  std::size_t length = 1 + random() % 8;
  while (count % length != 0) --length;
  return {.first = random() % 8,
          .length = length,
          .count = count / length,
          .stride = length + random() % 2};
}

std::vector<std::uint32_t> picked_of(std::size_t count, std::mt19937& random) {
  std::vector<std::uint32_t> all(size);
  std::iota(all.begin(), all.end(), 0);
  std::ranges::shuffle(all, random);
  all.resize(count);
  return all;
}

constexpr Blocks column{.length = 1, .count = 16, .stride = 16};

}  // namespace

TEST_CASE("parts are written and read as lists of their values say", "[channel]") {
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  std::mt19937 random{seed};
  Stage stage{options_with_depth(16)};
  for (int i = 0; i < 40; ++i) {
    std::size_t const count = 1 + random() % 100;
    auto const at_peer = blocks_of(count, random);
    auto const blocks = blocks_of(count, random);
    auto const picked = picked_of(count, random);
    bool const are_picked = i % 2 == 0;
    std::vector<std::size_t> values{picked.begin(), picked.end()};
    if (!are_picked) values = values_of(blocks);
    auto const remote_values = values_of(at_peer);
    std::vector<std::uint64_t> expected_here(stage.here.begin(), stage.here.end());
    std::vector<std::uint64_t> expected_there(stage.there.begin(), stage.there.end());
    CAPTURE(i, count, at_peer.length, blocks.length);

    PollingScope scope{stage.ends.a};
    auto const remote = stage.remote.parts(at_peer);
    if (i % 4 < 2) {
      for (std::size_t k = 0; k < count; ++k)
        expected_there[remote_values[k]] = expected_here[values[k]];
      auto work = must(are_picked ? post_write_parts(scope, stage.own.gather(picked), remote)
                                  : post_write_parts(scope, stage.own.gather(blocks), remote));
      must(work.wait(within(10s)));
      // A write is over before the peer has it where nobody acknowledges: a read comes behind it.
      must(stage.ends.a.read({stage.own.scatter(0, 1), stage.remote[0]}, within(10s)));
      expected_here[0] = expected_there[0];
    } else {
      auto posted = are_picked ? post_read_parts(scope, stage.own.scatter(picked), remote)
                               : post_read_parts(scope, stage.own.scatter(blocks), remote);
      if (posted.has_error()) {
        REQUIRE_FALSE(stage.ends.context.capabilities().acknowledges);  // as iWARP
        REQUIRE(posted.error() == Errc::unsupported);
        continue;
      }
      for (std::size_t k = 0; k < count; ++k)
        expected_here[values[k]] = expected_there[remote_values[k]];
      must(std::move(posted).value().wait(within(10s)));
    }
    CHECK(stage.own.region().loans() == 0);
    REQUIRE(std::ranges::equal(stage.here, expected_here));
    REQUIRE(std::ranges::equal(stage.there, expected_there));
    must(scope.finish());
  }
}

TEST_CASE("parts that are wrong are refused before anything is posted", "[channel]") {
  Stage stage;
  PollingScope scope{stage.ends.a};
  auto const check_refused = [&](Result<PendingWork> const& answer, std::string_view word) {
    auto const error = error_of(answer);
    CAPTURE(error.message());
    CHECK(error == Errc::invalid_argument);
    CHECK(error.message().find(word) != std::string::npos);
    CHECK(scope.outstanding() == 0);
    CHECK(stage.own.region().loans() == 0);
  };
  auto const all = stage.remote.parts(column);
  check_refused(post_write_parts(scope, stage.own.gather(Blocks{.length = 15}), all),
                "120 bytes here");
  check_refused(post_write_parts(scope, stage.own.gather(Blocks{.first = 241, .length = 16}), all),
                "256 values");
  std::vector<std::uint32_t> const picked{3, size};
  check_refused(post_write_parts(scope, stage.own.gather(picked), all), "value 256");
  check_refused(post_write_parts(scope, stage.own.gather(column),
                                 stage.remote.parts({.length = 2, .count = 8, .stride = 1})),
                "overlap");
  check_refused(
      post_read_parts(scope, stage.own.scatter(Blocks{.length = 2, .count = 8, .stride = 1}), all),
      "overlap");
  check_refused(
      post_write_parts(scope, stage.own.gather(column), stage.remote.subspan(0, 240).parts(column)),
      "240 values");
  check_refused(post_write_parts(scope, stage.own.gather(column),
                                 stage.remote.subspan(250, 16).parts(column)),
                "peer's values");
  must(scope.finish());
  CHECK(error_of(post_write_parts(scope, stage.own.gather(column), all)) == Errc::stale_handle);
}

TEST_CASE("a block that is on loan is refused, and the rest goes back", "[channel]") {
  Stage stage;
  PollingScope scope{stage.ends.a};
  auto const lent = must(scope.post_receive(stage.own.scatter(15 * 16, 1)));
  auto const refused = error_of(
      post_write_parts(scope, stage.own.gather(column), stage.remote.parts({.length = 16})));
  CHECK(refused == Errc::already_borrowed);
  must(stage.ends.b.send(stage.peers.gather(0, 1), within(10s)));
  must(scope.finish());
  CHECK(stage.own.region().loans() == 0);
}

TEST_CASE("a manual scope asks for the one handle of parts", "[channel]") {
  Stage stage;
  bool const is_polled = GENERATE(true, false);
  auto const result = stage.ends.a.manual_scope([&](PollingScope& scope) -> Result<void> {
    LEND_TRY(work, post_write_parts(scope, stage.own.gather(Blocks{.length = 16}),
                                    stage.remote.parts(column), within(10s)));
    return is_polled ? without_value(work.wait(within(10s))) : success();
  });
  if (is_polled) return must(result);
  auto const error = error_of(result);
  CHECK(error == Errc::unpolled_work);
  CHECK(error.message().find("1 posted operation was") != std::string::npos);
}

TEST_CASE("parts of an exposure that ended fail by their handle", "[channel]") {
  Stage stage;
  auto const remote = stage.remote.parts(column);
  must(stage.exposure.finish());
  PollingScope scope{stage.ends.a};
  auto work = post_write_parts(scope, stage.own.gather(Blocks{.length = 16}), remote, within(10s));
  bool has_failed = work.has_error() || work.value().wait(within(10s)).has_error();
  // Where nobody acknowledges, the connection ends some writes later.
  for (int i = 0; i < 1000 && !has_failed; ++i)
    has_failed =
        stage.ends.a.write({stage.own.gather(0, 1), stage.remote[0]}, within(10s)).has_error();
  CHECK(has_failed);
  auto const finished = scope.finish();
  CHECK((finished.has_error() || !stage.ends.context.capabilities().acknowledges));
  CHECK(stage.own.region().loans() == 0);
}

TEST_CASE("parts without values are one operation without bytes", "[channel]") {
  Stage stage;
  PollingScope scope{stage.ends.a};
  auto work =
      must(post_write_parts(scope, stage.own.gather(Picked{}), stage.remote.parts({.rows = 0})));
  CHECK(must(work.wait(within(10s))).bytes == 0);
  must(scope.finish());
}
