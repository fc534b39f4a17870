// SPDX-License-Identifier: MIT OR Apache-2.0
// The second step of an exchange. One thread at a time.
#include <lend/base/stop.hpp>
#include <lend/network/meeting.hpp>

#include <network/exchange/exchange.hpp>

#include <utility>

namespace lend {

static_assert(note_bytes_max == network::note_bytes_max);

Meeting::Meeting(network::Peer peer) : peer_{std::make_unique<network::Peer>(std::move(peer))} {}
Meeting::Meeting(Meeting&&) noexcept = default;
Meeting& Meeting::operator=(Meeting&&) noexcept = default;
Meeting::~Meeting() = default;

network::Peer const& Meeting::peer() const noexcept {
  if (peer_ == nullptr) stop("a Meeting was used after it had been moved from");
  return *peer_;
}

Endpoint const& Meeting::endpoint() const noexcept {
  return peer().greeting.endpoint;
}

std::span<std::byte const> Meeting::note() const noexcept {
  return std::as_bytes(std::span{peer().greeting.note});
}

Result<void> Meeting::settle(Result<void> const& outcome, Deadline deadline) && {
  if (peer_ == nullptr) return Error{Errc::stale_handle, "this Meeting was settled before"};
  auto const peer = std::move(peer_);
  auto const theirs = network::exchange_status(*peer, network::status_of(outcome), deadline);
  return network::joint_outcome(*peer, outcome, theirs);
}

}  // namespace lend
