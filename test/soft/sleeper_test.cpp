// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: timers go on while everybody sleeps, and cost pollers nothing. Method: raw verbs within one
// process; nothing polls before the channel is readable, which takes ten seconds only when it never
// would be.
#include "support.hpp"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

#include <atomic>

using namespace lend;
using namespace lend::test;

namespace {

bool wakes(HeldChannel const& channel, int milliseconds = 10'000) {
  pollfd wait{channel->fd, POLLIN, 0};
  return ::poll(&wait, 1, milliseconds) == 1;
}

HeldQueuePair make_plain(ibv_pd* domain, ibv_cq* sends, ibv_cq* receives) {
  return make_queue_pair(domain, sends, receives);
}

/// A link whose sends complete on a queue that can wake.
struct SleepyLink : Link {
  explicit SleepyLink(Terms const& terms, bool builds_work = false) : Link{Reach::two_contexts} {
    a.qp.reset();
    channel = make_channel(first.get());
    a.sends = make_queue(first.get(), 64, channel.get());
    a.qp =
        (builds_work ? make_builder : make_plain)(a.domain.get(), a.sends.get(), a.receives.get());
    connect(terms, {});
  }
  ~SleepyLink() {
    a.qp.reset();
    a.sends.reset();
    channel.reset();
  }
  HeldChannel channel;
};

/// As programs have: glibc takes them out of each thread's stack.
thread_local char volatile thread_locals[std::size_t{256} << 10];

/// While it lives a fault in the page is met by a handler of the program's, which makes the page
/// accessible.
class GuardedPage {
 public:
  explicit GuardedPage(std::byte* page) {
    page_ = page;
    faults_ = 0;
    struct sigaction meeting {};
    meeting.sa_handler = [](int) {
      ++faults_;
      ::mprotect(page_, 4096, PROT_READ | PROT_WRITE);
    };
    REQUIRE(::sigaction(SIGSEGV, &meeting, &before_) == 0);
    REQUIRE(::mprotect(page, 4096, PROT_NONE) == 0);
  }
  GuardedPage(GuardedPage const&) = delete;
  GuardedPage& operator=(GuardedPage const&) = delete;
  ~GuardedPage() {
    ::mprotect(page_, 4096, PROT_READ | PROT_WRITE);
    ::sigaction(SIGSEGV, &before_, nullptr);
  }
  [[nodiscard]] int faults() const noexcept { return faults_; }

 private:
  static inline std::atomic<std::byte*> page_ = nullptr;
  static inline std::atomic<int> faults_ = 0;
  struct sigaction before_ {};
};

int count_threads() {
  auto* const tasks = ::opendir("/proc/self/task");
  REQUIRE(tasks != nullptr);
  int count = 0;
  while (auto const* const entry = ::readdir(tasks)) count += entry->d_name[0] != '.';
  ::closedir(tasks);
  return count;
}

}  // namespace

TEST_CASE("a budget runs out while nobody polls", "[soft]") {
  auto const [terms, status] =
      GENERATE(std::pair{Terms{.rnr_retries = 2, .rnr_timer = 20}, IBV_WC_RNR_RETRY_EXC_ERR},
               std::pair{Terms{.send_psn = 8, .timeout = 10}, IBV_WC_RETRY_EXC_ERR});
  SleepyLink link{terms};
  bool const arms_first = GENERATE(true, false);
  if (arms_first) REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
  REQUIRE(post(link.a, {}) == 0);
  if (!arms_first) REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
  // What ended before a queue was armed does not wake: who arms late polls once.
  auto ends = arms_first ? std::vector<ibv_wc>{} : poll(link.a.sends);
  if (ends.empty()) {
    REQUIRE(wakes(link.channel));
    ends = poll(link.a.sends);
  }
  REQUIRE(ends.size() == 1);
  CHECK(ends.front().status == status);
}

