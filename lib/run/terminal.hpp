// SPDX-License-Identifier: MIT OR Apache-2.0
// Terminals of ranks, by which libc hands over each line at once. Any thread.
#pragma once

#include <base/unique_fd.hpp>

#include <lend/base/result.hpp>

#include <sys/ioctl.h>

namespace lend::run {

/// What is written into `writing` can be read from `reading`.
struct Ends {
  base::UniqueFd reading, writing;
};

/// Errors:  exhausted, system_failed.
[[nodiscard]] Result<Ends> make_pipe();
/// A pseudoterminal that passes on all bytes as they are; of this size.
/// Errors:  exhausted, system_failed.
[[nodiscard]] Result<Ends> make_terminal(winsize const& size);

/// Of lend-run's own terminal, or 24 lines of 80 columns.
[[nodiscard]] winsize own_window_size() noexcept;

}  // namespace lend::run
