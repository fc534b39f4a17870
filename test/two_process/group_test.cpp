// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: when a rank of a group is killed, at whichever moment, every other rank learns of it and
// names it, whatever became of the others meanwhile, and what was over before is right. Method: the
// ranks are processes, of which one is killed before its n-th call, by a timer in the middle of
// one, or before or after its n-th post. The others end as soon as they know.
#include <lend/group.hpp>

#include "support/seed.hpp"
#include "support/thorough.hpp"
#include "two_process/group_ranks.hpp"

#include <infiniband/verbs.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace lend::test::eight_ranks {

namespace {

constexpr std::size_t few_values = 5;      // too long for notes, which are not posted
constexpr std::size_t long_values = 3000;  // too long for messages

/// When the victim is killed: before that call, after that time, or at that post. After a time
/// `second` is, too, a little later.
struct Death {
  std::uint32_t before_call = UINT32_MAX;
  std::chrono::microseconds after{0};
  std::uint32_t second = victim;
  std::uint32_t at_post = 0;  // from 1; 0: at none
  bool is_posted = false;     // it dies after that post
  GroupLinks links = GroupLinks::all;
  bool has_halo = false;    // ranks send to those beside them, too, between their calls
  bool has_window = false;  // or write to their memory

  [[nodiscard]] bool is_of(std::uint32_t rank) const { return rank == victim || rank == second; }
};

/// Kills this process as it posts to its device for the n-th time.
struct Killer {
  static inline ibv_context_ops device{};
  static inline std::uint32_t left = 0;
  static inline bool is_posted = false;

