// SPDX-License-Identifier: MIT OR Apache-2.0
// Slots alone: claims, stale files of the dead, forked children, and who counts as alive.
#include <soft/peers/slot.hpp>
#include <soft/platform/reason.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "rendezvous.hpp"
#include "soft/support.hpp"

namespace {

using namespace lend;
using namespace lend::soft;
using lend::base::UniqueFd;
using lend::test::meeting_place;
using lend::test::Rendezvous;

/// A child that has claimed a slot and sleeps. With `leaves_child`, a child of its own that
/// inherits the lock and waits until `release` is closed.
pid_t claim_in_child(bool leaves_child = false, int const* release = nullptr) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    SlotClaim claim;
    if (claim.take(meeting_place(), 3) != 0) ::_exit(1);
    if (leaves_child && ::fork() == 0) {
      char byte = 0;
      ::close(release[1]);
      ::close(ready[0]);
      ::close(ready[1]);
      (void)!::read(release[0], &byte, 1);
      ::_exit(0);
    }
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  return child;
}

void kill_and_wait(pid_t child) {
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
}

bool is_alive(std::uint32_t slot) {
  SlotTenant tenant;
  UniqueFd file;
  return read_slot(meeting_place(), slot, tenant, file) == 0 &&
         presence_of(tenant, file.get()) == Presence::here;
}

}  // namespace

TEST_CASE("claims take the lowest free slots, can be read, and leave no file", "[soft]") {
  Rendezvous const rendezvous;
  {
    SlotClaim first;
    SlotClaim second;
    REQUIRE(first.take(meeting_place(), 7) == 0);
    REQUIRE(second.take(meeting_place(), 8) == 0);
    CHECK(first.tenant().slot == 1);
    CHECK(second.tenant().slot == 2);
    CHECK(first.tenant().instance() != second.tenant().instance());

    SlotTenant tenant;
    UniqueFd file;
    REQUIRE(read_slot(meeting_place(), 2, tenant, file) == 0);
    CHECK(tenant.pid == ::getpid());
    CHECK(tenant.segment_fd == 8);
    CHECK(tenant.instance() == second.tenant().instance());
    CHECK(presence_of(tenant, file.get()) == Presence::here);
    CHECK(first.is_listed());
  }
  CHECK(!std::filesystem::exists(rendezvous.slot(1)));
  CHECK(!std::filesystem::exists(rendezvous.slot(2)));
}

TEST_CASE("the slot of a killed process is dead at once, and the next claim reuses it", "[soft]") {
  Rendezvous const rendezvous;
  auto const child = claim_in_child();
  REQUIRE(is_alive(1));
  SlotTenant before;
  UniqueFd file;
  REQUIRE(read_slot(meeting_place(), 1, before, file) == 0);

  kill_and_wait(child);

  CHECK(std::filesystem::exists(rendezvous.slot(1)));
  CHECK(!is_alive(1));
  SlotClaim claim;
  REQUIRE(claim.take(meeting_place(), 3) == 0);
  CHECK(claim.tenant().slot == 1);
  CHECK(claim.tenant().generation != before.generation);
  // The old tenant stays dead, though its slot has a living one.
  CHECK(presence_of(before, file.get()) == Presence::gone);
}

TEST_CASE("a forked child that keeps the lock of a dead owner does not keep the slot", "[soft]") {
  Rendezvous const rendezvous;
  int release[2];
  REQUIRE(::pipe(release) == 0);
  auto const child = claim_in_child(true, release);
  kill_and_wait(child);

  SlotTenant before;
  UniqueFd file;
  REQUIRE(read_slot(meeting_place(), 1, before, file) == 0);
  CHECK(lock_is_held(file.get(), before.generation));
  CHECK(presence_of(before, file.get()) == Presence::gone);
  SlotClaim claim;
  CHECK(claim.take(meeting_place(), 3) == 0);
  CHECK(claim.tenant().slot == 1);
  ::close(release[0]);
  ::close(release[1]);
}

TEST_CASE("a recycled pid is not taken for the tenant", "[soft]") {
  Rendezvous const rendezvous;
  SlotClaim claim;
  REQUIRE(claim.take(meeting_place(), 3) == 0);
  SlotTenant tenant;
  UniqueFd file;
  REQUIRE(read_slot(meeting_place(), 1, tenant, file) == 0);

  tenant.start_time += 1;

  CHECK(presence_of(tenant, file.get()) == Presence::gone);
}

