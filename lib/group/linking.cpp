// SPDX-License-Identifier: MIT OR Apache-2.0
// Of two ranks the higher one connects to the lower one, and so sends first. The thread of the
// group.
#include <base/giving_up.hpp>
#include <group/group_state.hpp>
#include <group/linking.hpp>
#include <launch/desk_table.hpp>
#include <network/wire/address.hpp>
#include <verbs/device/gid_table.hpp>

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace lend::group {

namespace {

Error not_connected(std::uint32_t rank, Error const& why) {
  return Error{why.code(), "no connection to rank " + std::to_string(rank) + ": " + why.message()};
}

}  // namespace

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

Result<void> GroupState::connect(std::span<RankCard const> theirs, Deadline deadline,
                                 Sleep const& sleep) {
  if (linking_ == nullptr) {
    for (auto const rank : linked_) {
      LEND_TRYV(links_[rank]->connect(theirs[rank]));
    }
    return success();
  }
  auto const linking = std::move(linking_);
  auto& making = linking->links();
  for (auto const rank : linked_) {
    auto queue_pair = links_[rank]->take_queue_pair();
    if (ranks_.rank < rank) {
      making.accept(rank, cards_[rank].address.key, std::move(queue_pair), deadline);
      continue;
    }
    auto const begun = making.connect(rank, theirs[rank].address, std::move(queue_pair), deadline);
    if (!begun) return not_connected(rank, begun.error());
  }
  for (;;) {
    LEND_TRYV(take_connections(making, theirs));
    LEND_TRY(next_greeting, greet_peers());
    if (!next_greeting) return success();
    if (deadline.has_passed()) return connecting_is_late(deadline);
    LEND_TRY(may_sleep, set_.arm());
    if (!may_sleep) continue;
    LEND_TRYV(sleep(std::array{making.descriptor(), set_.descriptor()},
                    sooner(deadline, *next_greeting)));
  }
}

Result<void> GroupState::take_connections(GroupConnector::Links& making,
                                          std::span<RankCard const> theirs) {
  for (;;) {
    LEND_TRY(made, making.next());
    if (!made) return success();
    auto& [rank, queue_pair] = *made;
    if (!queue_pair) return not_connected(rank, queue_pair.error());
    auto const adopted = links_[rank]->adopt(std::move(queue_pair).value(), theirs[rank]);
    if (!adopted) return not_connected(rank, adopted.error());
  }
}

/// When the next greeting is due; nothing: all ranks have met.
Result<std::optional<Deadline>> GroupState::greet_peers() {
  LEND_TRYV(without_value(set_.poll(ready_)));
  std::optional<Deadline> next;
  for (auto const rank : linked_) {
    auto& link = *links_[rank];
    auto const greeted = link.greet();
    if (!greeted) return not_connected(rank, greeted.error());
    if (!link.has_met()) next = sooner(next.value_or(Deadline::never()), link.next_greeting());
  }
  return next;
}

Error GroupState::connecting_is_late(Deadline deadline) const {
  std::vector<std::uint32_t> missing;
  for (auto const rank : linked_)
    if (!links_[rank]->has_met()) missing.push_back(rank);
  return base::gave_up(deadline, "rank " + std::to_string(ranks_.rank) + " was not connected to " +
                                     launch::list_of(missing));
}

}  // namespace lend::group
