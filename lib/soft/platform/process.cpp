// SPDX-License-Identifier: MIT OR Apache-2.0
// Processes and their threads by /proc. Source: proc(5).
#include <base/standard_reserved.hpp>
#include <soft/platform/process.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lend::soft {

using base::UniqueFd;

namespace {

/// A thread as its file `stat` tells it.
struct Thread {
  bool has_memory;
  long threads;  // of its process
  std::uint64_t start_time;
};

/// 0; ESRCH when there is none; or what kept us from looking.
int look_at(char const* path, Thread& thread) noexcept {
  UniqueFd const file{::open(path, O_RDONLY | O_CLOEXEC)};
  if (!file) return errno == ENOENT ? ESRCH : errno;
  char text[1024];
  auto const length = ::read(file.get(), text, sizeof text - 1);
  if (length < 0) return errno;
  text[length] = '\0';
  // The name, field 2, may hold anything; the state is field 3.
  char const* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return EIO;
  bool const has_ended = at[2] == 'Z' || at[2] == 'X';
  unsigned long long fields[24] = {};
  ++at;
  for (int field = 3; field < 24; ++field) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return EIO;
    ++at;
    fields[field] = std::strtoull(at, nullptr, 10);
  }
  // Field 23 is the address space: none is left once a thread is on its way out.
  thread = {!has_ended && fields[23] != 0, static_cast<long>(fields[20]), fields[22]};
  return 0;
}

int look_at(int pid, Thread& thread) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  return look_at(path, thread);
}

/// Some other thread of process `pid` with memory; 0 with errno as living_thread_of().
int other_thread_of(int pid) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  base::StandardReserved const reserved;
  DIR* const list = ::opendir(path);
  if (list == nullptr) {
    if (errno == ENOENT) errno = ESRCH;
    return 0;
  }
  int found = 0;
  int obstacle = ESRCH;
  while (auto const* const entry = ::readdir(list)) {
    auto const number = static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
    if (number <= 0 || number == pid) continue;
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, number);
    Thread thread{};
    auto const error = look_at(path, thread);
    if (error == 0 && thread.has_memory) {
      found = number;
      break;
    }
    if (error != 0 && error != ESRCH) obstacle = error;
  }
  ::closedir(list);
  errno = obstacle;
  return found;
}

/// 0 with `thread`, the main one or another; or errno.
int look_for(int pid, Thread& main, int& living) noexcept {
  if (auto const error = look_at(pid, main); error != 0) return error;
  living = pid;
  if (main.has_memory) return 0;
  if (main.threads <= 1) return ESRCH;
  living = other_thread_of(pid);
  return living != 0 ? 0 : errno;
}

/// Of a namespace: 1 in a kernel that is built without its kind. False with errno.
bool number_of(char const* path, std::uint64_t& number) noexcept {
  struct stat status {};
  number = ::stat(path, &status) == 0 ? status.st_ino : 1;
  return number != 1 || errno == ENOENT;
}

/// What the kernel compares of two processes. Source: proc(5), /proc/PID/status; ptrace(2), "Ptrace
/// access mode checking".
struct Credentials {
  unsigned users[4] = {};   // real, effective, saved, of the file system
  unsigned groups[4] = {};  // likewise
  std::uint64_t permitted = 0;
  std::uint64_t effective = 0;
};

/// As much of /proc/PID/`name` as there is room for, closed by a zero; false if it cannot be read.
bool read_text(int pid, char const* name, char* text, std::size_t size) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  UniqueFd const file{::open(path, O_RDONLY | O_CLOEXEC)};
  if (!file) return false;
  auto const length = ::read(file.get(), text, size - 1);
  if (length >= 0) text[length] = '\0';
  return length >= 0;
}

bool read_credentials(int pid, Credentials& found) noexcept {
  char text[2048];
  if (!read_text(pid, "status", text, sizeof text)) return false;
  auto const behind = [&](char const* label) {
    char const* const at = std::strstr(text, label);
    return at == nullptr ? "" : at + std::strlen(label);
  };
  auto const read_four = [](char const* at, unsigned* numbers) {
    return std::sscanf(at, "%u %u %u %u", numbers, numbers + 1, numbers + 2, numbers + 3) == 4;
  };
  found.permitted = std::strtoull(behind("\nCapPrm:"), nullptr, 16);
  found.effective = std::strtoull(behind("\nCapEff:"), nullptr, 16);
  return read_four(behind("\nUid:"), found.users) && read_four(behind("\nGid:"), found.groups);
}

