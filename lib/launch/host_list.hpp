// SPDX-License-Identifier: MIT OR Apache-2.0
// Slurm's lists of hosts: "n[01-03,7],login1". Any thread.
#pragma once

#include <lend/base/result.hpp>

#include <string>
#include <string_view>

namespace lend::launch {

/// The name of the first host: n01.
/// Errors:  invalid_argument  a clause that says what is wrong with `list`.
/// Source:  srun(1), --nodelist.
[[nodiscard]] Result<std::string> first_host(std::string_view list);

}  // namespace lend::launch
