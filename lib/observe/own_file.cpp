// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes a file under a name that no other has. Any thread.
#include <base/own_directory.hpp>
#include <observe/own_file.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace lend::observe {

namespace {

constexpr int names_tried = 1000;

/// None where there is such a file, which a process left that ended while it made it.
Result<base::UniqueFd> make_unfinished(int directory, std::string const& name,
                                       FileKind const& kind) {
  base::UniqueFd file{
      ::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!file && errno == EEXIST) return file;
  std::string const of = " of the " + std::string{kind.one} + ' ' + name;
  if (!file) return Error::from_errno("open" + of, errno);
  int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(kind.with_space));
  if (error == 0 && ::ftruncate(file.get(), static_cast<off_t>(kind.bytes)) != 0) error = errno;
  if (error == 0) return file;
  ::unlinkat(directory, name.c_str(), 0);
  return Error::from_errno("posix_fallocate" + of, error);
}

}  // namespace

std::string host_name() {
  std::array<char, 64> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "host";
  std::string text{name.data()};
  std::ranges::replace_if(
      text, [](char c) { return c <= ' ' || c > '~' || c == '/'; }, '_');
  return text;
}

Result<OwnFile> make_own_file(
    std::string const& path, FileKind const& kind,
    std::function<Result<void>(OwnFile const&, std::uint32_t)> const& fill) {
  LEND_TRY(directory, base::open_own_directory(path, kind.many));
  std::string const one{kind.one};
  rlimit limit{};
  // Beyond it the kernel sends SIGXFSZ. Source: setrlimit(2).
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kind.bytes)
    return Error::from_errno("a " + one + " in " + path, EFBIG);
  std::string const stem = host_name() + '-' + std::to_string(::getpid()) + '-';
  for (int i = 0; i < names_tried; ++i) {
    // Relaxed: only the number counts.
    auto const number = kind.numbers.fetch_add(1, std::memory_order_relaxed) + 1;
    auto const name = (stem + std::to_string(number)).append(kind.ending);
    auto const unfinished = name + ".new";
    LEND_TRY(file, make_unfinished(directory.get(), unfinished, kind));
    if (!file) continue;
    OwnFile made{::mmap(nullptr, kind.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0),
                 std::move(file)};
    bool const is_mapped = made.mapped != MAP_FAILED;
    std::string const of = " of the " + one + ' ' + name;
    auto done = is_mapped ? fill(made, number) : Error::from_errno("mmap" + of, errno);
    bool is_taken = false;  // the number may be an earlier process's
    if (done &&
        ::linkat(directory.get(), unfinished.c_str(), directory.get(), name.c_str(), 0) != 0) {
      is_taken = errno == EEXIST;
      done = Error::from_errno("linkat" + of, errno);
    }
    ::unlinkat(directory.get(), unfinished.c_str(), 0);
    if (done) return made;
    if (is_mapped) ::munmap(made.mapped, kind.bytes);
    if (!is_taken) return done.error();
  }
  return Error{Errc::exhausted,
               path + " is full of " + std::string{kind.many} + ": remove old ones"};
}

}  // namespace lend::observe
