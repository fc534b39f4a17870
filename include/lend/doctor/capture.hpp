// SPDX-License-Identifier: MIT OR Apache-2.0
// What the doctor asked a host, as text that can be sent, and examined elsewhere. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/doctor/examine.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace lend {

/// A process examined, and the questions of that with the answers of host and process.
///
/// The text has no name and no address of the host: addresses of its ports are replaced by others
/// of their kind. It has names of devices, network interfaces and cgroups, versions, limits, user
/// and group numbers, and messages of errors, which may name folders. Read it before you send it.
struct LEND_ABI_TAG Capture {
  std::vector<Finding> findings{};  ///< as those of examine()
  std::string text{};               ///< lines of ASCII; 5 MiB at most
};

/// Examines as examine() does.
///
/// Errors:  none; throws std::bad_alloc.
[[nodiscard]] LEND_EXPORT Capture capture_examination();

/// Examines the process whose capture `text` is; this host and process do not matter. The findings
/// are those of the process, but for addresses. A check of this version that asks what the other
/// one did not is skipped. The sender chose the names in the commands of `mend`: read before you
/// run them.
///
/// Shape:   8 MiB at most.
/// Errors:  invalid_argument  it is no capture; the message names the line.
///          unsupported       it is of a later version of lend.
[[nodiscard]] LEND_EXPORT Result<std::vector<Finding>> examine_captured(std::string_view text);

}  // namespace lend
