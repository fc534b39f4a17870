// SPDX-License-Identifier: MIT OR Apache-2.0
// What the kernel tells in a file of one line. Any thread.
#pragma once

#include <string>

namespace lend::base {

/// The first line of a file of /proc or /sys, without its end; empty if it cannot be read. Throws
/// std::bad_alloc.
/// Shape:   at most a page. Source: Linux Documentation/filesystems/sysfs.rst.
[[nodiscard]] std::string first_line_of(std::string const& path);

}  // namespace lend::base
