// SPDX-License-Identifier: MIT OR Apache-2.0
// What this build is.
#pragma once

#include <string>
#include <string_view>

namespace lend::command {

/// "lend 0.2.0 (91c172f), with rdma_cm, secrets": the commit is left out where there is no Git.
[[nodiscard]] std::string version_of(std::string_view program);

}  // namespace lend::command
