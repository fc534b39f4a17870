// SPDX-License-Identifier: MIT OR Apache-2.0
// What processes did between two looks at their counts, as a table. Values.
#pragma once

#include <command/terminal.hpp>
#include <observe/counts_file.hpp>

#include <map>
#include <string>

namespace lend::tools {

/// Of each file what it says.
using Looked = std::map<std::string, observe::ProcessCounts>;

/// A row for each name of each process that runs, and one each for the messages of its transports
/// and the calls of its groups, if it has counted any; below, a row for each part of its pools. 80
/// columns.
[[nodiscard]] std::string top_table(Looked const& before, Looked const& now, double seconds,
                                    command::Look look);

/// What all of them have counted, together. Throws std::bad_alloc.
[[nodiscard]] observe::Counts sum_of(Looked const& all);

}  // namespace lend::tools
