// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: when the peer disconnects, ends or is killed, whoever waits on the channel learns it in
// bounded time as peer_lost, and every byte comes back. Method: a peer in this process or another
// program, which is killed or told to end.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "cm_ends.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

extern char** environ;

namespace {

/// The program beside this one, with a pipe to its standard input. Killed with its owner.
class Peer {
 public:
  Peer(std::string task, std::string address) {
    auto program =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "cm_peer").string();
    std::array<int, 2> pipe{};
    REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[0], 0);
    std::array<char*, 4> arguments{program.data(), task.data(), address.data(), nullptr};
    int const result =
        ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[0]);
    input_ = pipe[1];
    REQUIRE(result == 0);
  }
  Peer(Peer const&) = delete;
  Peer& operator=(Peer const&) = delete;
  ~Peer() {
    kill();
    static_cast<void>(exit_status());
  }

  void kill() const { ::kill(pid_, SIGKILL); }
  /// Lets its standard input end.
  void finish() {
    if (input_ >= 0) ::close(std::exchange(input_, -1));
  }
  /// Waits for its end, which nothing holds up then.
  int exit_status() {
    finish();
    if (status_ < 0)
      while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
      }
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  int status_ = -1;
};

/// This end of a channel to that program.
struct AcceptedEnd {
  CmHost host{};
  CmListener listener = must(CmListener::open(test_address(0)));
  Peer peer;
  WaitSet set = must(WaitSet::create(host.context, Wait::event));
  Channel channel;

  explicit AcceptedEnd(std::string const& task, bool is_in_set = false)
      : peer{task, listener.address()}, channel{accept(is_in_set)} {}

 private:
  [[nodiscard]] Channel accept(bool is_in_set) {
    ChannelOptions options;
    if (is_in_set) options.wait_set = &set;
    auto request = must(listener.next(within(60s)));
    return must(accept_from(std::move(request), host.prepare(options), within(60s))).channel;
  }
};

bool is_over(Error const& error) {
  return error == Errc::peer_lost || error == Errc::channel_broken;
}

}  // namespace

TEST_CASE("a blocking receive ends as peer_lost when the peer is killed", "[cm]") {
  AcceptedEnd end{"sit"};
  auto memory = must(end.host.domain.allocate(64));

  auto receiving = meanwhile([&] { return end.channel.receive(memory.scatter(), within(60s)); });
  CHECK(receiving.wait_for(100ms) == std::future_status::timeout);
  end.peer.kill();
  auto const error = error_of(receiving.get());

  CAPTURE(error.message());
  CHECK(error == Errc::peer_lost);
  CHECK(memory.loans() == 0);
  REQUIRE(end.channel.first_cause() != nullptr);
  CHECK(*end.channel.first_cause() == Errc::peer_lost);
  CHECK(error_of(end.channel.send(memory.gather())) == Errc::channel_broken);
}

TEST_CASE("every way of waiting ends as peer_lost when the peer disconnects", "[cm]") {
  AcceptedEnd end{"end"};
  auto memory = must(end.host.domain.allocate(64));

  SECTION("in a wait for one request") {
    PollingScope scope{end.channel};
    auto work = must(scope.post_receive(memory.scatter()));
    end.peer.finish();
    CHECK(error_of(work.wait(within(60s))) == Errc::peer_lost);
    must(scope.finish());
  }
  SECTION("in polls for one request") {
    PollingScope scope{end.channel};
    auto work = must(scope.post_receive(memory.scatter()));
    end.peer.finish();
    auto result = work.poll();
    for (auto const deadline = within(60s); result.has_value() && !deadline.has_passed();)
      result = work.poll();
    CHECK(error_of(result) == Errc::peer_lost);
    must(scope.finish());
  }
  SECTION("in the drain of a scope") {
    PollingScope scope{end.channel};
    scope.drain_within(60s);
    static_cast<void>(must(scope.post_receive(memory.scatter())));
    end.peer.finish();
    CHECK(error_of(scope.finish()) == Errc::peer_lost);
  }
  SECTION("in a wait for room") {
    PollingScope scope{end.channel};
    auto const depth = end.channel.receive_depth();
    auto more = must(end.host.domain.allocate(depth + 1));
    for (std::uint32_t i = 0; i < depth; ++i)
      static_cast<void>(must(scope.post_receive(more.scatter(i, 1))));
    end.peer.finish();
    CHECK(is_over(error_of(scope.post_receive(more.scatter(depth, 1), within(60s)))));
    CHECK(error_of(scope.finish()) == Errc::peer_lost);
  }
  CHECK(memory.loans() == 0);
  CHECK(end.peer.exit_status() == 0);
}

