// SPDX-License-Identifier: MIT OR Apache-2.0
// Examines whether this process can do RDMA, and says what keeps it from that. Any thread.
#pragma once

#include <lend/base/export.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lend {

enum class FindingLevel : std::uint8_t {
  ok,
  warn,     ///< it works, but slower than it could, or not for every program
  fail,     ///< calls of lend will fail because of it
  skipped,  ///< it could not be examined, or concerns nothing of this host; `why` says which
};

/// What one check found. Values.
struct LEND_ABI_TAG Finding {
  std::string_view id{};  ///< the check: "memlock". It stays the same in later versions
  FindingLevel level{};
  std::string subject{};    ///< what was examined: "this process", "mlx5_0/1" (device, port)
  std::string seen{};       ///< what is so now; empty if skipped
  std::string why{};        ///< what follows from it, or why it was skipped; empty if ok
  std::string mend{};       ///< commands or settings, one a line; empty if there are none
  std::string_view page{};  ///< of the guide: "devices"; "soft": that of the soft device
};

/// Examines host and process: limits, device files, drivers, ports, addresses, memory. Limits and
/// permissions are the calling process's own, so call it in the job, not on the login node. The
/// last finding, `use`, says what this process can use.
///
/// It opens each device for a moment, as open_device() does; the soft device then makes its
/// rendezvous directory. It changes nothing else. Where ports have error counters it takes 250 ms,
/// between two readings of these.
///
/// Errors:  none; throws std::bad_alloc.
/// Source:  proc(5); Linux Documentation/ABI/stable/sysfs-class-infiniband; each check names its
///          own.
[[nodiscard]] LEND_EXPORT std::vector<Finding> examine();

[[nodiscard]] LEND_EXPORT std::string_view name_of(FindingLevel) noexcept;
/// Some lines for people, each with its end: level, id, subject and what was seen; below these why,
/// and how to mend it. Control characters are replaced.
[[nodiscard]] LEND_EXPORT std::string text_of(Finding const&);

}  // namespace lend
