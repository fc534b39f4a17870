// SPDX-License-Identifier: MIT OR Apache-2.0
// Checks of the limits that a process inherits.
#include <base/printable.hpp>
#include <base/variables.hpp>
#include <doctor/checks.hpp>

#include <algorithm>

namespace lend::doctor {

namespace {

constexpr std::uint64_t mib = 1024 * 1024;
/// What a program of some channels and a few buffers locks, and what not even one channel does
/// without.
constexpr std::uint64_t lockable_wanted = 64 * mib;
constexpr std::uint64_t lockable_least = mib;
/// Threads of lend and of libraries, and processes such as `lend bench` and `lend-run` start.
constexpr std::uint64_t tasks_wanted = 16;
constexpr std::uint64_t descriptors_wanted = 256;
constexpr std::uint64_t descriptors_advised = 4096;

/// Soft and hard limit, each none if there is no limit. Source: proc(5), /proc/pid/limits.
struct Limit {
  std::optional<std::uint64_t> soft{}, hard{};
};

std::optional<Limit> limit_of(Host const& host, std::string_view name) {
  auto const text = host.read("/proc/self/limits");
  auto const line = text ? field_of(*text, name) : std::nullopt;
  if (!line) return std::nullopt;
  std::string_view rest{*line};
  auto const soft = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(rest.find_first_not_of(' ', soft.size()), rest.size()));
  auto const hard = rest.substr(0, rest.find(' '));
  for (auto const value : {soft, hard})
    if (value != "unlimited" && !number_of(value)) return std::nullopt;
  return Limit{number_of(soft), number_of(hard)};
}

/// Whether the limit of locked memory does not apply: CAP_IPC_LOCK, which counts only in the first
/// user namespace. Source: capabilities(7); Linux drivers/infiniband/core/umem.c and capable().
bool locks_without_limit(Host const& host, std::string const& status) {
  constexpr unsigned ipc_lock = 14;
  auto const capabilities = field_of(status, "CapEff:");
  auto const bits = capabilities ? number_of(*capabilities, 16).value_or(0) : 0;
  // All ids map to themselves there. Source: user_namespaces(7).
  auto const map = host.read("/proc/self/uid_map");
  return (bits >> ipc_lock & 1) != 0 && map && map->ends_with(" 4294967295");
}

std::string mend_of_locked_memory(Host const& host, Limit const& limit) {
  std::string mend;
  if (!limit.hard || *limit.hard >= lockable_wanted)
    mend = "ulimit -l " + (limit.hard ? std::to_string(*limit.hard / 1024) : "unlimited");
  else if (is_in_container(host))
    mend = "docker run --ulimit memlock=-1 …  (podman takes the same)";
  else if (host.variable("SLURM_JOB_ID"))
    mend =
        "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, and LimitMEMLOCK=infinity in the\n"
        "unit slurmd.service (systemctl edit slurmd)";
  else if (host.read("/proc/self/cgroup").value_or("").ends_with(".service"))
    mend = "LimitMEMLOCK=infinity in the unit's section [Service] (systemctl edit UNIT)";
  else
    mend =
        "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf\n"
        "and log in again";
  return mend;
}

std::string mend_of_descriptors(Host const& host, Limit const& limit) {
  auto const wanted = std::to_string(descriptors_advised);
  if (!limit.hard || *limit.hard >= descriptors_wanted)
    return "ulimit -n " + (limit.hard ? std::to_string(*limit.hard) : wanted);
  if (is_in_container(host))
    return "docker run --ulimit nofile=" + wanted + " …  (podman takes the same)";
  if (host.read("/proc/self/cgroup").value_or("").ends_with(".service"))
    return "LimitNOFILE=" + wanted + " in the unit's section [Service] (systemctl edit UNIT)";
  return "echo '* - nofile " + wanted +
         "' | sudo tee /etc/security/limits.d/nofile.conf\n"
         "and log in again";
}

/// Reads `file` of the process's cgroup and of those above it: `note(path, text)` for each.
/// Source: cgroups(7), /proc/pid/cgroup; Linux Documentation/admin-guide/cgroup-v2.rst.
template <class Note>
void for_each_cgroup(Host const& host, std::string_view file, Note&& note) {
  auto const text = host.read("/proc/self/cgroup");
  auto const own = text ? field_of(*text, "0::") : std::nullopt;
  // A damaged line may have no path.
  for (std::string path = own && own->starts_with('/') ? *own : "/";;) {
    auto const folder = "/sys/fs/cgroup" + (path == "/" ? "" : path);
    if (auto const value = host.read(folder + '/' + std::string{file})) note(folder, *value);
    if (path == "/") return;
    path.erase(std::max<std::size_t>(path.rfind('/'), 1));
  }
}

}  // namespace

