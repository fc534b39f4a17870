// SPDX-License-Identifier: MIT OR Apache-2.0
// How an examination connects ports that no endpoints connect. One thread at a time per listener.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/queue_pair.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace lend {

/// Connects the queue pairs of iWARP devices. Only rdma_cm does, which is in a library of its own:
/// cm_pair_connector() of `lend/cm/pair_connector.hpp` is one. Any thread.
class LEND_EXPORT PairConnector {
 public:
  /// An address at which one peer is awaited.
  class LEND_EXPORT Listener {
   public:
    Listener() = default;
    Listener(Listener const&) = delete;
    Listener& operator=(Listener const&) = delete;
    virtual ~Listener() = default;

    [[nodiscard]] virtual std::uint16_t port() const noexcept = 0;
    /// Consumes the queue pair, also when it fails.
    /// Errors:  timed_out  no peer came by the deadline; others as the connector has them.
    [[nodiscard]] virtual Result<QueuePair> accept(PreparedQueuePair queue_pair,
                                                   Deadline deadline) = 0;
  };

  PairConnector() = default;
  PairConnector(PairConnector const&) = delete;
  PairConnector& operator=(PairConnector const&) = delete;
  virtual ~PairConnector() = default;

  /// Errors:  says why this process can connect nothing.
  [[nodiscard]] virtual Result<void> check() const = 0;
  /// Listens at an IP address of this host, with a port that the system chooses.
  [[nodiscard]] virtual Result<std::unique_ptr<Listener>> listen(std::string const& host) const = 0;
  /// Connects from the IP address `source`, or where it is empty from that of the route, to a
  /// listener's. Consumes the queue pair, also when it fails.
  /// Errors:  timed_out  by the deadline; others as the connector has them.
  [[nodiscard]] virtual Result<QueuePair> connect(std::string const& host, std::uint16_t port,
                                                  std::string const& source,
                                                  PreparedQueuePair queue_pair,
                                                  Deadline deadline) const = 0;
};

}  // namespace lend
