// SPDX-License-Identifier: MIT OR Apache-2.0
// What makes a list of processes a roster, and its file. Any thread.
#include <lend/launch/roster.hpp>

#include <base/printable.hpp>
#include <base/unique_fd.hpp>
#include <launch/roster_text.hpp>
#include <launch/seat_frames.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend {

namespace {

constexpr std::size_t host_name_max = 255;  // RFC 1035, 2.3.4

Error wrong(std::string why) {
  return {Errc::invalid_argument, "the roster " + std::move(why)};
}

Result<void> check(RosterEntry const& entry) {
  auto const rank = "has rank " + std::to_string(entry.rank);
  auto const is_no_letter = [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == 0x7f;
  };
  if (entry.host.empty()) return wrong(rank + " without a host");
  if (entry.host.size() > host_name_max || std::ranges::any_of(entry.host, is_no_letter))
    return wrong(rank + " at \"" + base::shown(entry.host) + "\", which is no name of a host");
  if (entry.port == 0) return wrong(rank + " at port 0, which the other ranks cannot know");
  return success();
}

}  // namespace

Result<Roster> Roster::of(std::vector<RosterEntry> entries) {
  if (entries.empty()) return wrong("has no process");
  if (entries.size() > launch::group_size_max)
    return wrong("has " + std::to_string(entries.size()) + " processes; a group has at most " +
                 std::to_string(launch::group_size_max));
  for (auto const& entry : entries) {
    LEND_TRYV(check(entry));
  }
  std::ranges::stable_sort(entries, {}, &RosterEntry::rank);
  for (std::uint32_t rank = 0; rank < entries.size(); ++rank) {
    auto const at = entries[rank].rank;
    if (at == rank) continue;
    if (rank > 0 && at == rank - 1) return wrong("has rank " + std::to_string(at) + " twice");
    return wrong("has no rank " + std::to_string(rank) + ", but rank " + std::to_string(at));
  }
  return Roster{std::move(entries)};
}

Result<Roster> Roster::from_json(std::string_view text) {
  if (text.size() > json_bytes_max)
    return wrong("has " + std::to_string(text.size()) + " bytes; " +
                 std::to_string(json_bytes_max) + " are the most");
  LEND_TRY(entries, launch::roster_entries_in(text));
  return of(std::move(entries));
}

Result<Roster> Roster::from_file(std::string const& path) {
  auto const about = "the roster \"" + base::shown(path) + "\"";
  base::UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
  if (!file) return Error::from_errno("open of " + about, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Error::from_errno("fstat of " + about, errno);
  if (!S_ISREG(status.st_mode)) return Error{Errc::invalid_argument, about + " is no regular file"};
  // To its end: a file of /proc says that it has no bytes. One byte more than the most tells that
  // it is too long.
  std::string text;
  std::size_t length = 0;
  while (length <= json_bytes_max) {
    if (length == text.size())
      text.resize(std::clamp<std::size_t>(2 * length, 4'096, json_bytes_max + 1));
    auto const got = ::read(file.get(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::from_errno("read of " + about, errno);
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  text.resize(length);
  auto roster = from_json(text);
  if (roster.has_value()) return roster;
  return Error{roster.error().code(), base::shown(path) + ": " + roster.error().message()};
}

Result<Roster> Roster::first(std::uint32_t size) const {
  if (size == 0 || size > entries_.size())
    return wrong("has " + std::to_string(entries_.size()) + " ranks, of which the first " +
                 std::to_string(size) + " are no group");
  return Roster{{entries_.begin(), entries_.begin() + size}};
}

Result<Seat> Roster::seat(std::uint32_t rank) const {
  if (rank >= entries_.size())
    return wrong("has no rank " + std::to_string(rank) + ", its ranks are 0 to " +
                 std::to_string(entries_.size() - 1));
  auto const& first = entries_.front();
  bool const is_v6 = first.host.find(':') != std::string::npos;
  auto const host = is_v6 && first.host.front() != '[' ? "[" + first.host + "]" : first.host;
  return Seat{.rank = rank, .size = size(), .desk = host + ":" + std::to_string(first.port)};
}

}  // namespace lend
