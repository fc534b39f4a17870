// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: nobody who lives is taken for dead: not by one who has no descriptor left to look with, and
// not after its main thread ended. Method: a process opens and connects beside another at every
// number of free descriptors; a process goes on in a second thread.
#include <soft/engine/engine.hpp>
#include <soft/objects/context.hpp>
#include <soft/peers/host.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

struct HoldersEnd {
  std::uint32_t number = 0;
  Remote mapped;    // memory of the device
  Remote attached;  // memory of the process
};

// -- descriptors ---------------------------------------------------------------------------------

/// From here on this process can open `count` files more.
bool leave_descriptors(int count) {
  constexpr int below = 200;  // more than it has open
  int file = -1;
  do file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  while (file >= 0 && file < below);
  if (file < 0) return false;
  ::close(file);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = static_cast<rlim_t>(file + count);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}
void raise_limit() {
  rlimit limit{};
  static_cast<void>(::getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

/// Whether the call that just failed says that descriptors ran out.
bool says_so(int error) {
  auto const* const reason = ibv().last_reason();
  return error == EMFILE && reason != nullptr &&
         std::string{reason}.find(std::strerror(EMFILE)) != std::string::npos;
}

/// Holds a device; each peer that comes gets a queue pair.
int hold_many(Wire const& wire) {
  RawDevice const device;
  RawMemory const memory{device, 64};
  RawQueue const queue{device};
  for (;;) {
    RawPair const pair{device, queue};
    std::uint32_t theirs = 0;
    if (!tell(wire, HoldersEnd{pair.number(), memory.remote(), {}}) || !hear(wire, theirs))
      return 1;
    if (theirs == 0) return 0;
    if (theirs != UINT32_MAX && pair.connect(theirs) != 0) return 2;
    if (!wire.say() || !wire.hear()) return 3;
  }
}

/// 0: it opened a device, which waits for a word to close; 1: it could not, and said why.
int try_to_open(Wire const& wire, int descriptors) {
  if (!leave_descriptors(descriptors)) return 2;
  auto* const context = open_or_null();
  auto const error = errno;
  bool const is_clear = context != nullptr || says_so(error);
  raise_limit();
  if (!is_clear) return 3;
  if (!wire.say() || !wire.hear()) return 4;
  if (context == nullptr) return 1;
  return ibv().close_device(context) == 0 ? 0 : 5;
}

bool is_out_of_descriptors(ibv_wc const& end) {
  return end.status == IBV_WC_RETRY_EXC_ERR &&
         end.vendor_err == static_cast<std::uint32_t>(soft::Fault::no_descriptor);
}

/// 0: it connected, and its write did not end as one to the dead; 1: it could not, and said why.
int try_to_connect(Wire const& wire, int descriptors, HoldersEnd const& other) {
  // Without cross-memory attach, memory is mapped when it is first reached: one descriptor more.
  if (::setenv("LEND_SOFT_CMA", "never", 1) != 0) return 2;
  RawDevice const device;
  RawMemory const memory{device, 64};
  RawQueue const queue{device};
  RawPair const pair{device, queue};
  if (!tell(wire, pair.number()) || !wire.hear()) return 2;
  if (!leave_descriptors(descriptors)) return 2;
  auto const error = pair.connect(other.number);
  bool const is_clear = error == 0 || says_so(error);
  ibv_wc end{};
  if (error == 0 && pair.write(1, memory.piece(0, 8), other.mapped) == 0) end = next_of(queue);
  raise_limit();
  if (!is_clear) return 3;
  if (end.status != IBV_WC_SUCCESS && !is_out_of_descriptors(end)) return 4;
  return error == 0 ? 0 : 1;
}

enum class Asks { write, read, add, send, send_to_pool };

/// 0 when what needs the peer's memory, which cannot be mapped, ended so and left the peer whole.
int try_to_reach(Asks asks) {
  if (::setenv("LEND_SOFT_CMA", "never", 1) != 0) return 1;
  RawDevice const device;
  RawDevice const other;
  RawMemory const memory{device, 64};
  RawMemory const theirs{other, 64};
  RawQueue const queue{device};
  RawQueue const their_queue{other};
  RawPool const pool{other, 16};
  RawPair const pair{device, queue};
  RawPair const their_pair{other, their_queue, 64,
                           asks == Asks::send_to_pool ? pool.get() : nullptr};
  if (pair.connect(their_pair.number()) != 0 || their_pair.connect(pair.number()) != 0) return 2;
  if (asks == Asks::send && their_pair.receive(1, theirs.piece(0, 64)) != 0) return 3;
  if (asks == Asks::send_to_pool && pool.receive(1, theirs.piece(0, 64)) != 0) return 3;
  if (!leave_descriptors(0)) return 4;
  auto const all = memory.piece(0, 64);
  auto const error = asks == Asks::write  ? pair.write(1, all, theirs.remote())
                     : asks == Asks::read ? pair.read(1, all, theirs.remote())
                     : asks == Asks::add
                         ? pair.fetch_and_add(1, memory.piece(0, 8), theirs.remote(), 1)
                         : pair.send(1, all);
  ibv_wc end{};
  bool const is_over = error == 0 && queue.poll(1, &end) == 1;
  raise_limit();
  if (!is_over || !is_out_of_descriptors(end)) return 5;
  // As when memory of ours is gone: of a shared queue the receive that was taken ends.
  bool const is_lost = their_queue.poll(1, &end) == 1;
  if (is_lost != (asks == Asks::send_to_pool)) return 6;
  if (is_lost && end.status != IBV_WC_REM_ABORT_ERR) return 7;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  if (ibv().query_qp(their_pair.get(), &attributes, IBV_QP_STATE, &made) != 0) return 8;
  pollfd event{other.context()->async_fd, POLLIN, 0};
  return attributes.qp_state == IBV_QPS_RTS && ::poll(&event, 1, 0) == 0 ? 0 : 9;
}

std::string text_of(std::filesystem::path const& file) {
  std::ifstream stream{file};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

/// Every slot file says when its process started, and the first is as it was.
void check_slots(Rendezvous const& rendezvous, std::string const& first) {
  CHECK(text_of(rendezvous.slot(1)) == first);
  for (auto const& entry : std::filesystem::directory_iterator{rendezvous.path()})
    CHECK(text_of(entry.path()).find("start 0 ") == std::string::npos);
}

// -- threads -------------------------------------------------------------------------------------

enum class Ends { before_it_opens, after_it_connects };

/// This thread of a forked process ends, and no destructor of its frames runs.
[[noreturn]] void end_this_thread() {
  for (;;) ::syscall(SYS_exit, 0);
}
void await_end_of_main_thread() {
  while (soft::living_thread_of(::getpid()) == ::getpid()) ::sched_yield();
}

/// In the second thread: takes a message while it sleeps, then waits to be killed.
int go_on(Wire const& wire, Ends ends) {
  if (ends == Ends::before_it_opens) await_end_of_main_thread();
  RawDevice const device;
  RawMemory const mapped{device, 64};
  RawMemory const attached{device, 64, Where::private_memory};
  RawChannel const channel{device};
  RawQueue const queue{device, 16, &channel};
  RawPair const pair{device, queue};
  std::uint32_t theirs = 0;
  if (!tell(wire, HoldersEnd{pair.number(), mapped.remote(), attached.remote()})) return 1;
  if (!hear(wire, theirs) || pair.connect(theirs) != 0) return 2;
  if (!wire.say() || !wire.hear()) return 3;  // both have connected
  if (ends == Ends::after_it_connects) await_end_of_main_thread();
  if (pair.receive(1, mapped.piece(32, 8)) != 0) return 4;
  if (::ibv_req_notify_cq(queue.get(), 0) != 0 || !wire.say()) return 5;
  if (!channel.wait(10'000) || next_of(queue).status != IBV_WC_SUCCESS) return 6;
  if (!wire.say()) return 7;
  for (;;) ::pause();
}

}  // namespace

TEST_CASE("who has no descriptor left takes nobody's slot, and says what is short",
          "[two_process]") {
  Rendezvous const rendezvous;
  PeerProcess holder{hold_many};
  HoldersEnd told;
  REQUIRE(hear(holder.wire(), told));
  auto const first = text_of(rendezvous.slot(1));
  int refused = 0;
  int connected = 0;
  for (int descriptors = 0; descriptors <= 12; ++descriptors) {
    CAPTURE(descriptors);
    {
      PeerProcess opener{[=](Wire const& wire) { return try_to_open(wire, descriptors); }};
      bool const is_clear = opener.wire().hear();
      check_slots(rendezvous, first);
      if (is_clear) static_cast<void>(opener.wire().say());
      auto const status = opener.exit_status();
      CHECK(status < 2);
      refused += status == 1;
    }
    PeerProcess other{[=](Wire const& wire) { return try_to_connect(wire, descriptors, told); }};
    std::uint32_t number = 0;
    REQUIRE(hear(other.wire(), number));
    REQUIRE(tell(holder.wire(), number));
    REQUIRE(holder.wire().hear());
    REQUIRE(other.wire().say());
    auto const status = other.exit_status();
    CHECK(status < 2);
    connected += status == 0;
    check_slots(rendezvous, first);
    REQUIRE(holder.wire().say());
    REQUIRE(hear(holder.wire(), told));
  }
  // Both ends of the scale were met.
  CHECK(refused > 0);
  CHECK(refused < 13);
  CHECK(connected > 0);
  CHECK(connected < 13);
  REQUIRE(tell(holder.wire(), std::uint32_t{0}));
  CHECK(holder.exit_status() == 0);
}

TEST_CASE("who has no descriptor to map a peer's memory by breaks its own end alone",
          "[two_process]") {
  Rendezvous const rendezvous;
  auto const asks = GENERATE(Asks::write, Asks::read, Asks::add, Asks::send, Asks::send_to_pool);
  CAPTURE(static_cast<int>(asks));
  PeerProcess sender{[=](Wire const&) { return try_to_reach(asks); }};
  CHECK(sender.exit_status() == 0);
}

TEST_CASE("a process whose main thread ended lives, is reached and woken, and can be killed",
          "[two_process]") {
  if (!soft::cross_memory().possible()) {
    WARN("skipped: " << soft::cross_memory().obstacle);
    return;
  }
  auto const ends = GENERATE(Ends::before_it_opens, Ends::after_it_connects);
  CAPTURE(static_cast<int>(ends));
  Rendezvous const rendezvous;
  PeerProcess peer{[=](Wire const& wire) -> int {
    std::thread{[&wire, ends] { ::_exit(go_on(wire, ends)); }}.detach();
    end_this_thread();
  }};
  HoldersEnd theirs;
  REQUIRE(hear(peer.wire(), theirs));
  RawDevice const device;
  RawMemory const memory{device, 64};
  RawQueue const queue{device};
  RawPair const pair{device, queue};
  auto& context = soft::Context::of(device.context());
  CHECK(context.slot.tenant().slot == 2);  // the first is not taken for a dead one's
  REQUIRE(pair.connect(theirs.number) == 0);
  REQUIRE(tell(peer.wire(), pair.number()));
  REQUIRE(peer.wire().hear());
  REQUIRE(peer.wire().say());
  REQUIRE(peer.wire().hear());  // now its main thread is gone, and the other one about to sleep
  auto* const known = context.peers.acquire(theirs.number >> soft::index_bits);
  REQUIRE(known != nullptr);
  CHECK_FALSE(context.peers.instance_is_dead(known->instance()));
  CHECK_FALSE(known->is_going());

  REQUIRE(pair.write(1, memory.piece(0, 8), theirs.attached) == 0);
  CHECK(next_of(queue).status == IBV_WC_SUCCESS);
  REQUIRE(pair.fetch_and_add(2, memory.piece(0, 8), theirs.attached, 1) == 0);
  CHECK(next_of(queue).status == IBV_WC_SUCCESS);
  REQUIRE(pair.write(3, memory.piece(0, 8), theirs.mapped) == 0);
  CHECK(next_of(queue).status == IBV_WC_SUCCESS);
  REQUIRE(pair.send(4, memory.piece(0, 8)) == 0);
  CHECK(next_of(queue).status == IBV_WC_SUCCESS);
  CHECK(peer.wire().hear());  // it woke

  REQUIRE(pair.send(5, memory.piece(0, 8)) == 0);  // for which there is no receive
  peer.kill();
  CHECK(next_of(queue).status == IBV_WC_RETRY_EXC_ERR);
  CHECK(context.peers.instance_is_dead(known->instance()));
  context.peers.release(known);
  CHECK(peer.exit_status() == 128 + SIGKILL);
}
