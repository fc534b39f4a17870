// SPDX-License-Identifier: MIT OR Apache-2.0
// Finds an address at which other ranks can connect.
#include <group/link/linking.hpp>
#include <network/wire/address.hpp>
#include <verbs/device/gid_table.hpp>

#include <sys/random.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace lend::group {

Linking::Linking(Gid const& host, std::unique_ptr<GroupConnector::Links> links) noexcept
    : host_{host}, links_{std::move(links)} {}

Result<std::unique_ptr<Linking>> Linking::open(Context const& context,
                                               GroupConnector const* connector) {
  if (connector == nullptr)
    return Error{Errc::unsupported,
                 "ranks on " + context.name() +
                     ", an iWARP device, are connected by rdma_cm only: link liblend-cm, and give "
                     "cm_group_connector() of lend/cm/group_connector.hpp as "
                     "GroupOptions::connector"};
  LEND_TRY(gids, context.gids());
  std::vector<network::OwnAddress> addresses;
  if (!gids.empty()) {
    LEND_TRY(own, network::own_addresses_of_iwarp(gids.front().gid));
    addresses = std::move(own);
  }
  auto const host = addresses.empty() ? std::nullopt : verbs::gid_of_text(addresses.front().text);
  if (!host)
    return Error{Errc::not_found, "the network interface of " + context.name() +
                                      " has no IP address, at which the other ranks could connect"};
  LEND_TRY(links, connector->open(addresses.front().text));
  return std::make_unique<Linking>(*host, std::move(links));
}

Result<LinkAddress> Linking::new_address() const {
  LinkAddress address{.host = host_, .port = links_->port()};
  auto const got = ::getrandom(address.key.data(), address.key.size(), 0);
  if (got != static_cast<ssize_t>(address.key.size())) return Error::from_errno("getrandom", errno);
  return address;
}

}  // namespace lend::group
