// SPDX-License-Identifier: MIT OR Apache-2.0
// Rosters where lend is built without nlohmann's JSON: there is no text of one. Any thread.
#include <launch/roster_text.hpp>

namespace lend::launch {

Result<std::vector<RosterEntry>> roster_entries_in(std::string_view /*json*/) {
  return Error{Errc::unsupported,
               "this lend was built without nlohmann's JSON and reads no rosters; build it with "
               "-Drosters=enabled, or fill in the entries of Roster::of()"};
}

}  // namespace lend::launch
