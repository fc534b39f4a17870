// SPDX-License-Identifier: MIT OR Apache-2.0
// A descriptor is closed once, by its last owner; nothing leaks.
#include "support/catch.hpp"

#include "base/standard_reserved.hpp"
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <type_traits>

namespace lend {

using base::UniqueFd;

namespace {

static_assert(!std::is_copy_constructible_v<UniqueFd> && !std::is_copy_assignable_v<UniqueFd>);
static_assert(std::is_nothrow_move_constructible_v<UniqueFd>);
static_assert(std::is_nothrow_move_assignable_v<UniqueFd>);
static_assert(!std::is_convertible_v<int, UniqueFd>);
static_assert(!std::is_convertible_v<UniqueFd, bool>);

UniqueFd open_null() {
  return UniqueFd{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) != -1;
}

std::ptrdiff_t open_descriptors() {
  std::filesystem::directory_iterator const all{"/proc/self/fd"};
  return std::distance(begin(all), end(all));
}

TEST_CASE("an empty UniqueFd holds nothing and closes nothing", "[base]") {
  UniqueFd const nothing;
  CHECK(!nothing);
  CHECK(nothing.get() == -1);
}

TEST_CASE("a descriptor is closed when its owner ends", "[base]") {
  int number = -1;
  {
    auto const fd = open_null();
    REQUIRE(fd);
    number = fd.get();
    CHECK(is_open(number));
  }
  CHECK(!is_open(number));
}

TEST_CASE("a move leaves the source empty and the descriptor open", "[base]") {
  auto first = open_null();
  int const number = first.get();
  UniqueFd const second{std::move(first)};
  CHECK(!first);  // NOLINT(bugprone-use-after-move): the promise under test
  CHECK(second.get() == number);
  CHECK(is_open(number));
}

TEST_CASE("assignment closes what the target held and nothing else", "[base]") {
  auto target = open_null();
  auto source = open_null();
  int const old = target.get();
  int const kept = source.get();
  target = std::move(source);
  CHECK(!is_open(old));
  CHECK(is_open(kept));
  CHECK(target.get() == kept);
  target = UniqueFd{};
  CHECK(!is_open(kept));
}

TEST_CASE("assignment to itself keeps the descriptor", "[base]") {
  auto fd = open_null();
  int const number = fd.get();
  auto& same = fd;
  fd = std::move(same);
  CHECK(fd.get() == number);
  CHECK(is_open(number));
}

TEST_CASE("release hands the descriptor over", "[base]") {
  auto fd = open_null();
  int const number = fd.release();
  CHECK(!fd);
  fd = UniqueFd{};
  CHECK(is_open(number));
  UniqueFd const again{number};
}

/// Of `check` in a process that has closed 0 to 2.
template <class Check>
bool holds_where_0_to_2_are_closed(Check const& check) {
  pid_t const child = ::fork();
  if (child == 0) {
    for (int number = 0; number <= 2; ++number) ::close(number);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

bool are_closed() {
  return !is_open(0) && !is_open(1) && !is_open(2);
}

TEST_CASE("a descriptor lies above 2 and is closed in programs that are started", "[base]") {
  CHECK(holds_where_0_to_2_are_closed([] {
    auto const fd = open_null();
    return fd.get() > 2 && ::fcntl(fd.get(), F_GETFD) == FD_CLOEXEC && are_closed();
  }));
}

TEST_CASE("a descriptor that finds no number above 2 is closed, and errno says why", "[base]") {
  CHECK(holds_where_0_to_2_are_closed([] {
    rlimit const none{3, 3};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return false;
    errno = 0;
    auto const fd = open_null();
    return !fd && (errno == EMFILE || errno == EINVAL) && are_closed();
  }));
}

TEST_CASE("while 0 to 2 are reserved, others open above and find them not to be used", "[base]") {
  CHECK(holds_where_0_to_2_are_closed([] {
    errno = 7;
    bool is_so = true;
    {
      base::StandardReserved const reserved;
      is_so = errno == 7;
      char byte = 0;
      is_so &= ::write(1, &byte, 1) < 0 && ::write(2, &byte, 1) < 0 && ::read(0, &byte, 1) < 0;
      int const fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      is_so &= fd > 2;
      ::close(fd);
    }
    return is_so && are_closed();
  }));
  auto const before = open_descriptors();
  base::StandardReserved const reserved;
  CHECK(open_descriptors() == before);
}

TEST_CASE("many moves and assignments leave as many descriptors open as before", "[base]") {
  auto const before = open_descriptors();
  {
    UniqueFd kept;
    for (int i = 0; i < 100; ++i) {
      auto fd = open_null();
      UniqueFd moved{std::move(fd)};
      kept = std::move(moved);
    }
    CHECK(open_descriptors() == before + 1);
  }
  CHECK(open_descriptors() == before);
}

}  // namespace
}  // namespace lend