TEST_CASE("a tenant of another pid or time namespace is never taken for dead", "[soft]") {
  Rendezvous const rendezvous;
  SlotClaim claim;
  REQUIRE(claim.take(meeting_place(), 3) == 0);
  SlotTenant tenant;
  UniqueFd file;
  REQUIRE(read_slot(meeting_place(), 1, tenant, file) == 0);
  REQUIRE(tenant.namespaces == own_namespaces());
  // As its own namespace knows it; here that number is nobody's, or another's.
  std::string const pids = " pids " + std::to_string(tenant.namespaces.pid);
  std::string const times = " times " + std::to_string(tenant.namespaces.time);
  bool const is_of_other_pids = GENERATE(true, false);
  std::ofstream{rendezvous.slot(1)}
      << "lend-soft 2 pid " << INT_MAX << " start 1 generation " << tenant.generation
      << " segment 3" << (is_of_other_pids ? pids + '1' + times : pids + times + '1') << '\n';

  REQUIRE(read_slot(meeting_place(), 1, tenant, file) == 0);
  CHECK(presence_of(tenant, file.get()) == Presence::unknown);
  CHECK(errno == EXDEV);
  SlotClaim next;
  REQUIRE(next.take(meeting_place(), 3) == 0);
  CHECK(next.tenant().slot == 2);
  CHECK(claim.is_listed());
}

TEST_CASE("each claim beside many dead slots takes one of them, until none is left", "[soft]") {
  Rendezvous const rendezvous;
  constexpr std::uint32_t dead = 50;
  for (std::uint32_t slot = 1; slot <= dead; ++slot) {
    UniqueFd const file{
        ::open(rendezvous.slot(3 * slot).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    REQUIRE(file);
  }

  for (std::uint32_t left = dead; left > 0; --left) {
    REQUIRE(rendezvous.slot_files() == left);
    SlotClaim claim;
    REQUIRE(claim.take(meeting_place(), 3) == 0);
    CHECK(claim.tenant().slot % 3 == 0);
  }

  CHECK(rendezvous.slot_files() == 0);
}

TEST_CASE("slot files full of garbage are nobody's, and are reused", "[soft]") {
  Rendezvous const rendezvous;
  UniqueFd const file{::open(rendezvous.slot(1).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  REQUIRE(::write(file.get(), "lend-soft 2 pid -5 start x\n", 27) == 27);
  SlotTenant tenant;
  UniqueFd read;
  CHECK(read_slot(meeting_place(), 1, tenant, read) == EBADMSG);

  SlotClaim claim;
  CHECK(claim.take(meeting_place(), 3) == 0);
  CHECK(claim.tenant().slot == 1);
}

TEST_CASE("a rendezvous directory that others could enter is refused", "[soft]") {
  Rendezvous const rendezvous;
  REQUIRE(::chmod(rendezvous.path().c_str(), 0755) == 0);
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  CHECK(meeting_place().identify(device, inode) == EACCES);
}

TEST_CASE("a device keeps the rendezvous directory that it was opened with", "[soft]") {
  Rendezvous const rendezvous;
  auto const& place = rendezvous.path();
  auto const before = std::filesystem::current_path();
  std::filesystem::current_path(place.parent_path());
  ::setenv("LEND_SOFT_DIRECTORY", place.filename().c_str(), 1);
  {
    lend::test::Link link{lend::test::Reach::two_contexts};
    CHECK(rendezvous.slot_files() == 2);

    std::filesystem::current_path("/");
    if (GENERATE(true, false)) ::unsetenv("LEND_SOFT_DIRECTORY");

    link.connect();
  }
  CHECK(rendezvous.slot_files() == 0);
  std::filesystem::current_path(before);
}

TEST_CASE("a rendezvous directory of too long a name is refused, and says how long it may be",
          "[soft]") {
  Rendezvous const rendezvous;
  auto const parent = rendezvous.path().string() + '/';
  std::string name(RendezvousDirectory::length_max - parent.size(), 'd');
  ::setenv("LEND_SOFT_DIRECTORY", (parent + name).c_str(), 1);
  {
    auto const context = lend::test::open_context();
    CHECK(std::filesystem::exists(parent + name + "/slot.1"));
  }

  name += 'd';
  bool const is_relative = GENERATE(true, false);
  auto const before = std::filesystem::current_path();
  std::filesystem::current_path(parent);
  ::setenv("LEND_SOFT_DIRECTORY", (is_relative ? name : parent + name).c_str(), 1);
  auto** const list = lend::test::ibv().get_device_list(nullptr);

  CHECK(lend::test::ibv().open_device(list[0]) == nullptr);

  CHECK(errno == ENAMETOOLONG);
  std::string const reason = last_reason();
  CHECK(reason.find("LEND_SOFT_DIRECTORY") != std::string::npos);
  CHECK(reason.find("at most 239") != std::string::npos);
  lend::test::ibv().free_device_list(list);
  std::filesystem::current_path(before);
}

TEST_CASE("a claim sees that its file was removed by hand, and closes in peace", "[soft]") {
  Rendezvous const rendezvous;
  SlotClaim claim;
  REQUIRE(claim.take(meeting_place(), 3) == 0);
  std::filesystem::remove(rendezvous.slot(1));
  CHECK(!claim.is_listed());
  SlotClaim next;
  REQUIRE(next.take(meeting_place(), 3) == 0);
  CHECK(next.tenant().slot == 1);
  CHECK(next.is_listed());
}
