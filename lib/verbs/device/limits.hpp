// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors of limits: name, value, what was asked, what to do. Any thread.
#pragma once

#include <lend/base/error.hpp>
#include <verbs/device/handles.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lend::verbs {

/// "send_depth is 0; it must be 1 to 1024, the work_requests_max of rxe0"
[[nodiscard]] Error beyond_limit(std::string_view option, std::uint64_t value,
                                 std::uint64_t largest, std::string_view limit,
                                 std::string_view device);

/// Whether an errno may mean that a limit of device, kernel or process was reached. Drivers differ:
/// SoftRoCE returns EINVAL when it has no more queue pairs, cards ENOMEM; EPERM comes from a
/// locked-memory limit of 0.
/// Source: Linux drivers/infiniband/sw/rxe/rxe_pool.c, mm/mlock.c can_do_mlock().
[[nodiscard]] bool may_be_a_limit(int errno_value) noexcept;
/// Its code. EPERM is a limit only if that of locked memory is 0.
[[nodiscard]] Errc code_of_limit(int errno_value) noexcept;
/// "rxe0 has at most 64 regions, of all processes together: end some that are unused"
[[nodiscard]] std::string at_most(ContextHandle const& context, std::int32_t largest,
                                  std::string_view what);

/// How much this process may lock and has locked, and how to change that.
/// Source: getrlimit(2), RLIMIT_MEMLOCK; proc(5), VmPin; Linux drivers/infiniband/core/umem.c.
[[nodiscard]] std::string locked_memory_remedy();
/// False if no limit is set.
[[nodiscard]] bool locked_memory_is_limited() noexcept;

/// The errors of control calls that reached a limit, or failed otherwise.
[[nodiscard]] Error registration_error(ContextHandle const& context, std::size_t length,
                                       int errno_value, char const* verb = "ibv_reg_mr");
[[nodiscard]] Error domain_error(ContextHandle const& context, int errno_value);
[[nodiscard]] Error completion_queue_error(ContextHandle const& context, char const* verb,
                                           std::uint32_t depth, int errno_value);

}  // namespace lend::verbs
