// SPDX-License-Identifier: MIT OR Apache-2.0
// rdma_cm for groups. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/group/group_connector.hpp>

namespace lend {

/// For GroupOptions::connector, with which ranks on iWARP devices are a group:
///
///     LEND_TRY(group, Group::join(domain, seat, within(30s),
///                                 {.connector = &cm_group_connector()}));
///
/// A rank listens at the first IP address of its device's network interface, IPv4 before IPv6. It
/// accepts the connection that shows the key of a link, and rejects others with the reason.
///
/// Lives as long as the process. Its errors are those of CmListener::open() and cm_connect(). On
/// SoftiWARP a call waits for the peer's kernel, as CmConnecting::advance().
[[nodiscard]] LEND_EXPORT GroupConnector const& cm_group_connector() noexcept;

}  // namespace lend
