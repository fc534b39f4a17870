// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever waits for a peer that is stopped in the middle of a copy returns within seconds,
// also in destructors and while an exception unwinds; the bytes that the peer may still write stay
// on loan for good, and are whole when it goes on. Method: a child is walked into its copy
// instruction by instruction, and left stopped there.
#include <base/poison.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "rendezvous.hpp"
#include "stopping.hpp"
#include "support/canceller.hpp"

#ifdef LEND_HAS_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

namespace lend::test::stopped_channel {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::size_t size = 4096;
// Twice the 2 s of the flush and of the queue pair's end, and much for a loaded machine.
constexpr auto soon = 60s;

int be_stopped(Wire const& wire) {
  if (!let_parent_trace()) return 1;
  auto end = one_end(wire);
  auto memory = must(end.domain.allocate(size));
  std::memset(must(memory.mutable_bytes()).data(), 'x', size);
  breakpoint();
  auto const sent = end.channel.send(memory.gather(), within(20s));
  return wire.say() && sent.has_value() ? 0 : 2;
}

// What a stopped peer may still write is leaked, which LeakSanitizer would report.
#ifdef LEND_HAS_ADDRESS_SANITIZER
using MayLeak = __lsan::ScopedDisabler;
#else
struct MayLeak {
  MayLeak() noexcept {}
};
#endif

enum class Way { timeout, cancellation, scope_exit, channel_end };

struct Interrupted : std::exception {};

/// The bytes are on loan for good, and the error says why.
void check_reason(Error const& error, pid_t peer) {
  CHECK(error == Errc::system_failed);
  CHECK(error.os_error() == EBUSY);
  CHECK(error.message().find("process " + std::to_string(peer)) != std::string::npos);
}

/// Ends what waits for the peer; a receive is outstanding in `scope`.
void end_by(Way way, std::optional<OneEnd>& end, MemoryRegion& other,
            std::optional<PollingScope>& scope, pid_t peer) {
  auto& channel = end->channel;
  if (way == Way::timeout)
    check_reason(error_of(channel.receive(other.scatter(), within(30ms))), peer);
  if (way == Way::cancellation)
    check_reason(error_of(channel.receive(other.scatter(), Canceller{30ms}.deadline())), peer);
  if (way == Way::scope_exit) scope->drain_within(30ms);
  if (way == Way::channel_end) end.reset();
  scope.reset();
}

/// A peer that writes to the region of which it is told; its parent may stop it there.
int write_when_told(Wire const& wire) {
  if (!let_parent_trace()) return 1;
  auto end = one_end(wire);
  auto memory = must(end.domain.allocate(size));
  std::memset(must(memory.mutable_bytes()).data(), 'x', size);
  std::array<std::byte, RemoteRegion::encoded_size> told{};
  if (!wire.take(told)) return 2;
  auto const remote = must(RemoteRegion::decode(told));
  breakpoint();
  static_cast<void>(end.channel.write({memory.gather(), remote}, within(20s)));
  return wire.say() ? 0 : 3;
}

}  // namespace

TEST_CASE("no end waits long for a peer that is stopped in the middle of a copy", "[soft]") {
  auto const way = GENERATE(Way::timeout, Way::cancellation, Way::scope_exit, Way::channel_end);
  CAPTURE(static_cast<int>(way));
  Rendezvous const rendezvous;
  PeerProcess peer{be_stopped};
  std::optional<OneEnd> end{one_end(peer.wire())};
  std::optional<MemoryRegion> memory{must(end->domain.allocate(size))};
  auto other = must(end->domain.allocate(size));
  auto const bytes = must(memory->mutable_bytes());
  auto& queue_pair = first_queue_pair_of(soft::Context::of(end->context.native()));
  std::optional<PollingScope> scope{std::in_place, end->channel};
  auto arrival = must(scope->post_receive(memory->scatter()));
  stop_in_request(peer, queue_pair, At::copy, bytes);

  auto const began = Clock::now();
  end_by(way, end, other, scope, peer.pid());
  CHECK(memory->loans() == 1);
  memory.reset();
  if (end) CHECK(end->channel.first_cause() != nullptr);
  end.reset();
  CHECK(Clock::now() - began < soon);

  REQUIRE(::kill(peer.pid(), SIGCONT) == 0);
  REQUIRE(peer.wire().hear());
  CHECK(peer.exit_status() == 0);
  // SAFETY: the region is leaked, for its loan never ends.
  for (auto const& byte : bytes) REQUIRE(peek(byte) == std::byte{'x'});
}

