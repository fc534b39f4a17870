// SPDX-License-Identifier: MIT OR Apache-2.0
// Queue pairs of one process, or of two, connected by rdma_cm at the address LEND_TEST_ADDRESS.
// Without cm in this build the test fails. One thread at a time.
#pragma once

#include <lend/base/result.hpp>
#include <lend/group/group_connector.hpp>
#include <lend/network/link_address.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace lend::test {

/// Connects `connector` to `acceptor`. Nothing where the kernel reset an accepted connection before
/// the connector saw the answer, which SoftiWARP has been seen to do: try again, with others.
[[nodiscard]] std::optional<std::pair<QueuePair, QueuePair>> try_connect_by_cm(
    PreparedQueuePair connector, PreparedQueuePair acceptor);
/// The same, where there are no others.
[[nodiscard]] std::pair<QueuePair, QueuePair> connect_by_cm(PreparedQueuePair connector,
                                                            PreparedQueuePair acceptor);

/// For GroupOptions::connector; null without cm.
[[nodiscard]] GroupConnector const* group_connector() noexcept;

/// Connects to where a rank is awaited, and shows the key.
[[nodiscard]] Result<QueuePair> reach_by_cm(LinkAddress const& at, PreparedQueuePair queue_pair);

/// Waits for a connector; `tell` is given the address.
[[nodiscard]] QueuePair accept_by_cm(PreparedQueuePair queue_pair,
                                     std::function<void(std::string const&)> const& tell);
[[nodiscard]] QueuePair connect_by_cm(std::string const& address, PreparedQueuePair queue_pair);

}  // namespace lend::test
