// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors of limits that were reached. Any thread.
#include <base/unique_fd.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/verb_error.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

namespace lend::verbs {

namespace {

/// Bytes that may be locked; nothing without a limit.
std::optional<std::uint64_t> lockable_bytes() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return limit.rlim_cur;
}

/// Bytes that the kernel has locked for devices; nothing if /proc does not say.
std::optional<std::uint64_t> locked_bytes() {
  base::UniqueFd const file{::open("/proc/self/status", O_RDONLY | O_CLOEXEC)};
  char buffer[8192];  // some 1500 bytes are used
  auto const got = file ? ::read(file.get(), buffer, sizeof buffer) : -1;
  if (got <= 0) return std::nullopt;
  std::string_view text{buffer, static_cast<std::size_t>(got)};
  constexpr std::string_view field = "\nVmPin:";
  auto const at = text.find(field);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + field.size());
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  std::uint64_t kibibytes = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), kibibytes).ec != std::errc{})
    return std::nullopt;
  return kibibytes * 1024;
}

}  // namespace

Error beyond_limit(std::string_view option, std::uint64_t value, std::uint64_t largest,
                   std::string_view limit, std::string_view device) {
  return Error{Errc::invalid_argument, std::string{option} + " is " + std::to_string(value) +
                                           "; it must be 1 to " + std::to_string(largest) +
                                           ", the " + std::string{limit} + " of " +
                                           std::string{device}};
}

bool may_be_a_limit(int errno_value) noexcept {
  switch (errno_value) {
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
    case EINVAL:
    case EPERM: return true;
    default: return false;
  }
}

Errc code_of_limit(int errno_value) noexcept {
  if (errno_value == EPERM) return lockable_bytes() == 0 ? Errc::exhausted : Errc::denied;
  return Errc::exhausted;
}

std::string at_most(ContextHandle const& context, std::int32_t largest, std::string_view what) {
  return context.name + " has at most " + std::to_string(largest) + ' ' + std::string{what} +
         ", of all processes together: end some that are unused";
}

bool locked_memory_is_limited() noexcept {
  return lockable_bytes().has_value();
}

std::string locked_memory_remedy() {
  auto const limit = lockable_bytes();
  if (!limit) return "RLIMIT_MEMLOCK is unlimited, so the machine's memory ran out.";
  std::string text =
      "Memory of devices is locked, and RLIMIT_MEMLOCK is " + std::to_string(*limit) + " bytes";
  if (auto const locked = locked_bytes()) text += ", " + std::to_string(*locked) + " of them taken";
  return text +
         "; raise it with `ulimit -l unlimited`, a memlock line in /etc/security/limits.conf or "
         "LimitMEMLOCK=infinity in a systemd unit, or use less.";
}

Error registration_error(ContextHandle const& context, std::size_t length, int errno_value,
                         char const* verb) {
  auto const& provider = context.provider();
  std::string const call = verb + (" of " + std::to_string(length)) + " bytes";
  std::string const regions = at_most(context, context.limits.regions_max, "regions") + '.';
  switch (errno_value) {
    case EPERM:  // the errno of a limit of 0. Source: Linux mm/mlock.c, can_do_mlock().
      return verb_error(code_of_limit(EPERM), provider, call, errno_value, locked_memory_remedy());
    case ENOMEM:
      return verb_error(Errc::exhausted, provider, call, errno_value,
                        locked_memory_remedy() + " Also, " + regions);
    case EINVAL:
    case ENOSPC: return verb_error(provider, call, errno_value, regions);
    case EFAULT:
      return verb_error(Errc::invalid_argument, provider, call, errno_value,
                        "Not all of it is this process's memory, or some may not be written.");
    default: return verb_error(provider, call, errno_value);
  }
}

Error domain_error(ContextHandle const& context, int errno_value) {
  auto const& provider = context.provider();
  std::string const call = "ibv_alloc_pd on " + context.name;
  if (!may_be_a_limit(errno_value)) return verb_error(provider, call, errno_value);
  return verb_error(code_of_limit(errno_value), provider, call, errno_value,
                    at_most(context, context.limits.protection_domains_max, "protection domains"));
}

Error completion_queue_error(ContextHandle const& context, char const* verb, std::uint32_t depth,
                             int errno_value) {
  auto const& provider = context.provider();
  std::string const call = verb + (" of " + std::to_string(depth)) + " entries";
  if (!may_be_a_limit(errno_value) || provider.last_reason() != nullptr)
    return verb_error(provider, call, errno_value);
  std::string remedy;
  // Whether the smallest can be made distinguishes too large from too many.
  RawHandle<ibv_cq, &Provider::destroy_cq> const smallest{
      provider, provider.create_cq(context.raw.get(), 1, nullptr, nullptr, 0)};
  if (smallest)
    remedy = "One of a single entry can be made: ask for less depth.";
  else
    remedy = at_most(context, context.limits.completion_queues_max, "completion queues") + '.';
  if (locked_memory_is_limited()) remedy += ' ' + locked_memory_remedy();
  return verb_error(code_of_limit(errno_value), provider, call, errno_value, remedy);
}

}  // namespace lend::verbs
