// SPDX-License-Identifier: MIT OR Apache-2.0
// A launcher that is asked where the ranks meet: by PMI-1 or by PMIx, once in a process.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/launch/seat.hpp>

#include <cstdint>
#include <string_view>

namespace lend::launch {

/// The desk of a seat for which PMIx is asked.
inline constexpr std::string_view pmix_desk = "pmix:";

/// Whether the launcher is to be asked for this desk.
[[nodiscard]] bool is_asked(std::string_view desk) noexcept;

/// Number of ranks in the job of PMIx; `asks_more`: find_desk() follows.
/// Errors:  those of PmixFunctions::load() and PmixMeeting::size(), and
///          invalid_argument  another thread is asking.
[[nodiscard]] Result<std::uint32_t> ask_size(bool asks_more);

/// `seat` with the address of the desk: its own, or what the launcher answers.
/// Errors:  those of PmiMeeting::find(), PmixFunctions::load() and PmixMeeting::find(), and
///          invalid_argument  another thread is asking.
[[nodiscard]] Result<Seat> find_desk(Seat const& seat, Deadline deadline);

}  // namespace lend::launch
