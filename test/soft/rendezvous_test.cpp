// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a slot has one living tenant, comes back after a death, and never speaks for the dead; a
// rendezvous directory that others could write is refused. Method: a directory of the test's own,
// real processes and hand-made files.
#include <soft/peers/host.hpp>
#include <soft/peers/slot.hpp>
#include <soft/platform/clock.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/layout.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>

#include <optional>
#include <set>
#include <vector>

#include "rendezvous.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::soft;
using namespace lend::test;

namespace {

constexpr int some_fd = 7;

struct Seen {
  SlotTenant tenant;
  base::UniqueFd file;
  int error = 0;
};
Seen look_at(std::uint32_t slot) {
  Seen seen;
  seen.error = read_slot(meeting_place(), slot, seen.tenant, seen.file);
  return seen;
}

void write_file(std::filesystem::path const& path, std::string const& text) {
  std::ofstream{path} << text;
}

/// The lock of the claims, as long as the file is open. Empty if another has it.
base::UniqueFd lock_claims(Rendezvous const& rendezvous) {
  base::UniqueFd file{
      ::open((rendezvous.path() / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  struct flock all {};
  all.l_type = F_WRLCK;
  if (::fcntl(file.get(), F_OFD_SETLK, &all) != 0) return {};
  return file;
}

/// Claims slots, tells their instances, and lives until told to end.
int hold_slots(Wire const& wire, std::size_t count) {
  std::vector<SlotClaim> claims(count);
  for (auto& claim : claims) {
    if (claim.take(meeting_place(), some_fd) != 0) return 1;
    auto const instance = claim.tenant().instance();
    if (!wire.put(std::as_bytes(std::span{&instance, 1}))) return 2;
  }
  return wire.hear() ? 0 : 3;
}
std::uint32_t next_instance(PeerProcess const& peer) {
  std::uint32_t instance = 0;
  REQUIRE(peer.wire().take(std::as_writable_bytes(std::span{&instance, 1})));
  return instance;
}

}  // namespace

TEST_CASE("a claimed slot tells who holds it, and is gone with the claim", "[soft]") {
  Rendezvous const rendezvous;
  {
    SlotClaim claim;
    REQUIRE(claim.take(meeting_place(), some_fd) == 0);
    CHECK(claim.is_listed());
    CHECK(claim.tenant().slot == 1);

    auto const seen = look_at(1);
    REQUIRE(seen.error == 0);
    CHECK(seen.tenant.instance() == claim.tenant().instance());
    CHECK(seen.tenant.pid == ::getpid());
    CHECK(seen.tenant.start_time == start_time_of(::getpid()));
    CHECK(seen.tenant.segment_fd == some_fd);
    CHECK(presence_of(seen.tenant, seen.file.get()) == Presence::here);
    struct stat status {};
    REQUIRE(::stat(rendezvous.slot(1).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  CHECK(rendezvous.slot_files() == 0);
}

TEST_CASE("an open view of a slot sees its tenant go", "[soft]") {
  Rendezvous const rendezvous;
  Seen seen;
  {
    SlotClaim claim;
    REQUIRE(claim.take(meeting_place(), some_fd) == 0);
    seen = look_at(1);
    CHECK(lock_is_held(seen.file.get(), seen.tenant.generation));
    CHECK_FALSE(lock_is_held(seen.file.get(), seen.tenant.generation + 1));
  }
  CHECK_FALSE(lock_is_held(seen.file.get(), seen.tenant.generation));
  CHECK(presence_of(seen.tenant, seen.file.get()) == Presence::gone);
}

TEST_CASE("two claims of one process get two slots, and a slot given back is the next", "[soft]") {
  Rendezvous const rendezvous;
  SlotClaim one;
  REQUIRE(one.take(meeting_place(), some_fd) == 0);
  {
    SlotClaim two;
    REQUIRE(two.take(meeting_place(), some_fd) == 0);
    CHECK(two.tenant().slot == 2);
  }
  SlotClaim three;
  REQUIRE(three.take(meeting_place(), some_fd) == 0);
  CHECK(three.tenant().slot == 2);
}

TEST_CASE("processes that claim at once never share a slot", "[soft]") {
  Rendezvous const rendezvous;
  constexpr std::size_t each = 12;
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (int i = 0; i < 8; ++i)
    peers.push_back(std::make_unique<PeerProcess>(
        [](Wire const& wire) { return wire.hear() ? hold_slots(wire, each) : 4; }));
  for (auto const& peer : peers) REQUIRE(peer->wire().say());
  std::set<std::uint32_t> slots;
  for (auto const& peer : peers)
    for (std::size_t i = 0; i < each; ++i) slots.insert(slot_of_instance(next_instance(*peer)));

  CHECK(slots.size() == 8 * each);
  CHECK(*slots.rbegin() == 8 * each);  // and none was left out
  for (auto const& peer : peers) REQUIRE(peer->wire().say());
  for (auto const& peer : peers) CHECK(peer->exit_status() == 0);
  CHECK(rendezvous.slot_files() == 0);
}

TEST_CASE("the slot of a killed process goes to the next, with another generation", "[soft]") {
  Rendezvous const rendezvous;
  std::uint32_t before = 0;
  for (int round = 0; round < 20; ++round) {
    PeerProcess peer{[](Wire const& wire) { return hold_slots(wire, 1); }};
    auto const instance = next_instance(peer);
    CHECK(slot_of_instance(instance) == 1);
    CHECK(instance != before);
    before = instance;
    auto const seen = look_at(1);
    CHECK(presence_of(seen.tenant, seen.file.get()) == Presence::here);
    peer.kill();
    CHECK(peer.exit_status() == 128 + SIGKILL);
    CHECK(presence_of(seen.tenant, seen.file.get()) == Presence::gone);
  }
  CHECK(rendezvous.slot_files() == 1);
}

TEST_CASE("a killed process that nobody waited for counts as dead", "[soft]") {
  Rendezvous const rendezvous;
  PeerProcess peer{[](Wire const& wire) { return hold_slots(wire, 1); }};
  static_cast<void>(next_instance(peer));
  auto const seen = look_at(1);
  peer.kill();
  std::array<std::byte, 1> one{};
  CHECK_FALSE(peer.wire().take(one));  // its socket closed; the process is a zombie or soon will be

  SlotClaim claim;
  REQUIRE(claim.take(meeting_place(), some_fd) == 0);
  CHECK(claim.tenant().slot == 1);
  CHECK_FALSE(lock_is_held(seen.file.get(), seen.tenant.generation));
}

TEST_CASE("a file that names a living process speaks for it only with its lock and start time",
          "[soft]") {
  Rendezvous const rendezvous;
  auto const start = start_time_of(::getpid());
  auto const text = [](int pid, std::uint64_t started) {
    return "lend-soft 2 pid " + std::to_string(pid) + " start " + std::to_string(started) +
           " generation 5 segment 3 pids 1 times 1\n";
  };
  write_file(rendezvous.slot(1), text(::getpid(), start));
  auto const unlocked = look_at(1);
  REQUIRE(unlocked.error == 0);
  CHECK(unlocked.tenant.generation == 5);
  CHECK(presence_of(unlocked.tenant, unlocked.file.get()) == Presence::gone);

  SlotClaim claim;
  REQUIRE(claim.take(meeting_place(), some_fd) == 0);
  CHECK(claim.tenant().slot == 1);
  CHECK(claim.tenant().generation != 5);

  auto recycled = look_at(1);
  recycled.tenant.start_time = start + 1;
  CHECK(presence_of(recycled.tenant, recycled.file.get()) == Presence::gone);
}

TEST_CASE("a slot file that makes no sense is nobody's", "[soft]") {
  Rendezvous const rendezvous;
  auto const* const text =
      GENERATE("", "x", "lend-soft 1 pid 1 start 1 generation 1 segment 1\n",
               "lend-soft 2 pid -1 start 1 generation 1 segment 1 pids 1 times 1\n",
               "lend-soft 2 pid 1 start 1 generation 0 segment 1 pids 1 times 1\n",
               "lend-soft 2 pid 1 start 1 generation 9999999 segment 1 pids 1 times 1\n",
               "lend-soft 2 pid 1 start 1 generation 1 segment -4 pids 1 times 1\n",
               "lend-soft 2 pid 1 start 1 generation 1 segment 1 pids 1\n");
  CAPTURE(text);
  write_file(rendezvous.slot(1), text);

  CHECK(look_at(1).error != 0);
  SlotClaim claim;
  REQUIRE(claim.take(meeting_place(), some_fd) == 0);
  CHECK(claim.tenant().slot == 1);
  CHECK(look_at(1).error == 0);
}

TEST_CASE("the rendezvous directory is made for its user alone", "[soft]") {
  Rendezvous const rendezvous;
  std::filesystem::remove(rendezvous.path());
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  REQUIRE(meeting_place().identify(device, inode) == 0);

  struct stat status {};
  REQUIRE(::stat(rendezvous.path().c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  CHECK(status.st_uid == ::geteuid());
  CHECK(status.st_ino == inode);
  CHECK(status.st_dev == device);
}

TEST_CASE("a rendezvous directory that others own or may enter is refused with a remedy",
          "[soft]") {
  Rendezvous const rendezvous;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  SECTION("open to others") {
    REQUIRE(::chmod(rendezvous.path().c_str(), 0711) == 0);
  }
  SECTION("open to the group") {
    REQUIRE(::chmod(rendezvous.path().c_str(), 0720) == 0);
  }
  SECTION("of another user") {
    if (::geteuid() != 0) {
      WARN("skipped: only root can make a directory of another user");
      return;
    }
    REQUIRE(::chown(rendezvous.path().c_str(), 65534, 65534) == 0);
  }
  SECTION("a link to a directory that would do") {
    auto const target = rendezvous.path().string() + ".real";
    std::filesystem::rename(rendezvous.path(), target);
    std::filesystem::create_directory_symlink(target, rendezvous.path());
  }
  SECTION("a file") {
    std::filesystem::remove(rendezvous.path());
    write_file(rendezvous.path(), "");
  }

  CHECK(meeting_place().identify(device, inode) == EACCES);
  REQUIRE(last_reason() != nullptr);
  CHECK_THAT(last_reason(), Catch::Contains(rendezvous.path().string()));
  CHECK_THAT(last_reason(), Catch::Contains("LEND_SOFT_DIRECTORY"));
  auto const opened = open_device(DeviceChoice::soft());
  REQUIRE_FALSE(opened.has_value());
  CHECK_THAT(opened.error().message(), Catch::Contains("LEND_SOFT_DIRECTORY"));
  std::filesystem::remove_all(rendezvous.path().string() + ".real");
}

TEST_CASE("an empty LEND_SOFT_DIRECTORY chooses the directory that none does", "[soft]") {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t device_of_none = 0;
  std::uint64_t inode_of_none = 0;
  ::unsetenv("LEND_SOFT_DIRECTORY");
  REQUIRE(meeting_place().identify(device_of_none, inode_of_none) == 0);

  ::setenv("LEND_SOFT_DIRECTORY", "", 1);
  auto const error = meeting_place().identify(device, inode);
  ::unsetenv("LEND_SOFT_DIRECTORY");

  CHECK(error == 0);
  CHECK(device == device_of_none);
  CHECK(inode == inode_of_none);
}

TEST_CASE("processes that cannot meet have different reachability numbers", "[soft]") {
  Rendezvous const rendezvous;
  std::uint64_t here = 0;
  std::uint64_t again = 0;
  REQUIRE(reachability_guid(meeting_place(), here) == 0);
  REQUIRE(reachability_guid(meeting_place(), again) == 0);
  CHECK(here == again);
  Rendezvous const elsewhere;
  std::uint64_t there = 0;
  REQUIRE(reachability_guid(meeting_place(), there) == 0);
  CHECK(here != there);
}

TEST_CASE("who holds the lock of the claims keeps others waiting, but not for ever", "[soft]") {
  Rendezvous const rendezvous;
  bool const lets_go = GENERATE(true, false);
  PeerProcess holder{[&](Wire const& wire) {
    auto const file = lock_claims(rendezvous);
    if (!file || !wire.say() || !wire.hear()) return 1;
    ::usleep(30'000);  // for a while beside the claim, which the alarms interrupt
    return lets_go ? 0 : static_cast<int>(wire.hear());
  }};
  REQUIRE(holder.wire().hear());
  struct sigaction to_nothing {};
  to_nothing.sa_handler = [](int) {};  // without SA_RESTART
  struct sigaction before {};
  REQUIRE(::sigaction(SIGALRM, &to_nothing, &before) == 0);
  itimerval const often{{0, 1000}, {0, 1000}};
  REQUIRE(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  REQUIRE(holder.wire().say());

  SlotClaim claim;
  auto const error = lets_go ? claim.take(meeting_place(), some_fd)
                             : claim.take(meeting_place(), some_fd, 200'000'000);

  itimerval const never{};
  REQUIRE(::setitimer(ITIMER_REAL, &never, nullptr) == 0);
  REQUIRE(::sigaction(SIGALRM, &before, nullptr) == 0);
  CHECK(error == (lets_go ? 0 : ETIMEDOUT));
  if (!lets_go) CHECK(std::string{last_reason()}.find("\"lock\"") != std::string::npos);
}

TEST_CASE(
    "a slot that is given back beside the lock of the claims is the next one's, and nobody waits "
    "long",
    "[soft]") {
  Rendezvous const rendezvous;
  std::optional<SlotClaim> claim{std::in_place};
  REQUIRE(claim->take(meeting_place(), some_fd) == 0);
  auto const seen = look_at(1);
  auto file = lock_claims(rendezvous);
  REQUIRE(file);
  auto const began = now();

  claim.reset();

  CHECK(now() - began < claim_patience / 2);
  CHECK(rendezvous.slot_files() == 1);
  CHECK(presence_of(seen.tenant, seen.file.get()) == Presence::gone);
  file = {};
  SlotClaim next;
  REQUIRE(next.take(meeting_place(), some_fd) == 0);
  CHECK(next.tenant().slot == 1);
}
