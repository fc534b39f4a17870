// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a set sleeps until a connection manager has an event, asks none of them by the clock, and
// hears nothing more of a connection that has ended. Method: on the soft device, connections whose
// manager is an eventfd of the test's.
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <verbs/queue/adoption.hpp>

#include <poll.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "support/few_descriptors.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

/// Its counter is the number of events: 1 of them says nothing of the connection, and 2 its end.
/// What comes after that stays unread, as with rdma_cm.
struct Manager {
  int events = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  int asked = 0;
  ~Manager() { ::close(events); }

  void say(std::uint64_t what) const { REQUIRE(::write(events, &what, sizeof what) == 8); }
};

class Keeper final : public verbs::ConnectionKeeper {
 public:
  explicit Keeper(Manager& manager) noexcept : manager_{manager} {}
  std::optional<Error> lost(Deadline) noexcept override {
    ++manager_.asked;
    std::uint64_t what = 0;
    if (!lost_ && ::read(manager_.events, &what, sizeof what) == 8 && what >= 2)
      lost_ = Error{Errc::peer_lost, "the manager says so"};
    return lost_;
  }
  int descriptor() const noexcept override { return manager_.events; }

 private:
  Manager& manager_;
  std::optional<Error> lost_{};
};

/// Channels of a set, each connected to itself.
struct Watched {
  Context context = must(open_device(DeviceChoice::soft()));
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(64));
  WaitSet set = must(WaitSet::create(context, Wait::event));
  std::vector<std::unique_ptr<Manager>> managers{};
  std::vector<Channel> channels{};
  std::array<Ready, 64> room{};

  explicit Watched(std::size_t count) {
    while (channels.size() < count) add();
  }
  void add(bool has_descriptors = true) {
    ChannelOptions options = options_with_depth(1);
    options.wait_set = &set;
    options.tag = channels.size();
    auto prepared = must(prepare_channel(domain, options));
    auto queue_pair = prepared.take_queue_pair();
    auto const itself = queue_pair.endpoint();
    managers.push_back(std::make_unique<Manager>());
    verbs::QueuePairAccess::handle_of(queue_pair)->keeper =
        std::make_unique<Keeper>(*managers.back());
    auto connected = must(std::move(queue_pair).connect(itself));
    std::optional<FewDescriptors> few;
    if (!has_descriptors) few.emplace();
    channels.push_back(must(std::move(prepared).adopt(std::move(connected))));
  }
  [[nodiscard]] bool is_readable(std::chrono::milliseconds patience) const {
    pollfd wait{set.descriptor(), POLLIN, 0};
    return ::poll(&wait, 1, static_cast<int>(patience.count())) == 1;
  }
  [[nodiscard]] int questions() const {
    int all = 0;
    for (auto const& manager : managers) all += manager->asked;
    return all;
  }
  void check_lost(std::span<Ready const> ready, std::size_t tag) const {
    REQUIRE(ready.size() == 1);
    CHECK(ready[0].tag == tag);
    CHECK(ready[0].what == Ready::What::broken);
    REQUIRE(channels[tag].first_cause() != nullptr);
    CHECK(*channels[tag].first_cause() == Errc::peer_lost);
  }
};

}  // namespace

TEST_CASE("a set of idle channels of connection managers sleeps, and asks none of them",
          "[channel]") {
  Watched watched{300};
  int const asked = watched.questions();
  rusage before{}, after{};
  ::getrusage(RUSAGE_THREAD, &before);
  CHECK(error_of(watched.set.wait(watched.room, within(1s))) == Errc::timed_out);
  ::getrusage(RUSAGE_THREAD, &after);
  CHECK(after.ru_nvcsw - before.ru_nvcsw <= 12);

  CHECK(must(watched.set.arm()));
  CHECK_FALSE(watched.is_readable(200ms));
  CHECK(watched.questions() == asked);
}

TEST_CASE("the event of a connection manager wakes a set, which tells the loss once", "[channel]") {
  Watched watched{3};
  std::span<Ready> ready;
  SECTION("that waits") {
    watched.managers[1]->say(2);
    ready = must(watched.set.wait(watched.room, within(10s)));
  }
  SECTION("that the program sleeps on") {
    CHECK(must(watched.set.arm()));
    watched.managers[1]->say(2);
    CHECK(watched.is_readable(10s));
    ready = must(watched.set.poll(watched.room));
  }
  SECTION("that is about to sleep") {
    watched.managers[1]->say(2);
    CHECK_FALSE(must(watched.set.arm()));
    ready = must(watched.set.poll(watched.room));
  }
  SECTION("that only polls") {
    watched.managers[1]->say(2);
    for (auto const limit = within(10s); ready.empty() && !limit.has_passed();)
      ready = must(watched.set.poll(watched.room));
  }
  watched.check_lost(ready, 1);
  // What the manager says after the end wakes nobody.
  watched.managers[1]->say(1);
  CHECK(must(watched.set.arm()));
  CHECK_FALSE(watched.is_readable(50ms));
  CHECK(watched.channels[0].first_cause() == nullptr);
}

TEST_CASE("an event that says nothing of the connection's end is read and no news", "[channel]") {
  Watched watched{1};
  CHECK(must(watched.set.arm()));
  watched.managers[0]->say(1);
  CHECK(watched.is_readable(10s));
  CHECK(must(watched.set.poll(watched.room)).empty());
  CHECK(must(watched.set.arm()));
  CHECK_FALSE(watched.is_readable(50ms));
  watched.managers[0]->say(2);
  watched.check_lost(must(watched.set.wait(watched.room, within(10s))), 0);
}

TEST_CASE("the manager of a channel that is gone wakes its set no more", "[channel]") {
  Watched watched{2};
  watched.channels.erase(watched.channels.begin());
  CHECK(must(watched.set.arm()));
  watched.managers[0]->say(2);
  CHECK_FALSE(watched.is_readable(50ms));
  watched.managers[1]->say(2);
  CHECK(watched.is_readable(10s));
}

TEST_CASE("a set that has no descriptor for connection managers asks them by the clock",
          "[channel]") {
  Watched watched{0};
  watched.add(false);
  CHECK(must(watched.set.arm()));
  watched.managers[0]->say(2);
  CHECK(watched.is_readable(10s));
  watched.check_lost(must(watched.set.wait(watched.room, within(10s))), 0);
}
