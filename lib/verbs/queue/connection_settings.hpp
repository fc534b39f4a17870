// SPDX-License-Identifier: MIT OR Apache-2.0
// What is in force of a connection's options, and where it is from. Any thread; what reads
// variables as getenv(3).
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/connection_options.hpp>
#include <lend/verbs/queue_pair_options.hpp>
#include <lend/verbs/service.hpp>
#include <verbs/device/handles.hpp>

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

namespace lend::verbs {

/// Options in which what the program left out is as the variables say, and where each is from.
struct ChosenOptions {
  ConnectionOptions options;
  ConnectionOrigins from;
};

/// Errors:  invalid_argument  a variable's value, or an option that `service` has no use for; both
///                            are named, with what they may be.
///          denied            a variable of a program with privileges of others.
[[nodiscard]] Result<ChosenOptions> chosen(ConnectionOptions const& own, Service service);

struct ChosenKeepAlive {
  std::chrono::nanoseconds interval{};  ///< 0: off
  Origin from = Origin::usual;
};
/// That of the program, else LEND_KEEP_ALIVE, else `usual`.
/// Errors:  as chosen().
[[nodiscard]] Result<ChosenKeepAlive> chosen_keep_alive(std::optional<std::chrono::nanoseconds> own,
                                                        std::chrono::nanoseconds usual);

/// Whether `text` is a value of the variable; of one whose values lend does not check, always.
/// Errors:  invalid_argument  it is none: the message has the variable and what it must be.
[[nodiscard]] LEND_EXPORT Result<void> check_variable(std::string_view name, std::string_view text);

/// All that a queue pair on the port of a Context needs of its options.
struct ConnectionPlan {
  PortInfo port{};
  std::uint32_t mtu_bytes = 0;
  ConnectionTimes times{};
  ConnectionTerms terms{};
  GidEntry gid{};
};
/// Errors:  those of PreparedQueuePair::create() for the options; a variable is named.
[[nodiscard]] Result<ConnectionPlan> plan_of(ContextHandle const& context,
                                             QueuePairOptions const& options, Service service);

/// The source of a Setting: "program", `variable`, "peer" or "default".
[[nodiscard]] std::string_view name_of(Origin from, std::string_view variable) noexcept;
/// "67.1 ms", "2 s"
[[nodiscard]] std::string text_of(std::chrono::nanoseconds time);
/// Of a queue pair: what its connection has, or is going to have.
[[nodiscard]] std::vector<Setting> settings_of(QueuePairHandle const& queue_pair);

}  // namespace lend::verbs
