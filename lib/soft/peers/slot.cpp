// SPDX-License-Identifier: MIT OR Apache-2.0
// Slot files: claiming, reading, removing.
#include <base/environment.hpp>
#include <base/yielding.hpp>
#include <soft/peers/slot.hpp>

#include <base/standard_reserved.hpp>
#include <soft/platform/clock.hpp>
#include <soft/platform/reason.hpp>
#include <soft/segment/layout.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace lend::soft {

using base::UniqueFd;

namespace {

constexpr char const* text_format =
    "lend-soft 2 pid %d start %llu generation %u segment %d pids %llu times %llu\n";
constexpr std::uint32_t generation_mask = (1u << 18) - 1;  // with 12 bits of slot: below 2^31
constexpr std::size_t text_max = 192;
constexpr std::size_t path_max = RendezvousDirectory::length_max + 17;  // of a file in it

void slot_path(char (&path)[path_max], RendezvousDirectory const& directory,
               std::uint32_t slot) noexcept {
  std::snprintf(path, sizeof path, "%s/slot.%u", directory.path(), slot);
}

/// Why nothing could be done with `path` of the rendezvous directory, and the remedy there is.
int cannot(char const* doing, char const* path, int error) noexcept {
  bool const is_full = error == ENOSPC || error == EDQUOT;
  return fail(error, "cannot %s %s: %s%s", doing, path, std::strerror(error),
              is_full ? "; make room there, or set LEND_SOFT_DIRECTORY to another directory, the "
                        "same for all processes that connect to each other"
                      : "");
}

int lock_range(int file, short type, off_t start, off_t length, int command) noexcept {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;  // 0: to the end of all files
  return ::fcntl(file, command, &range) == 0 ? 0 : errno;
}

/// Serialises claims and removals, so that no process locks a file that was just unlinked.
class ClaimLock {
 public:
  /// 0, ETIMEDOUT after `patience` nanoseconds, or errno.
  [[nodiscard]] int take(RendezvousDirectory const& directory, std::uint64_t patience) noexcept {
    char path[path_max];
    std::snprintf(path, sizeof path, "%s/lock", directory.path());
    file_ = UniqueFd{::open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!file_) return errno;
    // Not F_OFD_SETLKW: who holds it may be stopped for ever.
    auto const end = now() + patience;
    for (long rest = 50'000;; rest = std::min(2 * rest, rest_max)) {
      auto const error = lock_range(file_.get(), F_WRLCK, 0, 0, F_OFD_SETLK);
      if (error != EAGAIN && error != EACCES) return error;  // Source: fcntl(2)
      if (now() >= end) return ETIMEDOUT;
      timespec const pause{0, rest};
      (void)::nanosleep(&pause, nullptr);  // a signal only makes it shorter
    }
  }
  // Unlocked by hand: a child forked meanwhile shares the lock and might keep it.
  ~ClaimLock() {
    if (file_) (void)lock_range(file_.get(), F_UNLCK, 0, 0, F_OFD_SETLK);
  }

 private:
  static constexpr long rest_max = 5'000'000;

