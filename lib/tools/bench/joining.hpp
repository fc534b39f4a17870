// SPDX-License-Identifier: MIT OR Apache-2.0
// How the channels of one end of a bench are connected to those of the other: by endpoints over
// TCP, or on iWARP by rdma_cm. One thread.
#pragma once

#include <lend/channel/prepared_channel.hpp>
#include <lend/doctor/pair_connector.hpp>
#include <lend/network/meeting.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace lend::tools {

class Joining {
 public:
  /// Of the far end. Borrows: the listener, and the connector, if there is one.
  Joining(Listener& listener, PairConnector const* by_cm) noexcept
      : listener_{&listener}, address_{listener.address()}, connector_{by_cm} {}
  /// Of the near end.
  Joining(std::string_view address, ExchangeOptions options, PairConnector const* by_cm)
      : address_{address}, options_{std::move(options)}, connector_{by_cm} {}

  /// Before all others. The device of all channels.
  /// Errors:  unsupported  it is one of iWARP, and this program has no connector.
  ///          not_found    it has no IP address. And those of PairConnector::listen().
  [[nodiscard]] Result<void> use(Context const& device);
  /// Whether the device is one of iWARP.
  [[nodiscard]] bool is_by_cm() const noexcept { return is_by_cm_; }

  /// Finds the peer: the far end waits for one as long as it takes, the near end 10 s.
  /// Errors:  those of Listener::accept(), of lend::connect(), and of the connector;
  ///          incompatible_peer  its device is connected in the other way.
  [[nodiscard]] Result<Channel> first(PreparedChannel prepared);
  /// Another channel to the same peer. Shape: is_by_cm(), and the peer does the same.
  /// Errors:  those of the connector.
  [[nodiscard]] Result<Channel> another(PreparedChannel prepared);

 private:
  using Note = std::array<std::byte, 2>;  // the port of rdma_cm; at the near end 0
  [[nodiscard]] Result<Meeting> meet(Endpoint const& endpoint) const;
  [[nodiscard]] Result<Channel> join_met(PreparedChannel prepared, Meeting const& met);

  Listener* listener_ = nullptr;  // none at the near end
  std::string address_;
  ExchangeOptions options_{};
  PairConnector const* connector_;
  bool is_by_cm_ = false;
  std::string device_{}, host_{};  // where rdma_cm connects, at the near end
  std::uint16_t port_ = 0;
  std::unique_ptr<PairConnector::Listener> cm_listener_{};  // at the far end
};

}  // namespace lend::tools