  static void start(ibv_context& context, std::uint32_t at_post, bool after) {
    device = context.ops;
    left = at_post;
    is_posted = after;
    context.ops.post_send = [](ibv_qp* queue_pair, ibv_send_wr* work, ibv_send_wr** bad) {
      return post(device.post_send, queue_pair, work, bad);
    };
    context.ops.post_recv = [](ibv_qp* queue_pair, ibv_recv_wr* work, ibv_recv_wr** bad) {
      return post(device.post_recv, queue_pair, work, bad);
    };
  }
  template <class Call, class... Arguments>
  static int post(Call call, Arguments... arguments) {
    bool const is_last = --left == 0;
    if (is_last && !is_posted) ::raise(SIGKILL);
    int const result = call(arguments...);
    if (is_last) ::raise(SIGKILL);
    return result;
  }
};

/// What GroupOptions::keep_alive promises, and a minute for a machine that has other things to do:
/// half of what the calls have.
std::chrono::nanoseconds bound(Context const& context) {
  auto const options = options_for(context);
  auto const unanswered =
      (ack_retries_unasked + 1) * options.connection.ack_timeout.value_or(ack_timeout_unasked);
  return options.keep_alive.value() + 10ms + unanswered + 200ms + 60s;
}

/// Sends 8 values to either side, and checks what comes from there.
Result<void> exchange_halo(Peers& peers, TypedRegion<std::uint64_t>& values, std::uint32_t rank,
                           std::uint32_t step) {
  std::uint32_t const sides[] = {(rank + size - 1) % size, (rank + 1) % size};
  Result<void> done = success();
  {
    std::ranges::fill(must(values.mutable_values(0, 8)), rank + step);
    PeerScope scope{peers};
    std::vector<PendingWork> works;
    for (std::uint32_t side = 0; side < 2 && done; ++side) {
      auto posted = scope.post_receive(sides[side], values.scatter(8 + 8 * side, 8));
      if (posted)
        works.push_back(std::move(posted).value());
      else
        done = posted.error();
    }
    for (std::uint32_t side = 0; side < 2 && done; ++side) {
      auto posted = scope.post_send(sides[side], values.gather(0, 8));
      if (posted)
        works.push_back(std::move(posted).value());
      else
        done = posted.error();
    }
    if (done) done = wait_all(works, within(call_limit));
    if (done) done = scope.finish();
  }
  REQUIRE(values.region().loans() == 0);
  for (std::uint32_t side = 0; side < 2 && done; ++side)
    REQUIRE(must(values.values(8 + 8 * side, 8))[7] == sides[side] + step);
  return done;
}

/// Adds to a word of the rank above, puts 8 values there, and sees those of the rank below.
Result<void> exchange_by_window(Window& window, TypedRegion<std::uint64_t>& part,
                                TypedRegion<std::uint64_t>& values, std::uint32_t rank,
                                std::uint32_t step) {
  std::uint32_t const below = (rank + size - 1) % size, above = (rank + 1) % size;
  std::ranges::fill(must(values.mutable_values(0, 8)), rank + step);
  std::uint64_t last = 0, added_to = 0;
  auto const done = [&]() -> Result<void> {
    LEND_TRY(epoch, window.open(within(call_limit)));
    LEND_TRY(to, epoch.on(above));
    auto const theirs = must(window.of<std::uint64_t>(above));
    LEND_TRY(added, to->post_atomic(Atomic::fetch_add(values.scatter(8, 1), theirs[0].word(), 1)));
    LEND_TRYV(to->post_write({values.gather(0, 8), theirs.subspan(8, 8)}));
    LEND_TRYV(added.wait(within(call_limit)));
    LEND_TRYV(epoch.notify(above, within(call_limit)));
    LEND_TRYV(epoch.wait_notices(below, step + 1, within(call_limit)));
    std::memcpy(&last, &window.unsafe_own()[15 * sizeof last], sizeof last);
    std::memcpy(&added_to, window.unsafe_own().data(), sizeof added_to);
    return epoch.finish(within(call_limit));
  }();
  REQUIRE(part.mutable_values().has_value());
  REQUIRE(values.region().loans() == 0);
  if (done) REQUIRE((last == below + step && added_to == step + 1));
  return done;
}

/// Calls one collective after the other, and ends at once with the first failure.
int call_until_failure(Wire const& wire, std::uint32_t rank, Death death) {
  using Clock = std::chrono::steady_clock;
  Context const context = open_test_device();
  ProtectionDomain const domain = must(context.allocate_protection_domain());
  Group group = join(wire, rank, domain, death.links);
  auto values = must(domain.allocate<std::uint64_t>(long_values));
  Result<void> done = group.barrier(within(call_limit));  // all are connected
  std::optional<Peers> peers;
  if (death.has_halo || death.has_window) {
    std::array const sides{(rank + size - 1) % size, (rank + 1) % size};
    auto made = Peers::connect(group, sides, within(call_limit));
    if (made)
      peers = std::move(made).value();
    else
      done = made.error();  // the victim has connected, and died
  }
  auto part = must(domain.allocate<std::uint64_t>(16));
  std::ranges::fill(must(part.mutable_values()), 0);
  std::optional<Window> window;
  std::uint32_t epochs = 0;
  if (peers && death.has_window) {
    auto made = Window::create(*peers, part.region(), RemoteAccess::all, within(call_limit));
    if (made)
      window = std::move(made).value();
    else
      done = made.error();
  }
  if (rank == victim && death.at_post > 0)
    Killer::start(*context.native(), death.at_post, death.is_posted);
  if (death.is_of(rank) && death.after > 0us) {
    auto const after = death.after + (rank == victim ? 0us : 150us);
    itimerval const timer{.it_interval = {}, .it_value = {0, after.count()}};
    REQUIRE(::setitimer(ITIMER_REAL, &timer, nullptr) == 0);  // its signal kills
  }
  std::vector<std::uint64_t> all(size * few_values);
  auto last_success = Clock::now();
  for (std::uint32_t i = 0; done.has_value(); ++i) {
    last_success = Clock::now();
    if (rank == victim && i == death.before_call) ::raise(SIGKILL);
    // One is busy while the others learn of it, end and go.
    if (rank == 6 && i % 4 == 1) std::this_thread::sleep_for(i == 1 ? 50ms : 1ms);
    std::uint64_t const own = rank + i;
    if (window && i % 4 != 3) {
      done = exchange_by_window(*window, part, values, rank, epochs++);
    } else if (peers && i % 4 != 3) {
      done = exchange_halo(*peers, values, rank, i);
    } else if (i % 4 == 0) {
      auto const sums = group.allreduce(sum<std::uint64_t>, own, within(call_limit));
      if (!sums)
        done = sums.error();
      else
        REQUIRE(sums.value() == std::uint64_t{size} * i + size * (size - 1) / 2);
    } else if (i % 4 == 1) {
      std::array<std::uint64_t, few_values> each{};
      each.fill(own);
      done = group.allgather(each, all, within(call_limit));
      for (std::uint32_t j = 0; done && j < all.size(); ++j) REQUIRE(all[j] == j / few_values + i);
    } else if (i % 4 == 2) {
      std::ranges::fill(must(values.mutable_values()), own);
      GroupScope scope{group};
      static_cast<void>(must(scope.post_allreduce(max<std::uint64_t>, values.scatter())));
      scope.drain_within(call_limit);
      done = scope.finish();
      REQUIRE(values.region().loans() == 0);
      if (done) REQUIRE(must(values.values()).back() == size - 1 + i);
    } else {
      done = group.barrier(within(call_limit));
    }
  }
  CAPTURE(done.error().message());
  // A post to a broken channel has the reason as its cause.
  bool const is_late = peers && done.error() == Errc::channel_broken && done.error().cause();
  Error const why = is_late ? *done.error().cause() : done.error();
  REQUIRE(why == Errc::peer_lost);
  auto const lost = group.lost_rank();
  REQUIRE(lost.has_value());
  REQUIRE(death.is_of(*lost));
  REQUIRE(why.message().starts_with("rank " + std::to_string(*lost) + " is lost"));
  REQUIRE(Clock::now() - last_success < bound(context));
  return 0;
}

/// That it comes to pass, and all others name it.
void check(Death const& death) {
  std::vector<std::unique_ptr<PeerProcess>> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<PeerProcess>(
        [=](Wire const& wire) { return call_until_failure(wire, rank, death); }));
  pass_on(ranks);
  int died = 0;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    CAPTURE(rank, death.before_call, death.after.count(), death.at_post, death.is_posted);
    int const signal = death.after > 0us ? SIGALRM : SIGKILL;
    int const status = ranks[rank]->exit_status();
    bool const has_died = status == 128 + signal;
    died += has_died;
    if (!has_died || !death.is_of(rank)) CHECK(status == 0);
  }
  // Of two, one may learn of the other's death before its own time comes.
  CHECK(died >= 1);
}

}  // namespace

