// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: limits and permissions are those of the calling process, and what follows from them is so.
// Method: children with real limits, users, mounts and filters; what was predicted is tried there.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <lend/lend.hpp>

#include <cstddef>
#include <vector>

#include "doctor/tree.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr uid_t user_nobody = 65'534;

constexpr int could_not = 77;

/// The exit status of a child that does this, which answers whether all was as expected.
template <class Do>
int in_child(Do&& act) {
  auto const child = ::fork();
  if (child == 0) ::_exit(act());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

/// That a child saw all as expected, or that this machine cannot make the condition.
void check_status(int status) {
  if (status == could_not) WARN("skipped: this process may not make the condition");
  CHECK((status == 0 || status == could_not));
}

/// The findings of one check in this process; `tree` has the devices.
Finding only_finding(void (*check)(doctor::Host const&, doctor::Notes&), doctor::Host const& host) {
  std::vector<Finding> findings;
  doctor::Notes notes{"id", "page", findings};
  check(host, notes);
  return findings.empty() ? Finding{} : findings.front();
}

/// A host with a card and the limits of the process itself.
struct OwnLimits {
  OwnLimits() {
    tree.add_card();
    std::filesystem::create_symlink("/proc", tree.root() + "/proc");
    std::filesystem::permissions(tree.root(), std::filesystem::perms{0755});
  }
  Tree tree{};
};

bool limit(int which, rlim_t soft) {
  rlimit value{};
  if (::getrlimit(static_cast<__rlimit_resource>(which), &value) != 0) return false;
  value.rlim_cur = std::min(soft, value.rlim_max);
  return ::setrlimit(static_cast<__rlimit_resource>(which), &value) == 0;
}

/// Whether the kernel lets this process lock as much.
bool can_lock(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // Sanitizers replace mlock() by nothing.
  auto const locks = ::syscall(SYS_mlock, memory, bytes) == 0;
  ::munmap(memory, bytes);
  return locks;
}

}  // namespace

TEST_CASE("a limit of locked memory fails as mlock() does, unless the process may override it",
          "[doctor]") {
  OwnLimits const own;
  constexpr std::size_t mib = 1024 * 1024;
  doctor::Host const host{.root = own.tree.root()};

  CHECK(in_child([&] {
          if (::geteuid() == 0 && ::setresuid(user_nobody, user_nobody, user_nobody) != 0) return 1;
          if (!limit(RLIMIT_MEMLOCK, mib / 2)) return 2;
          auto const few = only_finding(&doctor::check_locked_memory, host);
          if (few.level != fail || can_lock(mib)) return 3;
          return few.why.find("more than 512 KiB") != few.why.npos ? 0 : 4;
        }) == 0);
  if (::geteuid() == 0) {
    CHECK(in_child([&] {
            if (!limit(RLIMIT_MEMLOCK, mib / 2)) return 2;
            auto const level = only_finding(&doctor::check_locked_memory, host).level;
            return (level == ok) == can_lock(mib) ? 0 : 3;  // root in a container may not
          }) == 0);
  }
}

TEST_CASE("few descriptors and a single CPU are found", "[doctor]") {
  OwnLimits const own;
  doctor::Host const host{.root = own.tree.root()};

  CHECK(in_child([&] {
          if (!limit(RLIMIT_NOFILE, 64)) return 1;
          return only_finding(&doctor::check_descriptors, host).level == warn ? 0 : 2;
        }) == 0);
  CHECK(in_child([&] {
          rlimit const both{64, 64};  // which the advice has to exceed
          if (::setrlimit(RLIMIT_NOFILE, &both) != 0) return 1;
          auto const mend = only_finding(&doctor::check_descriptors, host).mend;
          return mend.find("4096") != mend.npos ? 0 : 2;
        }) == 0);
  CHECK(in_child([&] {
          cpu_set_t set;
          CPU_ZERO(&set);
          CPU_SET(static_cast<unsigned>(::sched_getcpu()), &set);
          if (::sched_setaffinity(0, sizeof set, &set) != 0) return 1;
          return only_finding(&doctor::check_cpus, host).level == warn ? 0 : 2;
        }) == 0);
}

