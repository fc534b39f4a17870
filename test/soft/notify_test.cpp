// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: nobody sleeps beside a completion. Method: every schedule of one sleeper, two producers of
// other processes and one of the sleeper's own, each of the first two killed at every access of the
// notify word or never; the functions are the ones that the device runs.
#include <soft/segment/notify.hpp>

#include <array>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "support/catch.hpp"

using namespace lend::soft;

namespace {

struct Killed {};

/// The word, with a producer that dies before its `left`-th access.
class MortalWord {
 public:
  MortalWord(std::uint32_t& value, int& left) : value_{value}, left_{left} {}
  [[nodiscard]] std::uint32_t get() const {
    access();
    return value_;
  }
  void set(std::uint32_t value) {
    access();
    value_ = value;
  }
  void access() const {
    if (left_ == 0) throw Killed{};
    if (left_ > 0) --left_;
  }

 private:
  std::uint32_t& value_;
  int& left_;
};

constexpr int immortal = -1;

/// One moment of a history. Copied at every branch.
struct World {
  std::uint32_t word = 0;
  int tokens = 0;
  int published = 0;  // completions in the queue
  int expected = 0;   // that were ever published
  int polled = 0;

  enum class Sleeper { arms, polls, sleeps, takes } sleeper = Sleeper::arms;
  std::array<int, 2> remote{};  // what each has yet to publish
  std::array<int, 2> lives{};   // accesses until death
  int local = 0;
  bool local_saw_armed = false;

  auto key() const {
    return std::tie(word, tokens, published, expected, polled, sleeper, remote, lives, local,
                    local_saw_armed);
  }
  bool operator<(World const& other) const { return key() < other.key(); }
};

/// As push_receive_end(): one hold of the shared lock, which a death ends.
void produce_remotely(World& world, std::size_t who) {
  try {
    MortalWord word{world.word, world.lives[who]};
    if (is_due(word, false))
      announce(word, [&] {
        word.access();
        ++world.tokens;
        return true;
      });
    word.access();
    ++world.published;
    ++world.expected;
    --world.remote[who];
  } catch (Killed) {
    world.remote[who] = 0;
  }
}

/// As push_local() and notify_owner(): two holds, of the private and of the shared lock.
/// push_plain_local() publishes in the first of them where nobody is armed; where somebody is, its
/// hold changes nothing, and the first of these two comes later.
void produce_locally(World& world) {
  int left = immortal;
  MortalWord word{world.word, left};
  if (world.local_saw_armed) {
    if (is_due(word, false)) announce(word, [&] { return ++world.tokens > 0; });
    world.local_saw_armed = false;
    return;
  }
  ++world.published;
  ++world.expected;
  --world.local;
  world.local_saw_armed = is_due(word, false);
}

/// A program that arms, polls until nothing is there, and sleeps until its channel is readable.
void run_sleeper(World& world) {
  int left = immortal;
  MortalWord word{world.word, left};
  switch (world.sleeper) {
    case World::Sleeper::arms:
      arm(word, false);
      world.sleeper = World::Sleeper::polls;
      return;
    case World::Sleeper::polls:
      if (world.published > 0) {
        --world.published;
        ++world.polled;
      } else {
        world.sleeper = World::Sleeper::sleeps;
      }
      return;
    case World::Sleeper::sleeps:
      --world.tokens;
      world.sleeper = World::Sleeper::takes;
      return;
    case World::Sleeper::takes:
      // As get_cq_event(): a token that is for nobody means sleeping on.
      world.sleeper = take_announcement(word) ? World::Sleeper::arms : World::Sleeper::sleeps;
      return;
  }
}

/// Walks every schedule; answers how many ends there were, and checks each.
class Explorer {
 public:
  void explore(World const& world) {
    if (!seen_.insert(world).second) return;
    bool moved = false;
    auto const step = [&](bool can, auto&& run) {
      if (!can) return;
      moved = true;
      auto next = world;
      run(next);
      explore(next);
    };
    step(world.sleeper != World::Sleeper::sleeps || world.tokens > 0, run_sleeper);
    for (std::size_t who : {0u, 1u})
      step(world.remote[who] > 0, [who](World& next) { produce_remotely(next, who); });
    step(world.local > 0 || world.local_saw_armed, produce_locally);
    if (moved) return;
    ++ends_;
    are_all_polled_ = are_all_polled_ && world.published == 0 && world.polled == world.expected;
    had_stray_token_ = had_stray_token_ || world.tokens > 0;
  }
  [[nodiscard]] std::size_t moments() const { return seen_.size(); }
  [[nodiscard]] std::size_t ends() const { return ends_; }
  [[nodiscard]] bool are_all_polled() const { return are_all_polled_; }
  [[nodiscard]] bool had_stray_token() const { return had_stray_token_; }

 private:
  std::set<World> seen_;
  std::size_t ends_ = 0;
  bool are_all_polled_ = true;
  bool had_stray_token_ = false;
};

}  // namespace

TEST_CASE("no schedule and no death leaves a completion beside a sleeper", "[soft]") {
  std::size_t moments = 0;
  constexpr int accesses_max = 24;  // more than two completions take
  for (int first = immortal; first < accesses_max; ++first)
    for (int second = immortal; second < accesses_max; ++second) {
      World world;
      world.remote = {2, 2};
      world.lives = {first, second};
      world.local = 2;
      Explorer explorer;
      explorer.explore(world);
      INFO("killed before accesses " << first << " and " << second);
      REQUIRE(explorer.ends() > 0);
      REQUIRE(explorer.are_all_polled());
      moments += explorer.moments();
    }
  CHECK(moments > 100'000);
}

TEST_CASE("an unannounced queue stays armed when its owner could not be woken", "[soft]") {
  std::uint32_t value = 0;
  int left = immortal;
  MortalWord word{value, left};
  arm(word, false);
  announce(word, [] { return false; });
  CHECK(is_due(word, false));
  CHECK_FALSE(take_announcement(word));
}

TEST_CASE("armed for solicited completions only, others pass; any wins over solicited", "[soft]") {
  std::uint32_t value = 0;
  int left = immortal;
  MortalWord word{value, left};
  CHECK_FALSE(is_due(word, true));
  arm(word, true);
  CHECK(is_due(word, true));
  CHECK_FALSE(is_due(word, false));
  arm(word, false);
  CHECK(is_due(word, false));
  arm(word, true);
  CHECK(is_due(word, false));
}