  UniqueFd file_;
};

int parse(int file, SlotTenant& tenant) noexcept {
  char text[text_max];
  auto const length = ::pread(file, text, sizeof text - 1, 0);
  if (length <= 0) return length == 0 ? ENODATA : errno;
  text[length] = '\0';
  unsigned long long start = 0;
  unsigned long long pids = 0;
  unsigned long long times = 0;
  if (std::sscanf(text, text_format, &tenant.pid, &start, &tenant.generation, &tenant.segment_fd,
                  &pids, &times) != 6)
    return EBADMSG;
  tenant.start_time = start;
  tenant.namespaces = {pids, times};
  if (tenant.pid <= 0 || tenant.generation == 0 || tenant.generation > generation_mask ||
      tenant.segment_fd < 0)
    return EBADMSG;
  return 0;
}

std::uint32_t random_number(std::uint32_t otherwise) noexcept {
  std::uint32_t number = 0;
  auto const got = ::getrandom(&number, sizeof number, GRND_NONBLOCK);
  return got == sizeof number ? number : otherwise;
}

std::uint32_t fresh_generation(std::uint32_t old) noexcept {
  auto random = random_number(old + 1) & generation_mask;
  while (random == 0 || random == old) random = (random + 1) & generation_mask;
  return random;
}

/// Of a tenant that holds its lock.
Presence presence_of_holder(SlotTenant const& tenant) noexcept {
  auto const own = own_namespaces();
  if (own.pid == 0) return Presence::unknown;
  if (tenant.namespaces == own) return presence_of(tenant.pid, tenant.start_time);
  errno = EXDEV;
  return Presence::unknown;
}

/// Opens slot `slot` and locks all of it. Empty with EBUSY when somebody may have it, or with what
/// kept us from looking. The tenant is the one before us, if any.
UniqueFd lock_slot_file(RendezvousDirectory const& directory, std::uint32_t slot,
                        SlotTenant& before) noexcept {
  char path[path_max];
  slot_path(path, directory, slot);
  for (int attempt = 0; attempt < 2; ++attempt) {
    UniqueFd file{::open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!file) return file;
    auto const known = parse(file.get(), before) == 0;
    auto const error = lock_range(file.get(), F_WRLCK, 0, 0, F_OFD_SETLK);
    if (error == 0) return file;
    auto const is_held = error == EAGAIN || error == EACCES;  // Source: fcntl(2)
    auto const presence = is_held && known ? presence_of_holder(before) : Presence::here;
    if (presence != Presence::gone) {
      auto const is_taken = presence == Presence::here || errno == EXDEV;
      errno = !is_held ? error : is_taken ? EBUSY : errno;
      return UniqueFd{};
    }
    // A forked child keeps the lock of a dead owner. A new file under the name gets round it.
    ::unlink(path);
  }
  errno = EBUSY;
  return UniqueFd{};
}

/// Which slots have a file: somebody's, or a dead one's.
class Listing {
 public:
  /// 0 or errno.
  [[nodiscard]] int read(RendezvousDirectory const& directory) noexcept {
    base::StandardReserved const reserved;
    DIR* const opened = ::opendir(directory.path());
    if (opened == nullptr) return errno;
    while (dirent const* const entry = ::readdir(opened)) {
      unsigned slot = 0;
      if (std::sscanf(entry->d_name, "slot.%u", &slot) != 1 || slot == 0 || slot >= slots_max)
        continue;
      if (!has_file_[slot]) ++count_;
      has_file_.set(slot);
    }
    ::closedir(opened);
    return 0;
  }
  [[nodiscard]] bool has_file(std::uint32_t slot) const noexcept { return has_file_[slot]; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

 private:
  std::bitset<slots_max> has_file_;
  std::uint32_t count_ = 0;
};

/// Calls try_slot(slot) until it answers true: first for some slots that have a file, since their
/// owners may be dead, then for those that have none, and at last for all. Few are looked at: else
/// n contexts that open would cost n * n looks of some 20 µs. From a place at random, so that each
/// dead one is found in the end.
template <class TrySlot>
bool visit_slots(Listing const& listing, TrySlot&& try_slot) noexcept {
  constexpr std::uint32_t looks_max = 16;
  constexpr std::uint32_t last = slots_max - 1;
  auto const start = listing.count() <= looks_max ? 0 : random_number(0) % last;
  std::uint32_t looks = 0;
  for (std::uint32_t i = 0; i < last && looks < looks_max; ++i) {
    auto const slot = 1 + (start + i) % last;
    if (!listing.has_file(slot)) continue;
    if (try_slot(slot)) return true;
    ++looks;
  }
  for (std::uint32_t slot = 1; slot <= last; ++slot)
    if (!listing.has_file(slot) && try_slot(slot)) return true;
  for (std::uint32_t slot = 1; slot <= last; ++slot)
    if (try_slot(slot)) return true;
  return false;
}

}  // namespace

int RendezvousDirectory::choose() noexcept {
  auto const wish = base::variable("LEND_SOFT_DIRECTORY");
  if (wish.is_refused) return fail(EACCES, "%s %s", wish.name, base::refused_because);
  char const* const chosen = wish.text.data();
  if (wish.text.empty()) {
    std::snprintf(path_, sizeof path_, "/dev/shm/lend.%u", static_cast<unsigned>(::geteuid()));
    return 0;
  }
  char before[PATH_MAX] = "";
  if (*chosen != '/' && ::getcwd(before, sizeof before) == nullptr)
    return fail(errno,
                "cannot determine the working directory, to which LEND_SOFT_DIRECTORY is "
                "relative (%s): set it to an absolute path",
                std::strerror(errno));
  auto const length =
      std::snprintf(path_, sizeof path_, "%s%s%s", before, *before != '\0' ? "/" : "", chosen);
  if (static_cast<std::size_t>(length) <= length_max) return 0;
  return fail(ENAMETOOLONG,
              "LEND_SOFT_DIRECTORY names a directory whose absolute path has %d bytes: set it to "
              "one of at most %zu",
              length, length_max);
}

int RendezvousDirectory::identify(std::uint64_t& device, std::uint64_t& inode) const noexcept {
  if (::mkdir(path_, 0700) != 0 && errno != EEXIST)
    return fail(errno, "cannot make %s (%s): set LEND_SOFT_DIRECTORY to a directory of yours",
                path_, std::strerror(errno));
  struct stat status {};
  if (::lstat(path_, &status) != 0) return fail(errno, "cannot read %s", path_);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0)
    return fail(EACCES,
                "%s is not a directory of this user with mode 0700: remove it, or set "
                "LEND_SOFT_DIRECTORY to another",
                path_);
  device = status.st_dev;
  inode = status.st_ino;
  return 0;
}

