// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in an epoch peers put, get and change words by rank, and between two epochs the memory is
// its owner's; an epoch that does not end ends the group, and never the bytes. Method: two to four
// ranks as threads, by hand.
#include "group/window_ranks.hpp"

#include <cstdint>
#include <cstring>
#include <semaphore>
#include <stdexcept>
#include <string>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<Window> && !std::is_copy_constructible_v<Epoch>);
static_assert(std::is_nothrow_move_constructible_v<Epoch> && !std::is_move_assignable_v<Epoch>);

TEST_CASE("where a write ends before it is placed there are no windows", "[group]") {
  auto const device = open_test_device();
  if (device.capabilities().endpoints) return skip(device, "has windows");
  ScopeRanks ranks{2};
  on_each_with_values(ranks, window_words, [](Group& group, Values& values) {
    auto peers = taken(Peers::connect_all(group, within(patience)));
    auto const made = Window::create(peers, values.region(), RemoteAccess::read, within(patience));
    expect(fails_with(made, Errc::unsupported, "ranks there have no windows"), "it was made");
    expect(values.mutable_values().has_value(), "something is lent");
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("what ranks put, get and change in an epoch is there after it", "[group]") {
  on_windows(4, [](WindowRank& self) {
    auto& [group, rank, next, before, peers, own, mine, window] = self;
    auto const next_values = taken(window.of<std::int64_t>(next));
    for (std::size_t turn = 0; turn < 3; ++turn) {
      auto epoch = taken(window.open(within(patience)));
      auto* const to = taken(epoch.on(next));
      static_cast<void>(taken(to->post_write({mine.gather(turn, 2), next_values.subspan(2, 2)})));
      auto got = taken(to->post_read({mine.scatter(8, 1), next_values[9]}));
      expect(got.wait(within(patience)).has_value(), "the get");
      expect(are(mine, 8, next, 9, 1), "what was got");
      if (rank != 0) {
        auto* const first = taken(epoch.on(0));
        static_cast<void>(taken(first->post_atomic(
            Atomic::fetch_add(mine.scatter(9, 1), window.remote(0).word(0), rank))));
      }
      expect(epoch.finish(within(patience)));
      expect(are(own, 2, before, turn, 2), "what was put");
      expect(rank != 0 || value_at(own, 0) == posted_value(0, 0) + std::int64_t(turn + 1) * 6,
             "the sum");
      expect(group.barrier(within(patience)));
    }
    expect(own.region().loans() == 1, "an exposure alone");
  });
}

TEST_CASE("an own part is on loan from open() to finish()", "[group]") {
  on_windows(2, [](WindowRank& self) {
    auto& [group, rank, next, before, peers, own, mine, window] = self;
    auto views = taken(Window::create(peers, mine.region(), RemoteAccess::read, within(patience)));
    {
      auto epoch = taken(window.open(within(patience)));
      auto const refused = own.values();
      expect(fails_with(refused, Errc::already_borrowed, "window_test.cpp"), "it is read");
      expect(window.unsafe_own().size() == window_words * sizeof(std::int64_t), "its bytes");
      PeerScope scope{peers};
      expect(fails_with(scope.post_send(next, own.gather(0, 1)), Errc::already_borrowed),
             "it is sent");
      auto reading = taken(views.open(within(patience)));
      expect(mine.values().has_value(), "who only reads");
      expect(fails_with(mine.mutable_values(), Errc::already_borrowed), "it is written");
      expect(fails_with(views.of<std::int64_t>(next), Errc::invalid_argument), "a target");
      expect(views.of<std::int64_t const>(next).has_value(), "a source");
    }  // both end, the later one first
    expect(own.mutable_values().has_value() && mine.mutable_values().has_value(), "given back");
    expect(group.barrier(within(patience)));
    PeerScope scope{peers};
    if (rank == 0) {  // open() that is refused has sent nothing
      auto held = taken(scope.post_receive(1, own.scatter(3, 1)));
      expect(fails_with(window.open(within(patience)), Errc::already_borrowed), "it is open");
      expect(group.barrier(within(patience)));
      expect(held.wait(within(patience)).has_value(), "the message");
    } else {
      expect(group.barrier(within(patience)));
      expect(taken(scope.post_send(0, mine.gather(0, 1))).wait(within(patience)).has_value(),
             "sent");
    }
    auto epoch = taken(window.open(within(patience)));
    expect(epoch.finish(within(patience)));
  });
}

TEST_CASE("a mistake with a window is told, and harms no epoch", "[group]") {
  on_windows(3, [](WindowRank& self) {
    auto& [group, rank, next, before, peers, own, mine, window] = self;
    auto epoch = taken(window.open(within(patience)));
    expect(fails_with(window.open(), Errc::invalid_argument, "an epoch of this window goes on"),
           "twice");
    expect(fails_with(epoch.on(rank), Errc::invalid_argument, "is no peer"), "itself");
    expect(fails_with(epoch.notify(7), Errc::invalid_argument, "rank 7 is no peer"), "nobody");
    expect(window.remote(rank).size() == 0 && window.remote(7).size() == 0, "no part");
    auto* const to = taken(epoch.on(next));
    auto const far =
        to->post_write({mine.gather(0, 1), window.remote(next).slice(8 * window_words, 8)});
    expect(fails_with(far, Errc::invalid_argument), "out of bounds");
    expect(epoch.finish(within(patience)));
    expect(fails_with(epoch.finish(), Errc::stale_handle), "finished twice");
    expect(fails_with(epoch.on(next), Errc::stale_handle), "used after it");

    // Of memory that the group's peers cannot access: at one rank, and so at all.
    auto const other = taken(open_test_device().allocate_protection_domain());
    auto foreign = taken(other.allocate(64));
    auto const made = Window::create(peers, rank == 1 ? foreign : mine.region(), RemoteAccess::read,
                                     within(patience));
    expect(fails_with(made, Errc::invalid_argument,
                      rank == 1 ? "another protection domain" : "rank 1 has no part of a window"),
           "it was made");
    auto again = taken(window.open(within(patience)));
    expect(again.finish(within(patience)));
  });
}

TEST_CASE("open() and finish() that time out go on when they are called again", "[group]") {
  std::binary_semaphore opened{0}, awaited{0}, sent{0}, late{0};
  on_windows(2, [&](WindowRank& self) {
    auto& [group, rank, next, before, peers, own, mine, window] = self;
    if (rank == 1) expect(opened.try_acquire_for(patience), "the other one");
    if (rank == 0) {
      expect(fails_with(window.open(within(1ms)), Errc::timed_out), "it is open");
      expect(fails_with(own.values(), Errc::already_borrowed), "the other may be in the epoch");
      opened.release();
    }
    auto epoch = taken(window.open(within(patience)));
    auto* const to = taken(epoch.on(next));
    static_cast<void>(
        taken(to->post_write({mine.gather(0, 1), taken(window.of<std::int64_t>(next))[5]})));
    if (rank == 0) {
      static_cast<void>(taken(to->post_receive(mine.scatter(1, 1))));
      auto const early = epoch.finish(within(1ms));
      expect(fails_with(early, Errc::timed_out, "work to rank 1 was not over"), "it is over");
      expect(fails_with(epoch.on(next), Errc::invalid_argument, "finish() of this epoch"), "post");
      awaited.release();
      expect(sent.try_acquire_for(patience), "the other one");
      // On a slow device the message may still be on its way.
      auto alone = failure_of(epoch.finish(within(1ms)));
      while (alone == Errc::timed_out && !says(alone, "barrier"))
        alone = failure_of(epoch.finish(within(1ms)));
      expect(alone == Errc::timed_out, "the other one has not finished");
      expect(are(mine, 1, 1, 0, 1), "no work was aborted");
      expect(fails_with(own.values(), Errc::already_borrowed), "it may still write");
      late.release();
    } else {
      expect(awaited.try_acquire_for(patience), "the other one");
      expect(taken(to->post_send(mine.gather(0, 1))).wait(within(patience)).has_value(), "sent");
      sent.release();
      expect(late.try_acquire_for(patience), "the other one");
    }
    expect(epoch.finish(within(patience)));
    expect(are(own, 5, next, 0, 1), "what was put");
  });
}

TEST_CASE("who was given a notice sees what was put before it", "[group]") {
  auto const wait = GENERATE(Wait::adaptive, Wait::event);
  bool const is_copied = GENERATE(true, false);  // as it is posted
  GroupOptions options;
  options.wait = wait;
  PeerOptions peer_options;
  if (!is_copied) peer_options.channel.queue_pair.inline_bytes = 0;
  on_windows(
      2,
      [](WindowRank& self) {
        auto& [group, rank, next, before, peers, own, mine, window] = self;
        auto const theirs = taken(window.of<std::int64_t>(next));
        std::uint64_t notices = 0;
        for (int turn = 0; turn < 2; ++turn) {
          auto epoch = taken(window.open(within(patience)));
          for (std::size_t i = 0; i < 10; ++i) {
            if (i % 2 == rank) {
              static_cast<void>(
                  taken(taken(epoch.on(next))
                            ->post_write({mine.gather(3 * i, 8), theirs.subspan(8, 8)})));
              expect(epoch.notify(next, within(patience)));
              expect(epoch.notify(next, within(patience)));
            } else {
              expect(epoch.wait_notices(next, notices += 2, within(patience)));
              std::int64_t last = 0;
              std::memcpy(&last, &window.unsafe_own()[15 * sizeof last], sizeof last);
              expect(last == posted_value(next, 3 * i + 7), "it came before");
            }
          }
          auto const late = epoch.wait_notices(next, notices + 1, within(1ms));
          expect(fails_with(late, Errc::timed_out, ": so far " + std::to_string(notices)),
                 "more came");
          expect(epoch.finish(within(patience)));
        }
      },
      options, peer_options);
}

TEST_CASE("an exception in an epoch ends the group, and gives the part back", "[group]") {
  GroupOptions options;
  options.keep_alive = 20ms;
  on_windows(
      3,
      [](WindowRank& self) {
        auto& [group, rank, next, before, peers, own, mine, window] = self;
        auto const values = taken(window.of<std::int64_t>(next));
        if (rank == 1) {
          try {
            auto epoch = taken(window.open(within(patience)));
            static_cast<void>(
                taken(taken(epoch.on(next))->post_write({mine.gather(0, 1), values[0]})));
            throw std::runtime_error{"no convergence"};
          } catch (std::runtime_error const& error) {
            expect(error.what() == std::string{"no convergence"}, "another exception");
          }
          expect(says(*group.first_cause(), "an epoch of a window did not end"), "the reason");
        } else {
          auto epoch = taken(window.open(within(patience)));
          auto const failed = rank == 0 ? epoch.finish(within(patience))
                                        : epoch.wait_notices(1, 1, within(patience));
          expect(fails_with(failed, Errc::channel_broken, "rank 1 has abandoned"), "the rank");
        }
        expect(own.mutable_values().has_value() && own.region().loans() == 0, "not given back");
        expect(fails_with(window.open(within(patience)), Errc::stale_handle), "it is open");
      },
      options);
}

TEST_CASE("work that fails in an epoch is told where it was posted, and ends the group",
          "[group]") {
  GroupOptions options;
  options.keep_alive = 20ms;
  on_windows(
      3,
      [](WindowRank& self) {
        auto& [group, rank, next, before, peers, own, mine, window] = self;
        auto views =
            taken(Window::create(peers, mine.region(), RemoteAccess::read, within(patience)));
        auto epoch = taken(views.open(within(patience)));
        if (rank == 0) {  // what the target permits, it does not know
          auto const part = views.remote(1);
          RemoteRegion const wrong{part.address(), part.size(), part.key()};
          static_cast<void>(
              taken(taken(epoch.on(1))->post_write({own.gather(0, 1), wrong.slice(0, 8)})));
        }
        auto const failed = failure_of(epoch.finish(within(patience)));
        if (rank == 0)
          expect(failed == Errc::work_failed && failed.work()->posted_at.line != 0, "its own work");
        else
          expect(failed == Errc::channel_broken && says(failed, "rank "), "the rank");
        expect(mine.region().loans() == 0, "not given back");
      },
      options);
}

TEST_CASE("a rank that leaves is named by who waits for its notices", "[group]") {
  on_windows(2, [](WindowRank& self) {
    auto& [group, rank, next, before, peers, own, mine, window] = self;
    auto epoch = taken(window.open(within(patience)));
    if (rank == 1) {
      static_cast<void>(Group{std::move(group)});
      expect(fails_with(epoch.finish(within(patience)), Errc::stale_handle), "it ended");
    } else {
      auto const gone = epoch.wait_notices(1, 1, within(patience));
      expect(fails_with(gone, Errc::peer_lost, "rank 1 has left"), "notices came");
      expect(fails_with(epoch.finish(within(patience)), Errc::peer_lost, "rank 1 has left"),
             "it ended");
    }
    expect(own.region().loans() == 0, "not given back");
  });
}

TEST_CASE("a window that not all ranks make in time ends the group", "[group]") {
  if (!open_test_device().capabilities().endpoints) return;
  ScopeRanks ranks{2};
  std::binary_semaphore late{0};
  on_each(ranks.groups, [&](Group& group) {
    auto own = ranks.values(group.rank(), window_words);
    auto peers = taken(Peers::connect_all(group, within(patience)));
    if (group.rank() == 0) {
      auto const made = Window::create(peers, own.region(), RemoteAccess::all, within(1ms));
      expect(fails_with(made, Errc::timed_out), "it was made");
      expect(own.region().loans() == 0, "not given back");
      late.release();
    } else {
      expect(late.try_acquire_for(patience), "the other one");
      // Its keys have come. That it is gone, this rank learns then.
      auto window = Window::create(peers, own.region(), RemoteAccess::all, within(patience));
      auto const ended =
          window.has_value() ? failure_of(window.value().open(within(patience))) : window.error();
      expect(ended == Errc::channel_broken && says(ended, "rank 0 has abandoned"), "the rank");
      expect(own.mutable_values().has_value(), "not given back");
    }
  });
}