void check_locked_memory(Host const& host, Notes& notes) {
  std::string const subject{this_process};
  if (kernel_devices(host).empty())
    return notes.skip(subject, "only RDMA devices lock memory, and the kernel has none here");
  auto const limit = limit_of(host, "Max locked memory");
  auto const status = host.read("/proc/self/status");
  if (!limit || !status) return notes.skip(subject, "/proc/self does not say; is it mounted?");
  if (!limit->soft) return notes.ok(subject, "no limit of locked memory");
  auto const seen = "at most " + text_of_bytes(*limit->soft) + " may be locked (ulimit -l)";
  if (locks_without_limit(host, *status))
    return notes.ok(subject, seen + ", which CAP_IPC_LOCK overrides");
  auto const pinned = field_of(*status, "VmPin:");
  auto const taken = (pinned ? number_of(*pinned).value_or(0) : 0) * 1024;
  auto const left = *limit->soft > taken ? *limit->soft - taken : 0;
  if (left >= lockable_wanted) return notes.ok(subject, seen);
  auto const why = "a region of more than " + text_of_bytes(left) +
                   " cannot be registered: ibv_reg_mr fails with ENOMEM";
  auto const mend = mend_of_locked_memory(host, *limit);
  if (left >= lockable_least)
    notes.warn(subject, seen, why, mend);
  else
    notes.fail(subject, seen, why, mend);
}

void check_descriptors(Host const& host, Notes& notes) {
  std::string const subject{this_process};
  auto const limit = limit_of(host, "Max open files");
  if (!limit) return notes.skip(subject, "/proc/self/limits cannot be read; is /proc mounted?");
  auto const count = limit->soft;
  auto const seen = count ? std::to_string(*count) + " descriptors (ulimit -n)" : "no limit";
  if (!count || *count >= descriptors_wanted) return notes.ok(subject, seen);
  notes.warn(subject, seen,
             "devices, completion channels and the memory of peers take descriptors: programs of "
             "many peers run out of them",
             mend_of_descriptors(host, *limit));
}

void check_cpus(Host const& host, Notes& notes) {
  std::string const subject{this_process};
  auto const status = host.read("/proc/self/status");
  auto const list = status ? field_of(*status, "Cpus_allowed_list:") : std::nullopt;
  if (!list) return notes.skip(subject, "/proc/self/status cannot be read; is /proc mounted?");
  auto const count = numbers_of_list(*list).size();
  if (count > 1) return notes.ok(subject, "may run on the CPUs " + *list);
  notes.warn(subject, "may run on CPU " + *list + " only",
             "a thread that polls keeps its peer on the same CPU from running",
             "srun --cpu-bind=none …, taskset, or Wait::event in the program");
}