TEST_CASE("an exception does not wait long for a peer that is stopped in the middle of a copy",
          "[soft]") {
  Rendezvous const rendezvous;
  PeerProcess peer{be_stopped};
  auto end = one_end(peer.wire());
  auto memory = must(end.domain.allocate(size));
  auto const bytes = must(memory.mutable_bytes());
  auto& queue_pair = first_queue_pair_of(soft::Context::of(end.context.native()));
  auto began = Clock::now();
  try {
    PollingScope scope{end.channel};
    auto arrival = must(scope.post_receive(memory.scatter()));
    stop_in_request(peer, queue_pair, At::copy, bytes);
    began = Clock::now();
    throw Interrupted{};
  } catch (Interrupted const&) {
  }
  CHECK(Clock::now() - began < soon);
  CHECK(memory.loans() == 1);
}

TEST_CASE("the end of an exposure does not wait long for a peer that is stopped while it writes",
          "[soft]") {
  bool const is_owned = GENERATE(true, false);
  CAPTURE(is_owned);
  Rendezvous const rendezvous;
  PeerProcess peer{write_when_told};
  auto end = one_end(peer.wire());
  static std::array<std::byte, size> viewed{};  // for as long as the peer may write there
  std::optional<MemoryRegion> memory{
      must(is_owned ? end.domain.allocate(size) : end.domain.register_memory(viewed))};
  auto const bytes = must(memory->mutable_bytes());
  auto const expose = [&] {
    [[maybe_unused]] MayLeak const registration;
    // SAFETY: the bytes are looked at as the peer's until it ends.
    return must(memory->unsafe_expose(RemoteAccess::write));
  };
  std::optional<Exposure> exposure{expose()};
  auto beside = must(end.domain.allocate(size));
  std::optional<Exposure> exposed_beside{must(beside.unsafe_expose(RemoteAccess::write))};
  REQUIRE(peer.wire().put(exposure->remote().encode()));
  // The bytes of a view are moved by a system call, in whose middle no peer is stopped.
  stop_in_request(peer, first_queue_pair_of(soft::Context::of(end.context.native())),
                  is_owned ? At::copy : At::key, bytes);

  auto const began = Clock::now();
  must(exposed_beside->finish());
  check_reason(error_of(exposure->finish()), peer.pid());
  CHECK(memory->loans() == 1);
  // A view would stop the process at its end; this one has none.
  if (!is_owned) {
    [[maybe_unused]] MayLeak const region;
    static_cast<void>(new MemoryRegion{std::move(*memory)});
  }
  memory.reset();
  CHECK(Clock::now() - began < soon);

  REQUIRE(::kill(peer.pid(), SIGCONT) == 0);
  REQUIRE(peer.wire().hear());
  CHECK(peer.exit_status() == 0);
  if (!is_owned) return;  // the key had gone before it was looked up
  // SAFETY: the bytes are leaked, for their registration could not be ended.
  for (auto const& byte : bytes) REQUIRE(peek(byte) == std::byte{'x'});
}

TEST_CASE("a recall does not wait long for a peer that is stopped while it writes, and says so",
          "[soft]") {
  enum class Then { goes_on, dies, stays };
  auto const then = GENERATE(Then::goes_on, Then::dies, Then::stays);
  CAPTURE(static_cast<int>(then));
  Rendezvous const rendezvous;
  PeerProcess peer{write_when_told};
  auto end = one_end(peer.wire());
  std::optional<MemoryRegion> memory{must(end.domain.allocate(size))};
  auto const bytes = must(memory->mutable_bytes());
  std::optional<PollingScope> scope{std::in_place, end.channel};
  auto loan = must(scope->post_lend(memory->scatter()));
  REQUIRE(peer.wire().put(loan.remote().encode()));
  stop_in_request(peer, first_queue_pair_of(soft::Context::of(end.context.native())), At::copy,
                  bytes);

  auto const began = Clock::now();
  auto const late = error_of(loan.recall(within(30ms)));
  CHECK(late == Errc::timed_out);
  CHECK(late.message().find("still on loan") != std::string::npos);
  CHECK_FALSE(must(loan.is_over()));
  CHECK(memory->loans() == 1);
  if (then == Then::stays) {
    scope->drain_within(30ms);
    check_reason(error_of(scope->finish()), peer.pid());
    CHECK(memory->loans() == 1);
    memory.reset();
  }
  CHECK(Clock::now() - began < soon);

  if (then == Then::dies) {
    REQUIRE(::kill(peer.pid(), SIGKILL) == 0);
  } else {
    REQUIRE(::kill(peer.pid(), SIGCONT) == 0);
    REQUIRE(peer.wire().hear());
    CHECK(peer.exit_status() == 0);
  }
  if (then != Then::stays) {
    must(loan.recall(within(20s)));
    CHECK(must(loan.is_over()));
    CHECK(memory->loans() == 0);
  }
  // SAFETY: they are the program's again, or leaked, for their loan never ends.
  if (then != Then::dies)
    for (auto const& byte : bytes) REQUIRE(peek(byte) == std::byte{'x'});
}

}  // namespace lend::test::stopped_channel