TEST_CASE("a set whose channel's peer is killed tells it as broken", "[cm]") {
  bool const by_descriptor = GENERATE(false, true);
  AcceptedEnd end{"sit", true};
  auto memory = must(end.host.domain.allocate(64));
  SetScope scope{end.set};
  auto receiving = must(must(scope.on(end.channel))->post_receive(memory.scatter()));
  std::array<Ready, 4> room{};
  auto ready = must(end.set.poll(room));
  CHECK(must(end.set.arm()));

  end.peer.kill();
  auto const killed = Deadline::Clock::now();
  for (auto const limit = within(60s); ready.empty() && !limit.has_passed();) {
    if (by_descriptor) {
      pollfd wait{end.set.descriptor(), POLLIN, 0};
      REQUIRE(::poll(&wait, 1, 60'000) == 1);
      ready = must(end.set.poll(room));
      if (ready.empty()) static_cast<void>(must(end.set.arm()));
    } else {
      ready = must(end.set.wait(room, within(60s)));
    }
  }

  REQUIRE(ready.size() == 1);
  CHECK(ready[0].what == Ready::What::broken);
  CHECK(Deadline::Clock::now() - killed < 30s);
  CHECK(error_of(receiving.wait(within(60s))) == Errc::peer_lost);
  REQUIRE(end.channel.first_cause() != nullptr);
  CHECK(*end.channel.first_cause() == Errc::peer_lost);
  static_cast<void>(scope.finish());
  CHECK(memory.loans() == 0);
}

TEST_CASE("a set of idle channels connected by rdma_cm sleeps", "[cm]") {
  CmHost host;
  auto set = must(WaitSet::create(host.context, Wait::event));
  auto listener = must(CmListener::open(test_address(0)));
  std::vector<Channel> channels, peers;
  for (std::uint64_t i = 0; i < 20; ++i) {
    ChannelOptions in_set = options_with_depth(2);
    in_set.wait_set = &set;
    in_set.tag = i;
    auto connecting = meanwhile([&] {
      return connect_to(listener.address(), host.prepare(options_with_depth(2)), within(60s));
    });
    auto request = must(listener.next(within(60s)));
    auto accepted = accept_from(std::move(request), host.prepare(in_set), within(60s));
    channels.push_back(must(std::move(accepted)).channel);
    peers.push_back(must(connecting.get()).channel);
  }
  std::array<Ready, 32> room{};
  static_cast<void>(must(set.poll(room)));

  rusage before{}, after{};
  ::getrusage(RUSAGE_THREAD, &before);
  CHECK(error_of(set.wait(room, within(1s))) == Errc::timed_out);
  ::getrusage(RUSAGE_THREAD, &after);
  auto const sleeps = after.ru_nvcsw - before.ru_nvcsw;
  std::printf("an idle set of %zu channels slept %ld times in a second\n", channels.size(), sleeps);
  CHECK(sleeps <= 12);
  CHECK(must(set.arm()));
  pollfd silent{set.descriptor(), POLLIN, 0};
  CHECK(::poll(&silent, 1, 500) == 0);

  peers.erase(peers.begin() + 7);
  CHECK(::poll(&silent, 1, 60'000) == 1);
  auto const ready = must(set.wait(room, within(60s)));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tag == 7);
  CHECK(ready[0].what == Ready::What::broken);
}

TEST_CASE("a peer killed in the middle of its sends leaves no byte on loan", "[cm]") {
  AcceptedEnd end{"send"};
  auto memory = must(end.host.domain.allocate(64));

  Error error;
  for (int i = 0; error == Errc{}; ++i) {
    if (i == 20) end.peer.kill();
    auto const arrived = end.channel.receive(memory.scatter(), within(60s));
    if (!arrived.has_value()) error = arrived.error();
  }

  CAPTURE(error.message());
  // Broken already, where the loss was noticed as the last message came.
  CHECK((is_over(error) || error == Errc::work_failed));
  CHECK(memory.loans() == 0);
}

TEST_CASE("sends to a peer that was killed end", "[cm]") {
  AcceptedEnd end{"sit"};
  auto memory = must(end.host.domain.allocate(64));
  end.peer.kill();
  static_cast<void>(end.peer.exit_status());

  auto sent = end.channel.send(memory.gather(), within(60s));
  for (int i = 0; sent.has_value() && i < 1000; ++i)
    sent = end.channel.send(memory.gather(), within(60s));

  CAPTURE(error_of(sent).message());
  CHECK(error_of(sent) != Errc::timed_out);
  CHECK(memory.loans() == 0);
}

TEST_CASE("a peer of the same process that goes away is noticed", "[cm]") {
  auto ends = cm_ends();
  auto memory = must(ends.host.domain.allocate(64));
  bool const connector = GENERATE(true, false);
  std::optional<Channel> leaving{std::move(connector ? ends.a : ends.b)};
  Channel& staying = connector ? ends.b : ends.a;

  auto receiving = meanwhile([&] { return staying.receive(memory.scatter(), within(60s)); });
  leaving.reset();

  CHECK(error_of(receiving.get()) == Errc::peer_lost);
  CHECK(memory.loans() == 0);
}

TEST_CASE("what was sent before the channel ended arrives", "[cm]") {
  for (int round = 0; round < 10; ++round) {
    auto ends = cm_ends();
    auto memory = must(ends.host.domain.allocate(4096));
    put(memory, 0, "last words");
    PollingScope scope{ends.b};
    auto arrival = must(scope.post_receive(memory.scatter(512, 64)));
    {
      Channel const gone{[&] {
        must(ends.a.send(memory.gather(0, 10), within(20s)));
        return std::move(ends.a);
      }()};
    }
    auto const done = arrival.wait(within(20s));
    if (!done.has_value()) FAIL(done.error().message());
    CHECK(done.value().bytes == 10);
    must(scope.finish());
  }
}