void check_cgroup(Host const& host, Notes& notes) {
  if (!host.exists("/sys/fs/cgroup/cgroup.controllers"))
    return notes.skip(std::string{this_process}, "/sys/fs/cgroup is not a cgroup of version 2");
  bool is_limited = false;
  for_each_cgroup(host, "rdma.max", [&](std::string const& folder, std::string const& text) {
    for (auto const& device : kernel_devices(host)) {
      auto const limits = field_of(text, device + ' ');
      if (!limits || limits->find_first_of("0123456789") == limits->npos) continue;
      is_limited = true;
      auto const mend = "echo '" + device + " hca_handle=max hca_object=max' | sudo tee " +
                        host.root + folder + "/rdma.max";
      if (limits->find("hca_handle=0") != limits->npos)
        notes.fail(device, folder + "/rdma.max: " + *limits, "the device cannot be opened", mend);
      else
        notes.warn(device, folder + "/rdma.max: " + *limits,
                   "more contexts or objects (queue pairs, queues, regions) are refused", mend);
    }
  });
  for_each_cgroup(host, "memory.max", [&](std::string const& folder, std::string const& text) {
    auto const most = number_of(text);
    if (!most) return;
    is_limited = true;
    auto const used = number_of(host.read(folder + "/memory.current").value_or("")).value_or(0);
    auto const seen = folder + "/memory.max: " + text_of_bytes(*most) + ", " + text_of_bytes(used) +
                      " of them used";
    if (*most >= used + lockable_wanted) return notes.ok(std::string{this_process}, seen);
    notes.warn(std::string{this_process}, seen,
               "registered memory and that of the soft device count; beyond the limit the kernel "
               "kills a process of the group");
  });
  for_each_cgroup(host, "pids.max", [&](std::string const& folder, std::string const& text) {
    auto const most = number_of(text);
    if (!most) return;
    is_limited = true;
    auto const used = number_of(host.read(folder + "/pids.current").value_or("")).value_or(0);
    auto const seen = folder + "/pids.max: " + std::to_string(*most) +
                      " processes and threads, of which there are " + std::to_string(used);
    if (*most >= used + tasks_wanted) return notes.ok(std::string{this_process}, seen);
    notes.warn(std::string{this_process}, seen,
               "fork() and new threads fail with EAGAIN, also those of lend and of lend-run",
               is_in_container(host) ? "docker run --pids-limit=-1 …  (podman takes the same)"
                                     : "echo max | sudo tee " + host.root + folder +
                                           "/pids.max  (of a systemd unit: TasksMax=infinity)");
  });
  if (!is_limited)
    notes.ok(std::string{this_process}, "no cgroup limits RDMA objects, memory or processes");
}

void check_forks(Host const& host, Notes& notes) {
  std::string const subject{this_process};
  if (kernel_devices(host).empty()) return notes.skip(subject, std::string{no_device});
  auto const safety = host.fork_safety();
  if (!safety)
    return notes.skip(subject, "libibverbs does not tell; that of rdma-core 35 and later does");
  switch (*safety) {
    case ForkSafety::by_kernel:
      return notes.ok(subject, "fork() copies memory that devices use: Linux does so");
    case ForkSafety::by_program:
      return notes.ok(subject, "children of fork() do not get memory that devices use");
    case ForkSafety::none: break;
  }
  notes.warn(
      subject, "Linux does not copy memory that devices use, and ibv_fork_init() was not called",
      "where parent or child writes to it after fork(), the parent may get another page than "
      "the device has",
      "export IBV_FORK_SAFE=1  (Linux 5.13 and later need it not)");
}

void check_environment(Host const& host, Notes& notes) {
  std::string sound;
  bool are_sound = true;
  for (auto const& [name, defect] : host.own_variables()) {
    if (defect.empty()) {
      (sound += sound.empty() ? "" : ", ") += name;
      continue;
    }
    are_sound = false;
    if (base::is_variable(name))
      notes.fail(name, defect, "what would use it is refused, such as every connection",
                 "unset it, or give it another value; lend info --environment says which");
    else
      notes.warn(name, defect, "nothing reads it; it may be misspelt",
                 "unset it; lend info --environment has those that there are");
  }
  if (!are_sound) return;
  notes.ok(std::string{this_process},
           sound.empty() ? "no variable of lend is set" : "sets " + sound);
}

void check_pages(Host const& host, Notes& notes) {
  auto const text = host.read("/proc/meminfo");
  auto const free = text ? field_of(*text, "HugePages_Free:") : std::nullopt;
  auto const size = text ? field_of(*text, "Hugepagesize:") : std::nullopt;
  if (!free || !size) return notes.skip("this host", "/proc/meminfo does not speak of huge pages");
  auto const modes = host.read("/sys/kernel/mm/transparent_hugepage/enabled").value_or("[never]");
  bool const has_transparent = modes.find("[never]") == modes.npos;
  auto const seen = *free + " free huge pages of " + *size +
                    (has_transparent ? ", and transparent ones" : ", no transparent ones");
  if (has_transparent || number_of(*free).value_or(0) > 0) return notes.ok("this host", seen);
  notes.warn("this host", seen, "allocate() refuses memory of huge pages",
             "sudo sysctl vm.nr_hugepages=64");
}

}  // namespace lend::doctor