TEST_CASE("a stopped rank is named as late, and not lost", "[two_process]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  std::vector<std::unique_ptr<PeerProcess>> ranks;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<PeerProcess>([rank](Wire const& wire) {
      Group group = join(wire, rank, must(open_test_device().allocate_protection_domain()));
      must(group.barrier(within(call_limit)));
      if (rank == victim) {
        ::raise(SIGSTOP);
      } else {
        std::string const said = "rank 3 has not come: it is in no call since barrier 1 (";
        Error late = error_of(group.barrier(within(100ms)));
        // Who gets no CPU for so long has not come, either: the call goes on until all others have,
        // and rank 3 has stopped.
        auto const limit = within(call_limit);
        while (late == Errc::timed_out && !limit.has_passed() &&
               (group.missing().size() != 1 || late.message().find(said) == std::string::npos))
          late = error_of(group.barrier(within(100ms)));
        CAPTURE(late.message());
        REQUIRE(late == Errc::timed_out);
        REQUIRE(group.missing().size() == 1);
        REQUIRE(group.missing()[0] == victim);
        REQUIRE_THAT(late.message(), Catch::Contains(said));
        REQUIRE(wire.say());
      }
      must(group.barrier(within(call_limit)));
      return 0;
    }));
  pass_on(ranks);
  for (std::uint32_t rank = 0; rank < size; ++rank)
    if (rank != victim) CHECK(ranks[rank]->wire().hear());
  ::kill(ranks[victim]->pid(), SIGCONT);
  for (auto const& rank : ranks) CHECK(rank->exit_status() == 0);
}

