// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: an exchange that cannot go on says why, and takes what came. Method: two ranks as threads,
// one of which does by hand what an exchange does, and does it wrong.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"

#include <lend/group.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace exchange_ends {

/// Every eighth value, from `first` on.
template <class Element>
std::vector<Element> column(Values& values, std::size_t first) {
  std::vector<Element> elements;
  for (std::size_t i = 0; i < 8; ++i)
    if constexpr (std::same_as<Element, GatherElement>)
      elements.push_back(values.gather(8 * i + first, 1));
    else
      elements.push_back(values.scatter(8 * i + first, 1));
  return elements;
}

constexpr std::size_t note = 9;  // values of one; digests come first

/// As an exchange whose rows fit those of `other`, and that writes none. Uses two notes from `at`.
inline void answer_note(PeerScope& scope, std::uint32_t other, Values& values, std::size_t at) {
  auto const came =
      taken(scope.post_receive(other, values.scatter(at, note))).wait(within(patience));
  expect(came.has_value() && came.value().bytes == note * sizeof(std::int64_t), "no note");
  auto const notes = taken(values.mutable_values());
  for (std::size_t i = 0; i < note; ++i) notes[at + note + i] = i < 4 ? notes[at + (i + 2) % 4] : 0;
  expect(taken(scope.post_send(other, values.gather(at + note, note)))
             .wait(within(patience))
             .has_value(),
         "no answer");
}

/// On each of two ranks, which are each other's peers.
template <class Body>
void on_two(std::size_t count, Body const& body, PeerOptions const& options = {}) {
  ScopeRanks ranks{2};
  on_each_with_values(ranks, count, [&](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience), options));
    body(group, peers, values, 1 - group.rank());
  });
}

template <class T>
bool has(Result<T> const& result, Errc code) {
  return result.has_error() && result.error() == code;
}

}  // namespace exchange_ends

TEST_CASE("the end of an exchange says which row was not sent", "[group]") {
  exchange_ends::on_two(
      64, [](Group& group, Peers& peers, Values& values, [[maybe_unused]] std::uint32_t other) {
        auto lane = taken(Peers::connect_all(group, within(patience)));
        Exchange exchange{peers};
        PeerScope aside{lane};
        if (group.rank() == 0) {
          static_cast<void>(taken(aside.post_receive(1, values.scatter(0, 1))));
          exchange.send(1, exchange_ends::column<GatherElement>(values, 0));
          expect(exchange_ends::has(exchange.start(within(patience)), Errc::already_borrowed),
                 "it was sent");
          expect(exchange_ends::has(exchange.finish(), Errc::already_borrowed), "it was not");
          expect(group.barrier(within(patience)));
          expect(aside.finish());
          PeerScope instead{peers};
          static_cast<void>(taken(instead.post_send(1, values.gather(8, 8))));
          expect(instead.finish());
        } else {
          exchange.receive(0, values.scatter(8, 8));
          expect(exchange.start(within(patience)));
          expect(group.barrier(within(patience)));
          static_cast<void>(taken(aside.post_send(0, values.gather(0, 1))));
          expect(aside.finish());
          expect(exchange.wait(within(patience)));
          expect(are(values, 8, 0, 8, 8), "the values");
        }
        expect(group.barrier(within(patience)));
      });
}

TEST_CASE("an exchange refuses peers that share their receives", "[group]") {
  if (open_test_device().limits().shared_receives_max == 0) return;
  PeerOptions options;
  options.shared_receives = 4;
  exchange_ends::on_two(
      8,
      [&](Group& group, Peers& peers, Values& values, [[maybe_unused]] std::uint32_t other) {
        Exchange exchange{peers};
        exchange.receive(other, values.scatter(4, 2)).send(other, values.gather(0, 2));
        for (int i = 0; i < 2; ++i) {
          auto const refused = exchange.start(within(patience));
          expect(exchange_ends::has(refused, Errc::invalid_argument), "it started");
          expect(says(refused.error(), "Peers without PeerOptions::shared_receives"), "the words");
        }
        expect(exchange.finish());
        expect(group.barrier(within(patience)));
      },
      options);
}

TEST_CASE("of a message that does not fit, the other rows come all the same", "[group]") {
  if (lacks(open_test_device(), &DeviceCapabilities::waits_for_receives)) return;
  auto const is_finished = GENERATE(false, true);
  exchange_ends::on_two(
      90, [&](Group& group, Peers& peers, Values& values, [[maybe_unused]] std::uint32_t other) {
        if (group.rank() == 0) {
          Exchange exchange{peers};
          exchange.receive(1, values.scatter(64, 2))
              .receive(1, exchange_ends::column<ScatterElement>(values, 1));
          expect(exchange.start(within(patience)));
          auto const differs = is_finished ? exchange.finish() : exchange.wait(within(patience));
          expect(exchange_ends::has(differs, Errc::disagreement), "it fitted");
          expect(says(differs.error(), "rank 1 sent 8 bytes to a row of 16"), "the words");
          for (std::size_t i = 0; i < 8; ++i)
            expect(are(values, 8 * i + 1, 1, 8 + i, 1), "a value");
        } else {
          PeerScope scope{peers};
          exchange_ends::answer_note(scope, 0, values, 64);
          static_cast<void>(taken(scope.post_send(0, values.gather(0, 1))));
          static_cast<void>(taken(scope.post_send(0, values.gather(8, 8))));
          expect(scope.finish());
        }
        expect(group.barrier(within(patience)));
      });
}

TEST_CASE("an exchange tells the failure that flushed its rows", "[group]") {
  if (lacks(open_test_device(), &DeviceCapabilities::waits_for_receives)) return;
  exchange_ends::on_two(
      32, [](Group& group, Peers& peers, Values& values, [[maybe_unused]] std::uint32_t other) {
        if (group.rank() == 0) {
          Exchange exchange{peers};
          exchange.receive(1, values.scatter(4, 2)).send(1, values.gather(0, 2));
          auto const failed = exchange.run(within(patience));
          expect(failed.has_error(), "it ran");
          expect(!failed.error().is_flush(), "a flush");
          auto const* const work = failed.error().work();
          expect(work != nullptr && work->operation == Operation::send, "another row");
        } else {
          PeerScope scope{peers};
          exchange_ends::answer_note(scope, 0, values, 8);
          auto short_one = taken(scope.post_receive(0, values.scatter(0, 1)));
          expect(short_one.wait(within(patience)).has_error(), "it fitted");
          static_cast<void>(scope.finish());
        }
      });
}