TEST_CASE("work that was built call by call wakes who sleeps, failed or flushed", "[soft]") {
  SleepyLink link{{.rnr_retries = 2, .rnr_timer = 20}, true};
  auto* const builder = ibv().qp_to_qp_ex(link.a.qp.get());
  for (auto const status : {IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR}) {
    REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
    ibv_wr_start(builder);
    ibv_wr_send(builder);
    REQUIRE(ibv_wr_complete(builder) == 0);
    REQUIRE(wakes(link.channel));
    ibv_cq* queue = nullptr;
    void* itself = nullptr;
    REQUIRE(ibv().get_cq_event(link.channel.get(), &queue, &itself) == 0);
    ibv().ack_cq_events(queue, 1);
    auto const ends = poll(link.a.sends);
    REQUIRE(ends.size() == 1);
    CHECK(ends.front().status == status);
  }
}

TEST_CASE("a receive posted later completes work whose sender sleeps", "[soft]") {
  SleepyLink link{{.rnr_retries = 7}};
  REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
  REQUIRE(post(link.a, {}) == 0);
  CHECK_FALSE(wakes(link.channel, 5));
  REQUIRE(post_receive(link.b, 1) == 0);
  REQUIRE(wakes(link.channel));
  CHECK(poll(link.a.sends).front().status == IBV_WC_SUCCESS);
}

TEST_CASE("work waits for its receive in a program with much thread-local memory, too", "[soft]") {
  thread_locals[0] = 1;
  SleepyLink link{{.rnr_retries = 7}};
  REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
  REQUIRE(post(link.a, {}) == 0);
  CHECK(poll(link.a.sends).empty());
  REQUIRE(post_receive(link.b, 1) == 0);
  REQUIRE(wakes(link.channel));
  CHECK(poll(link.a.sends).front().status == IBV_WC_SUCCESS);
}

TEST_CASE("a program's handler meets the faults of its memory while everybody sleeps, too",
          "[soft]") {
  SleepyLink link{{.rnr_retries = 7}};
  Memory const from{link.a.domain.get(), 4096, all_access, Where::allocated};
  Memory const to{link.b.domain.get(), 4096, all_access, Where::allocated};
  REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
  // Of two pieces, so that its sender moves it.
  REQUIRE(post(link.a, {.pieces = {from.piece(0, 96), from.piece(96, 4000)}}) == 0);
  GuardedPage const guarded{from.at(0)};
  REQUIRE(post_receive(link.b, 1, {to.piece(0, 4096)}) == 0);
  REQUIRE(wakes(link.channel));
  CHECK(poll(link.a.sends).front().status == IBV_WC_SUCCESS);
  CHECK(guarded.faults() == 1);
}

TEST_CASE("a peer that closes wakes who waits for it with endless patience", "[soft]") {
  SleepyLink link{{.timeout = 0, .rnr_retries = 7}};
  REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
  REQUIRE(post(link.a, {}) == 0);
  link.b.qp.reset();
  link.b.sends.reset();
  link.b.receives.reset();
  link.b.domain.reset();
  link.second.reset();
  REQUIRE(wakes(link.channel));
  CHECK(poll(link.a.sends).front().status == IBV_WC_RETRY_EXC_ERR);
}

TEST_CASE("only a sleeper with stalled work costs a thread, which goes with the device", "[soft]") {
  auto const before = count_threads();
  {
    SleepyLink link{{.rnr_retries = 7}};
    REQUIRE(post(link.a, {}) == 0);
    CHECK(poll(link.a.sends).empty());
    CHECK(count_threads() == before);
    REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
    CHECK(count_threads() == before + 1);
  }
  CHECK(count_threads() == before);
}

TEST_CASE("work that SQD holds back costs no thread", "[soft]") {
  auto const before = count_threads();
  bool const is_built = GENERATE(true, false);
  SleepyLink link{{}, is_built};
  REQUIRE(ibv_req_notify_cq(link.a.sends.get(), 0) == 0);
  REQUIRE(move(link.a.qp.get(), IBV_QPS_SQD, {}, IBV_QP_STATE) == 0);
  if (is_built) {
    auto* const builder = ibv().qp_to_qp_ex(link.a.qp.get());
    ibv_wr_start(builder);
    ibv_wr_send(builder);
    REQUIRE(ibv_wr_complete(builder) == 0);
  } else {
    REQUIRE(post(link.a, {}) == 0);
  }
  CHECK(poll(link.a.sends).empty());
  CHECK(count_threads() == before);
}