TEST_CASE("every rank names the one that was killed, or one of two, at whichever moment",
          "[two_process]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  std::vector<Death> deaths;
  for (std::uint32_t const call : {0u, 1u, 2u, 101u}) deaths.push_back({call, 0us});
  for (int i = 0; i < 8; ++i) deaths.push_back({UINT32_MAX, 100us + i * 1173us});
  for (int i = 0; i < 4; ++i) deaths.push_back({UINT32_MAX, 100us + i * 1173us, 5});
  for (std::uint32_t post = 1; post <= 200; post += 37)
    deaths.push_back({.at_post = post, .is_posted = post % 2 == 0});
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  if (!takes_all(open_test_device())) {
    std::ranges::shuffle(deaths, std::mt19937{seed});
    deaths.resize(6);
  }
  for (Death const& death : deaths) check(death);
}

// Ranks 0 and 6 have no link to the victim.
TEST_CASE("over few links every rank names the one that was killed, or one of two",
          "[two_process]") {
  auto const device = open_test_device();
  if (lacks(device, &DeviceCapabilities::endpoints)) return;
  if (device.kind() != DeviceKind::soft)
    return skip(device,
                "where notices take longer than a rank that leaves waits, others are named");
  constexpr auto few = GroupLinks::few;
  for (std::uint32_t const call : {0u, 1u, 2u, 101u}) check({.before_call = call, .links = few});
  for (int i = 0; i < 4; ++i) check({.after = 100us + i * 2173us, .links = few});
  for (int i = 0; i < 2; ++i) check({.after = 100us + i * 2173us, .second = 5, .links = few});
  for (std::uint32_t post = 1; post <= 150; post += 37)
    check({.at_post = post, .is_posted = post % 2 == 0, .links = few});
}

TEST_CASE("who waits for a neighbour names the rank that was killed, as the group does",
          "[two_process]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  std::vector<Death> deaths;
  for (std::uint32_t const call : {0u, 2u, 3u, 101u})
    deaths.push_back({.before_call = call, .has_halo = true});
  for (int i = 0; i < 4; ++i) deaths.push_back({.after = 100us + i * 1173us, .has_halo = true});
  for (std::uint32_t post = 1; post <= 200; post += 37)
    deaths.push_back({.at_post = post, .is_posted = post % 2 == 0, .has_halo = true});
  deaths.push_back({.at_post = 50, .links = GroupLinks::few, .has_halo = true});
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  if (!takes_all(open_test_device())) {
    std::ranges::shuffle(deaths, std::mt19937{seed});
    deaths.resize(6);
  }
  for (Death const& death : deaths) check(death);
}

TEST_CASE("every rank names the one that was killed in an epoch of a window", "[two_process]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  if (lacks(open_test_device(), &DeviceCapabilities::atomics)) return;
  std::vector<Death> deaths{{.before_call = 2, .has_window = true}};
  for (int i = 0; i < 4; ++i) deaths.push_back({.after = 100us + i * 1173us, .has_window = true});
  for (std::uint32_t post = 1; post <= 120; post += 17)
    deaths.push_back({.at_post = post, .is_posted = post % 2 == 0, .has_window = true});
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  if (!thorough()) {
    std::ranges::shuffle(deaths, std::mt19937{seed});
    deaths.resize(4);
  }
  for (Death const& death : deaths) check(death);
}

// By hand: it takes minutes.
TEST_CASE("who waits for a neighbour names the one that was killed at any of its 200 posts",
          "[.]") {
  for (std::uint32_t post = 1; post <= 200; ++post)
    for (bool const is_posted : {false, true})
      check({.at_post = post, .is_posted = is_posted, .has_halo = true});
}

// By hand: it takes minutes.
TEST_CASE("every rank names the one that was killed at any of its first 200 posts", "[.]") {
  for (std::uint32_t post = 1; post <= 200; ++post)
    for (bool const is_posted : {false, true}) check({.at_post = post, .is_posted = is_posted});
}

}  // namespace lend::test::eight_ranks
