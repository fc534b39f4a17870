// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a roster's JSON. roster_json.cpp alone sees nlohmann's library; where lend is built without
// it, roster_refused.cpp takes no file. Any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/launch/roster.hpp>

#include <string_view>
#include <vector>

namespace lend::launch {

/// The entries in the order of the text, each complete, with values that its members can hold.
/// Errors:  as Roster::from_json(), except those of Roster::of().
[[nodiscard]] Result<std::vector<RosterEntry>> roster_entries_in(std::string_view json);

}  // namespace lend::launch