void RendezvousDirectory::share_waiter_names() const noexcept {
  char path[path_max];
  std::snprintf(path, sizeof path, "%s/waiters", path_);
  UniqueFd file{::open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  // A store without space would be a SIGBUS.
  if (file && ::posix_fallocate(file.get(), 0, base::waiter_names_bytes) == 0)
    base::share_waiter_names(std::move(file));
}

int cannot_tell_namespaces() noexcept {
  auto const error = errno;
  return fail(error, "cannot determine this process's namespaces: %s",
              error == ENOENT  ? "mount /proc"
              : error == ENXIO ? "/proc is that of another pid namespace: mount its own"
                               : std::strerror(error));
}

int SlotClaim::take(RendezvousDirectory const& directory, int segment_fd,
                    std::uint64_t patience) noexcept {
  directory_ = directory;
  ClaimLock claims;
  auto const error = claims.take(directory_, patience);
  if (error == ETIMEDOUT)
    return fail(error,
                "another process keeps the file \"lock\" of the rendezvous directory locked: it is "
                "stopped or hangs; resume it or end it");
  if (error != 0) return cannot("lock the rendezvous directory", directory_.path(), error);
  tenant_.namespaces = own_namespaces();
  if (tenant_.namespaces.pid == 0) return cannot_tell_namespaces();
  auto const start = start_time_of(::getpid());
  if (start == 0)
    return fail(errno, "cannot determine when this process started: %s", std::strerror(errno));
  tenant_.start_time = start;
  Listing listing;
  if (auto const unread = listing.read(directory_); unread != 0)
    return cannot("list the rendezvous directory", directory_.path(), unread);
  UniqueFd file;
  SlotTenant before;
  int why = EBUSY;
  auto const lock_it = [&](std::uint32_t slot) {
    before = {};
    before.slot = slot;
    file = lock_slot_file(directory_, slot, before);
    why = file ? 0 : errno;
    return why != EBUSY;  // this one, or none because of an error
  };
  if (!visit_slots(listing, lock_it))
    return fail(EAGAIN, "all %u slots of the soft device are taken: end some processes",
                slots_max - 1);
  if (!file) {
    char path[path_max];
    slot_path(path, directory_, before.slot);
    return cannot("create or read", path, why);
  }
  return move_in(std::move(file), before, segment_fd);
}

int SlotClaim::move_in(UniqueFd file, SlotTenant const& before, int segment_fd) noexcept {
  tenant_.slot = before.slot;
  tenant_.generation = fresh_generation(before.generation);
  tenant_.pid = ::getpid();
  tenant_.segment_fd = segment_fd;
  char text[text_max];
  auto const length =
      std::snprintf(text, sizeof text, text_format, tenant_.pid,
                    static_cast<unsigned long long>(tenant_.start_time), tenant_.generation,
                    tenant_.segment_fd, static_cast<unsigned long long>(tenant_.namespaces.pid),
                    static_cast<unsigned long long>(tenant_.namespaces.time));
  auto const generation = static_cast<off_t>(tenant_.generation);
  ssize_t written = -1;
  // No limit of file size is met here: it would have been met by the segment.
  if (::ftruncate(file.get(), 0) != 0 ||
      (written = ::pwrite(file.get(), text, static_cast<std::size_t>(length), 0)) != length) {
    auto const error = written < 0 ? errno : ENOSPC;  // Source: write(2), on fewer bytes
    char path[path_max];
    slot_path(path, directory_, before.slot);
    ::unlink(path);  // ours: the caller holds the lock of the claims
    return cannot("write", path, error);
  }
  // Only the byte of this generation stays locked.
  (void)lock_range(file.get(), F_UNLCK, 0, generation, F_OFD_SETLK);
  (void)lock_range(file.get(), F_UNLCK, generation + 1, 0, F_OFD_SETLK);
  file_ = std::move(file);
  return 0;
}

SlotClaim::~SlotClaim() {
  if (!file_) return;
  ClaimLock claims;
  if (claims.take(directory_, return_patience) == 0 && is_listed()) {
    char path[path_max];
    slot_path(path, directory_, tenant_.slot);
    ::unlink(path);
  }
  // By hand: a forked child shares the lock and would keep it. After the unlink: before it, the
  // file could get a new tenant. A file that is left here is stale from now on.
  (void)lock_range(file_.get(), F_UNLCK, 0, 0, F_OFD_SETLK);
}

bool SlotClaim::is_listed() const noexcept {
  char path[path_max];
  slot_path(path, directory_, tenant_.slot);
  struct stat named {};
  struct stat held {};
  return ::stat(path, &named) == 0 && ::fstat(file_.get(), &held) == 0 &&
         named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

int read_slot(RendezvousDirectory const& directory, std::uint32_t slot, SlotTenant& tenant,
              UniqueFd& file) noexcept {
  char path[path_max];
  slot_path(path, directory, slot);
  file = UniqueFd{::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) return errno;
  tenant.slot = slot;
  return parse(file.get(), tenant);
}

bool lock_is_held(int file, std::uint32_t generation) noexcept {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(generation);
  range.l_len = 1;
  return ::fcntl(file, F_OFD_GETLK, &range) != 0 || range.l_type != F_UNLCK;
}

Presence presence_of(SlotTenant const& tenant, int file) noexcept {
  if (!lock_is_held(file, tenant.generation)) return Presence::gone;
  return presence_of_holder(tenant);
}

}  // namespace lend::soft
