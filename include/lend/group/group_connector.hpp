// SPDX-License-Identifier: MIT OR Apache-2.0
// How ranks are connected whose devices no endpoints connect. Any thread; links one at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/network/link_address.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lend {

/// Connects the ranks of iWARP devices. Only rdma_cm does, which is in a library of its own:
/// cm_group_connector() of `lend/cm/group_connector.hpp` is one.
class LEND_EXPORT GroupConnector {
 public:
  /// The links of one rank, which are made at the same time. No call waits. The destructor gives up
  /// those that are not connected.
  class LEND_EXPORT Links {
   public:
    /// What became of one.
    struct Made {
      std::uint32_t rank = 0;  ///< the other one
      Result<QueuePair> queue_pair;
    };

    Links() = default;
    Links(Links const&) = delete;
    Links& operator=(Links const&) = delete;
    virtual ~Links() = default;

    /// At which the other ranks connect.
    [[nodiscard]] virtual std::uint16_t port() const noexcept = 0;
    /// Awaits `rank`, which shows `key`: any other connection is rejected.
    virtual void accept(std::uint32_t rank, LinkAddress::Key const& key,
                        PreparedQueuePair queue_pair, Deadline deadline) = 0;
    /// Begins to connect to `rank`. Consumes the queue pair, also when it fails.
    [[nodiscard]] virtual Result<void> connect(std::uint32_t rank, LinkAddress const& to,
                                               PreparedQueuePair queue_pair, Deadline deadline) = 0;
    /// Readable while next() has something to do.
    [[nodiscard]] virtual int descriptor() const noexcept = 0;
    /// One that is connected or has failed, each once. Nothing: none is yet.
    [[nodiscard]] virtual Result<std::optional<Made>> next() = 0;
  };

  GroupConnector() = default;
  GroupConnector(GroupConnector const&) = delete;
  GroupConnector& operator=(GroupConnector const&) = delete;
  virtual ~GroupConnector() = default;

  /// Begins to listen at an IP address of this host, with a port that the system chooses.
  [[nodiscard]] virtual Result<std::unique_ptr<Links>> open(std::string const& host) const = 0;
};

}  // namespace lend
