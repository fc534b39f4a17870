// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects the channels of a bench.
#include <base/wire.hpp>
#include <doctor/pair_ports.hpp>
#include <tools/bench/joining.hpp>

#include <lend/network/connect.hpp>

#include <chrono>

namespace lend::tools {

namespace {

using namespace std::chrono_literals;

constexpr auto connect_patience = 10s;
constexpr auto settle_patience = 20s;  // for a peer that connects meanwhile

/// The host of "host:port" or "[host]:port".
std::string host_of(std::string_view address) {
  auto host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::string{host};
}

}  // namespace

Result<void> Joining::use(Context const& device) {
  is_by_cm_ = !device.capabilities().endpoints;
  if (!is_by_cm_) return success();
  device_ = device.name();
  if (connector_ == nullptr)
    return Error{Errc::unsupported,
                 device_ +
                     " is a device of iWARP, which only rdma_cm connects, and lend-cm is not "
                     "in this program"};
  bool const is_local = address_.starts_with("unix:");
  if (is_local) {
    auto const own = doctor::addresses_of_iwarp(device);
    if (own.empty())
      return Error{Errc::not_found, device_ + " has no IP address, by which rdma_cm finds it"};
    host_ = own.front().text;
  } else {
    host_ = host_of(address_);
  }
  if (listener_ == nullptr) return success();
  // A peer on another host comes to any address of the device.
  LEND_TRY(cm_listener, connector_->listen(is_local                    ? host_
                                           : address_.starts_with('[') ? "::"
                                                                       : "0.0.0.0"));
  cm_listener_ = std::move(cm_listener);
  port_ = cm_listener_->port();
  return success();
}

Result<Meeting> Joining::meet(Endpoint const& endpoint) const {
  Note note{};
  base::WireWriter{note}.u16(port_);
  if (listener_ != nullptr) return listener_->meet(endpoint, note, Deadline::never());
  return lend::meet(address_, endpoint, note, within(connect_patience), options_);
}

Result<Channel> Joining::join_met(PreparedChannel prepared, Meeting const& met) {
  if (met.note().size() != Note{}.size())
    return Error{Errc::incompatible_peer, "the device of the bench at " + host_ +
                                              " is connected by rdma_cm, the other by "
                                              "endpoints; choose two of one kind by --device"};
  if (listener_ == nullptr) port_ = base::WireReader{met.note()}.u16();
  return another(std::move(prepared));
}

Result<Channel> Joining::first(PreparedChannel prepared) {
  if (!is_by_cm_ && listener_ != nullptr)
    return listener_->accept(std::move(prepared), Deadline::never());
  if (!is_by_cm_) return connect(address_, std::move(prepared), within(connect_patience), options_);
  LEND_TRY(met, meet(prepared.endpoint()));
  auto channel = join_met(std::move(prepared), met);
  auto const settled = std::move(met).settle(channel ? success() : Result<void>{channel.error()},
                                             within(settle_patience));
  if (!settled) return settled.error();
  return channel;
}

Result<Channel> Joining::another(PreparedChannel prepared) {
  auto const deadline = within(connect_patience);
  auto queue_pair = prepared.take_queue_pair();
  auto connected = cm_listener_
                       ? cm_listener_->accept(std::move(queue_pair), deadline)
                       : connector_->connect(host_, port_, {}, std::move(queue_pair), deadline);
  if (!connected) return connected.error();
  return std::move(prepared).adopt(std::move(connected).value());
}

}  // namespace lend::tools
