// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a loan begins at the post, is refused where it would race, and ends at the completion.
#include "support/two_ends.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <utility>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("bytes are on loan from the post until the completion is seen, not longer", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(128));
  PollingScope scope{ends.b};

  auto work = must(scope.post_receive(memory.scatter(0, 64)));
  CHECK(memory.loans() == 1);
  CHECK(error_of(memory.bytes(63, 1)) == Errc::already_borrowed);
  CHECK(memory.bytes(64, 64).has_value());

  must(ends.a.send(memory.gather(64, 8)));
  must(work.wait(within(5s)));
  CHECK(memory.loans() == 0);
  CHECK(memory.mutable_bytes(0, 64).has_value());
  static_cast<void>(must(scope.post_receive(memory.scatter(0, 64))));  // again, in the same scope
  must(ends.a.send(memory.gather(64, 8)));
  must(scope.finish());
}

TEST_CASE("a loan that would race is refused with both ranges, operations and lines", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(128));
  PollingScope scope{ends.b};
  auto const first_line = __LINE__ + 1;
  auto work = must(scope.post_receive(memory.scatter(0, 64)));
  auto const second_line = __LINE__ + 1;
  auto const error = error_of(ends.a.send(memory.gather(32, 64)));

  CHECK(error == Errc::already_borrowed);
  auto const text = error.message();
  CAPTURE(text);
  for (auto const& words : {std::string{"[0, 64)"}, std::string{"[32, 96)"}, std::string{"receive"},
                            std::string{"send"}, std::string{"loan_test.cpp"},
                            ":" + std::to_string(first_line), ":" + std::to_string(second_line)})
    CHECK(text.find(words) != std::string::npos);
  CHECK(memory.loans() == 1);
  CHECK(ends.a.first_cause() == nullptr);

  must(ends.a.send(memory.gather(64, 8)));
  must(work.wait(within(5s)));
  must(scope.finish());
}

TEST_CASE("the pieces of one scatter list must not overlap each other", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(128));
  PollingScope scope{ends.b};

  CHECK(error_of(scope.post_receive({memory.scatter(0, 16), memory.scatter(8, 16)})) ==
        Errc::already_borrowed);
  CHECK(memory.loans() == 0);
  must(scope.finish());
}

TEST_CASE("bytes may be sent twice at once and read meanwhile", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(128));
  PollingScope sending{ends.a}, receiving{ends.b};
  for (std::size_t i = 0; i < 2; ++i)
    static_cast<void>(must(receiving.post_receive(memory.scatter(64 + 8 * i, 8))));
  auto one = must(sending.post_send(memory.gather(0, 8)));
  auto two = must(sending.post_send(memory.gather(4, 8)));

  CHECK(memory.loans() == 4);
  CHECK(memory.bytes(0, 12).has_value());
  CHECK(error_of(memory.mutable_bytes(0, 1)) == Errc::already_borrowed);

  must(sending.finish());
  must(receiving.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("two threads lend one region through two channels", "[channel]") {
  constexpr std::size_t messages = 300;
  auto ends = two_ends();
  if (lacks(ends.context, &DeviceCapabilities::waits_for_receives)) return;
  auto memory = must(ends.domain.allocate(128));
  std::string failure;
  std::thread receiver{[&] {
    PollingScope scope{ends.b};
    for (std::size_t i = 0; i < messages && failure.empty(); ++i) {
      auto work = scope.post_receive(memory.scatter(64 + i % 8 * 8, 8));
      auto const received = work ? work.value().wait(within(20s)) : work.error();
      if (!received) failure = received.error().message();
    }
  }};
  std::size_t refused = 0;
  for (std::size_t i = 0; i < messages; ++i) {
    must(ends.a.send(memory.gather(i % 8 * 8, 8), within(20s)));
    if (!memory.bytes(64, 64).has_value()) ++refused;
  }
  receiver.join();

  CHECK(failure.empty());
  CAPTURE(refused);  // as the threads happened to run
  CHECK(memory.loans() == 0);
  CHECK(memory.mutable_bytes().has_value());
}

TEST_CASE("chunks go out in turn, each on loan by itself", "[channel]") {
  auto ends = two_ends();
  auto source = must(ends.domain.allocate(1000));
  auto target = must(ends.domain.allocate(1000));
  for (auto const piece : source.chunks(300))
    std::ranges::fill(must(piece.mutable_bytes()), std::byte(piece.index() + 1));
  PollingScope sending{ends.a}, receiving{ends.b};
  for (auto const piece : target.chunks(300))
    static_cast<void>(must(receiving.post_receive(piece.scatter())));
  CHECK(target.loans() == 4);
  CHECK(error_of(receiving.post_receive(target.chunks(250)[3].scatter())) ==
        Errc::already_borrowed);

  for (auto const piece : std::as_const(source).chunks(300))
    static_cast<void>(must(sending.post_send(piece.gather())));
  must(sending.finish());
  must(receiving.finish());

  CHECK(std::ranges::equal(must(target.bytes()), must(source.bytes())));
  CHECK(error_of(ends.a.send(source.chunks(300)[4].gather())) == Errc::invalid_argument);
}

TEST_CASE("an owned region destroyed on loan lives on until its loan ends", "[channel]") {
  auto ends = two_ends();
  auto source = must(ends.domain.allocate(64));
  PollingScope scope{ends.b};
  auto work = [&] {
    auto target = must(ends.domain.allocate(64));
    return must(scope.post_receive(target.scatter(0, 64)));
  }();

  must(ends.a.send(source.gather(0, 64)));
  CHECK(must(work.wait(within(5s))).bytes == 64);
  must(scope.finish());
}

TEST_CASE("two registrations of the same bytes do not know of each other's loans", "[channel]") {
  std::array<std::byte, 64> bytes{};
  auto ends = two_ends();
  PollingScope scope{ends.a};
  scope.drain_within(0s);
  auto first = must(ends.domain.register_memory(bytes));
  auto second = must(ends.domain.register_memory(std::span{bytes}.subspan(8)));
  static_cast<void>(must(scope.post_receive(first.scatter())));

  CHECK(second.mutable_bytes().has_value());
  CHECK(second.loans() == 0);
  static_cast<void>(must(scope.post_receive(second.scatter())));
  CHECK(error_of(first.bytes()) == Errc::already_borrowed);

  CHECK(error_of(scope.finish()) == Errc::timed_out);
  CHECK(first.loans() + second.loans() == 0);
}

TEST_CASE("a region whose ledger is disabled is not watched", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(128));
  must(memory.unsafe_disable_ledger());
  PollingScope scope{ends.b};

  // SAFETY: only the first receive is written to before the second is reused.
  auto one = must(scope.post_receive(memory.scatter(0, 64)));
  auto two = must(scope.post_receive(memory.scatter(0, 64)));
  CHECK(memory.loans() == 0);
  CHECK(error_of(scope.post_receive(memory.scatter(64, 65))) == Errc::invalid_argument);
  must(ends.a.send(memory.gather(64, 8)));
  must(ends.a.send(memory.gather(64, 8)));
  must(scope.finish());
}

TEST_CASE("the ledger of a region on loan cannot be disabled", "[channel]") {
  auto ends = two_ends();
  auto memory = must(ends.domain.allocate(128));
  PollingScope scope{ends.b};
  auto work = must(scope.post_receive(memory.scatter(0, 64)));

  CHECK(error_of(memory.unsafe_disable_ledger()) == Errc::already_borrowed);
  must(ends.a.send(memory.gather(64, 8)));
  must(scope.finish());
}