/// Whether all of `three` are `own`.
bool are_all(unsigned const* three, unsigned own) noexcept {
  return three[0] == own && three[1] == own && three[2] == own;
}

/// Whether the users of `pid` have other numbers in its namespace than here. Source:
/// user_namespaces(7): what a map shows depends on the namespace of the process that reads it.
bool has_other_users(int pid) noexcept {
  char theirs[512];
  char ours[512];
  return read_text(pid, "uid_map", theirs, sizeof theirs) &&
         read_text(::getpid(), "uid_map", ours, sizeof ours) && std::strcmp(theirs, ours) != 0;
}

}  // namespace

Namespaces own_namespaces() noexcept {
  // Of this thread: a main thread that ended has none. A /proc of another pid namespace has us
  // under another number.
  char self[64] = {};
  if (::readlink("/proc/thread-self", self, sizeof self - 1) < 0) return {};
  if (std::strtol(self, nullptr, 10) != ::getpid()) {
    errno = ENXIO;
    return {};
  }
  Namespaces own;
  bool const is_known = number_of("/proc/thread-self/ns/pid", own.pid) &&
                        number_of("/proc/thread-self/ns/time", own.time);
  return is_known ? own : Namespaces{};
}

Presence presence_of(int pid, std::uint64_t start_time) noexcept {
  Thread main{};
  int living = 0;
  auto const error = look_for(pid, main, living);
  if (error == ESRCH) return Presence::gone;
  if (main.start_time != 0 && main.start_time != start_time) return Presence::gone;
  if (error == 0) return Presence::here;
  errno = error;
  return Presence::unknown;
}

std::uint64_t start_time_of(int pid) noexcept {
  Thread main{};
  int living = 0;
  auto const error = look_for(pid, main, living);
  if (error != 0) errno = error;
  return error == 0 ? main.start_time : 0;
}

int living_thread_of(int pid) noexcept {
  Thread main{};
  int living = 0;
  auto const error = look_for(pid, main, living);
  if (error != 0) errno = error;
  return error == 0 ? living : 0;
}

UniqueFd open_file_of(int pid, int fd, int flags) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  UniqueFd file{::open(path, flags)};
  if (file || is_shortage(errno)) return file;
  auto const why = errno;
  auto const thread = living_thread_of(pid);
  if (thread == 0 || thread == pid) {
    errno = why;
    return file;
  }
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", thread, fd);
  return UniqueFd{::open(path, flags)};
}

void tell_obstacle(int pid, char* text, std::size_t size) noexcept {
  Credentials theirs;
  Credentials ours;
  struct stat file {};
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/status", pid);
  if (!read_credentials(pid, theirs) || !read_credentials(::getpid(), ours) ||
      ::stat(path, &file) != 0) {
    std::snprintf(text, size, "/proc does not tell why");
  } else if (has_other_users(pid)) {
    std::snprintf(text, size, "it is in another user namespace");
  } else if (!are_all(theirs.users, ours.users[3]) || !are_all(theirs.groups, ours.groups[3])) {
    std::snprintf(text, size, "it has user %u and group %u, this process %u and %u",
                  theirs.users[1], theirs.groups[1], ours.users[3], ours.groups[3]);
  } else if ((theirs.permitted & ~ours.effective) != 0) {
    std::snprintf(text, size, "it has capabilities that this process lacks (%llx)",
                  static_cast<unsigned long long>(theirs.permitted & ~ours.effective));
  } else if (file.st_uid != theirs.users[1]) {
    std::snprintf(text, size, "it is not dumpable (prctl PR_SET_DUMPABLE)");
  } else {
    std::snprintf(text, size, "it is not dumpable, or a security module forbids it");
  }
}

}  // namespace lend::soft
