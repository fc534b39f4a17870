// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: ranks that join by a desk are one group, or each learns why not. Method: ranks as threads,
// with a device each; rank 0 serves the desk.
#include <unistd.h>

#include <array>
#include <atomic>
#include <list>

#include "group/ranks.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

Seat seat_of(std::string const& desk, std::uint32_t rank, std::uint32_t size) {
  return {.rank = rank, .size = size, .desk = desk};
}

std::string free_port() {
  return must(Listener::open("127.0.0.1:0")).address();
}

/// Joins, and then adds up the ranks with the others.
class Joining {
 public:
  explicit Joining(Seat const& seat, GroupOptions const& options = {},
                   Deadline deadline = within(60s))
      : domain_{must(open_test_device().allocate_protection_domain())}, thread_{[=, this] {
          sum_.emplace(join(seat, options, deadline));
        }} {}
  Result<std::uint32_t> const& rank_sum() {
    if (thread_.joinable()) thread_.join();
    return *sum_;
  }

 private:
  Result<std::uint32_t> join(Seat const& seat, GroupOptions const& options, Deadline deadline) {
    LEND_TRY(group, Group::join(domain_, seat, deadline, here(options)));
    LEND_TRYV(group.barrier(within(60s)));
    return group.allreduce(sum<std::uint32_t>, group.rank(), within(60s));
  }
  ProtectionDomain domain_;
  std::optional<Result<std::uint32_t>> sum_{};
  std::jthread thread_;
};

}  // namespace

TEST_CASE("ranks that join at rank 0's desk are one group", "[group]") {
  std::uint32_t const size = GENERATE(1u, 2u, 3u, 8u);
  if (connects_slowly(size)) return;
  auto const desk = GENERATE(desk_name(), free_port());
  CAPTURE(size, desk);

  std::list<Joining> ranks;
  for (std::uint32_t rank = size; rank-- > 0;) ranks.emplace_back(seat_of(desk, rank, size));

  for (auto& rank : ranks) CHECK(must(rank.rank_sum()) == size * (size - 1) / 2);
}

TEST_CASE("the records of ranks that joined at a desk can be read", "[group]") {
  if (connects_slowly()) return;
  auto const desk = desk_name();
  std::atomic<bool> is_asked{false};
  std::array<std::optional<Error>, 2> failed{};
  std::vector<std::uint32_t> missing;
  {
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&, rank, domain = must(open_test_device().allocate_protection_domain())] {
        auto const run = [&]() -> Result<void> {
          LEND_TRY(group, Group::join(domain, seat_of(desk, rank, 2), within(60s)));
          if (rank == 1) {
            is_asked.wait(false);
          } else {
            auto const late = error_naming(1, group, barrier_of(group));
            missing.assign(group.missing().begin(), group.missing().end());
            is_asked = true;
            is_asked.notify_one();
            if (late != Errc::timed_out) return late;
          }
          return group.barrier(within(60s));
        };
        auto const done = run();
        if (!done) failed[rank] = done.error();
        is_asked = true;
        is_asked.notify_one();
      });
  }
  for (auto const& each : failed) CHECK(!each.has_value());
  CHECK(missing == std::vector{1u});
}

TEST_CASE("a rank with other options than the first that sat is rejected with both values",
          "[group]") {
  if (connects_slowly()) return;
  auto const desk = desk_name();
  GroupOptions other;
  other.message_bytes = 8192;
  Joining one{seat_of(desk, 0, 2), {}, within(2s)};
  Joining odd{seat_of(desk, 1, 2), other, within(2s)};

  auto const text = error_of(one.rank_sum()).message() + error_of(odd.rank_sum()).message();

  CHECK_THAT(text, Catch::Contains("has messages of 8192 bytes, the others of 4096") ||
                       Catch::Contains("has messages of 4096 bytes, the others of 8192"));
}

TEST_CASE("a group whose rank is missing at the deadline names it, and leaves nothing", "[group]") {
  auto const desk = desk_name();
  Joining first{seat_of(desk, 0, 3), {}, within(2s)};
  Joining second{seat_of(desk, 2, 3), {}, within(2s)};

  for (auto* const rank : {&first, &second}) {
    auto const error = error_of(rank->rank_sum());
    CHECK(error == Errc::timed_out);
    CHECK_THAT(error.message(), Catch::Contains("rank 1 has not come"));
  }
}

TEST_CASE("a seat that cannot be is refused", "[group]") {
  Context const context = open_test_device();
  ProtectionDomain const domain = must(context.allocate_protection_domain());
  auto const why = [&domain](Seat const& seat) {
    auto const error = error_of(Group::join(domain, seat, within(1s)));
    CHECK(error == Errc::invalid_argument);
    return error.message();
  };

  CHECK_THAT(why(seat_of("unix:@x", 2, 2)), Catch::Contains("no rank 2 among 2"));
  CHECK_THAT(why(seat_of("unix:@x", 0, 0)), Catch::Contains("1 to 65536"));
  CHECK_THAT(why(seat_of("", 0, 2)), Catch::Contains("no desk is named"));
  CHECK_THAT(why(seat_of("localhost:0", 0, 2)), Catch::Contains("port 0"));
}