TEST_CASE("a device file that this user may not open is found as the open fails", "[doctor]") {
  OwnLimits const own;
  doctor::Host const host{.root = own.tree.root()};
  auto const file = own.tree.root() + "/dev/infiniband/uverbs0";
  std::filesystem::permissions(file, std::filesystem::perms{0});

  CHECK(in_child([&] {
          if (::geteuid() == 0 && ::setresuid(user_nobody, user_nobody, user_nobody) != 0) return 1;
          if (::open(file.c_str(), O_RDWR) >= 0 || errno != EACCES) return 2;
          auto const finding = only_finding(&doctor::check_permissions, host);
          return finding.level == fail && finding.mend.find("chmod") != finding.mend.npos ? 0 : 3;
        }) == 0);
}

TEST_CASE("a rendezvous directory that cannot be made fails as the soft device does", "[doctor]") {
  check_status(in_child([] {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
        ::mount("none", "/dev/shm", "tmpfs", MS_RDONLY, nullptr) != 0)
      return could_not;
    ::unsetenv("LEND_SOFT_DIRECTORY");
    auto const opened = open_device(DeviceChoice::soft());
    for (auto const& finding : examine())
      if (finding.id == "soft.directory")
        return opened.has_error() && finding.level == fail &&
                       finding.seen == opened.error().message()
                   ? 0
                   : 1;
    return 2;
  }));
}

TEST_CASE("where no peer may attach to this process, a registration fails as predicted",
          "[doctor]") {
  check_status(in_child([] {
    if (::prctl(PR_SET_DUMPABLE, 0) != 0) return could_not;
    auto const finding = only_finding(&doctor::check_cross_memory, {});
    auto const domain = open_device(DeviceChoice::soft()).value().allocate_protection_domain();
    std::vector<std::byte> bytes(64);
    auto const exposed = domain.value().unsafe_register_exposed(bytes, RemoteAccess::read);
    return finding.level == warn && exposed.has_error() ? 0 : 1;
  }));
}

TEST_CASE("where a filter forbids cross-memory attach, a read fails as predicted", "[doctor]") {
  check_status(in_child([] {
    sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog const filter{4, instructions};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
      return could_not;
    auto const finding = only_finding(&doctor::check_cross_memory, {});
    // Two open devices are two peers, in one process, too.
    auto const ours = open_device(DeviceChoice::soft()).value().allocate_protection_domain();
    auto const theirs = open_device(DeviceChoice::soft()).value().allocate_protection_domain();
    std::vector<std::byte> bytes(64);
    auto const exposed = theirs.value().unsafe_register_exposed(bytes, RemoteAccess::read);
    auto memory = ours.value().allocate(64);
    auto near = channel_builder().protection_domain(ours.value()).build();
    auto far = channel_builder().protection_domain(theirs.value()).build();
    auto const endpoint = near.value().endpoint();
    auto channel = std::move(near).value().handshake(far.value().endpoint());
    auto const other = std::move(far).value().handshake(endpoint);
    if (exposed.has_error() || channel.has_error() || other.has_error()) return 2;
    PollingScope scope{channel.value()};
    auto const read = scope.post_read(
        {memory.value().scatter(0, 64), exposed.value().remote().value().slice(0, 64)});
    return finding.level == warn && read.has_error() && read.error().code() == Errc::unsupported
               ? 0
               : 1;
  }));
}

TEST_CASE("what this host is found to open, open_device() opens", "[doctor]") {
  for (auto const& finding : examine()) {
    INFO(text_of(finding));
    if (finding.id != "open") continue;
    auto const opened = open_device();
    CHECK((finding.level == ok) == opened.has_value());
    if (opened.has_value()) CHECK(has(finding.seen, "takes " + opened.value().name() + " ("));
  }
}
