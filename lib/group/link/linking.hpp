// SPDX-License-Identifier: MIT OR Apache-2.0
// The links of a rank whose device no endpoints connect, until they are made. The thread of the
// group.
#pragma once

#include <lend/base/result.hpp>
#include <lend/group/group_connector.hpp>
#include <lend/network/link_address.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/gid.hpp>

#include <functional>
#include <memory>
#include <span>

namespace lend::group {

/// Sleeps until a descriptor is readable, at most until the deadline. An error ends the connecting.
using Sleep = std::function<Result<void>(std::span<int const> descriptors, Deadline deadline)>;

class Linking {
 public:
  /// Listens at the first IP address of the device, IPv4 before IPv6.
  /// Errors:  unsupported  there is no connector. not_found  the device has no IP address.
  ///          Those of GroupConnector::open().
  [[nodiscard]] static Result<std::unique_ptr<Linking>> open(Context const& context,
                                                             GroupConnector const* connector);
  Linking(Gid const& host, std::unique_ptr<GroupConnector::Links> links) noexcept;

  /// For one other rank.
  /// Errors:  system_failed  no random bytes.
  [[nodiscard]] Result<LinkAddress> new_address() const;
  [[nodiscard]] GroupConnector::Links& links() const noexcept { return *links_; }

 private:
  Gid host_;
  std::unique_ptr<GroupConnector::Links> links_;
};

}  // namespace lend::group
