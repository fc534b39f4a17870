// SPDX-License-Identifier: MIT OR Apache-2.0
// Probes of host and process, each asked once.
#include <base/environment.hpp>
#include <soft/peers/host.hpp>

#include <soft/peers/slot.hpp>
#include <soft/platform/reason.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>

namespace lend::soft {
namespace {

ssize_t read_small(char const* path, char* text, std::size_t size) noexcept {
  base::UniqueFd file{::open(path, O_RDONLY | O_CLOEXEC)};
  return file ? ::read(file.get(), text, size) : -1;
}

/// FNV-1a, 64 bits. Source: RFC 9923.
class Hash {
 public:
  void add(void const* bytes, std::size_t length) noexcept {
    auto const* at = static_cast<unsigned char const*>(bytes);
    for (std::size_t i = 0; i < length; ++i) value_ = (value_ ^ at[i]) * 0x100000001b3;
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Why no peer may attach to this process, whatever it may do itself; null if one may.
char const* obstacle_of_peers(bool wants_tracers) noexcept {
  // Under Yama scope 1 only a declared tracer may attach. Declared by each process for itself: a
  // forked child has not inherited it. Source: prctl(2), PR_SET_PTRACER.
  bool const is_declared =
      wants_tracers && ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0;
  char scope = '0';
  if (read_small("/proc/sys/kernel/yama/ptrace_scope", &scope, 1) == 1 && scope >= '2' &&
      ::geteuid() != 0)
    return "kernel.yama.ptrace_scope is 2 or more";
  if (scope == '1' && !is_declared && ::geteuid() != 0)
    return wants_tracers
               ? "kernel.yama.ptrace_scope is 1, and a sandbox refuses prctl(PR_SET_PTRACER)"
               : "kernel.yama.ptrace_scope is 1, and LEND_SOFT_CMA forbids PR_SET_PTRACER";
  // Where a sandbox refuses to tell, each peer finds out by trying.
  if (auto const dumpable = ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0); dumpable >= 0 && dumpable != 1)
    return "this process is not dumpable (prctl PR_SET_DUMPABLE)";
  return nullptr;
}

CrossMemory probe_cross_memory() noexcept {
  auto const wish = base::variable("LEND_SOFT_CMA");
  char const* obstacle = nullptr;
  if (wish.is_refused) obstacle = "LEND_SOFT_CMA is set, and AT_SECURE refuses it";
  if (wish.text == "never") obstacle = "LEND_SOFT_CMA=never forbids it";
  bool const may_try = obstacle == nullptr;
  CrossMemory found;
  auto const* const closed = obstacle_of_peers(may_try);
  found.is_open = closed == nullptr;
  if (obstacle == nullptr) obstacle = closed;
  if (may_try) {
    char from = 1;
    char to = 0;
    iovec local{&to, 1};
    iovec remote{&from, 1};
    // By this thread: the main one may have ended. Each call for itself: a sandbox may refuse one.
    found.reads = ::process_vm_readv(::gettid(), &local, 1, &remote, 1, 0) == 1;
    found.writes = ::process_vm_writev(::gettid(), &local, 1, &remote, 1, 0) == 1;
    if (obstacle == nullptr && !found.reads)
      obstacle = "the kernel or its sandbox refuses process_vm_readv";
    if (obstacle == nullptr && !found.writes)
      obstacle = "the kernel or its sandbox refuses process_vm_writev";
  }
  if (obstacle != nullptr) found.obstacle = obstacle;
  return found;
}

// A page that the kernel wipes in every child, even of a bare clone().
std::atomic<std::uint64_t>* mark_page() noexcept {
  static auto* const page = []() -> std::atomic<std::uint64_t>* {
    void* const made =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return nullptr;
    if (::madvise(made, 4096, MADV_WIPEONFORK) != 0) {
      ::munmap(made, 4096);
      return nullptr;
    }
    return ::new (made) std::atomic<std::uint64_t>{};
  }();
  return page;
}

}  // namespace

int reachability_guid(RendezvousDirectory const& directory, std::uint64_t& guid) noexcept {
  Hash hash;
  char boot[64];
  auto const length = read_small("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  if (length <= 0) {
    auto const error = length < 0 ? errno : EIO;
    return fail(error, "cannot read the boot id in /proc: %s%s", std::strerror(error),
                is_shortage(error) ? "" : "; is it mounted?");
  }
  hash.add(boot, static_cast<std::size_t>(length));
  auto const user = ::geteuid();
  hash.add(&user, sizeof user);
  auto const namespaces = own_namespaces();
  if (namespaces.pid == 0) return cannot_tell_namespaces();
  hash.add(&namespaces, sizeof namespaces);
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  if (auto const error = directory.identify(device, inode); error != 0) return error;
  hash.add(&device, sizeof device);
  hash.add(&inode, sizeof inode);
  guid = hash.value();
  return 0;
}

CrossMemory cross_memory() noexcept {
  static std::mutex mutex;
  static std::uint64_t asked_by = 0;
  static CrossMemory answer;
  auto const mark = process_mark();
  std::lock_guard const guard{mutex};
  if (mark == 0 || asked_by != mark) answer = probe_cross_memory();
  asked_by = mark;
  return answer;
}

std::uint64_t process_mark() noexcept {
  static std::mutex mutex;
  std::lock_guard const guard{mutex};
  auto* const mark = mark_page();
  if (mark == nullptr) return 0;
  if (mark->load(std::memory_order_relaxed) == 0)
    mark->store(static_cast<std::uint64_t>(::getpid()) << 32 | start_time_of(::getpid()),
                std::memory_order_relaxed);
  return mark->load(std::memory_order_relaxed);
}

std::atomic<std::uint64_t> const* process_mark_address() noexcept {
  return mark_page();
}

}  // namespace lend::soft
