// SPDX-License-Identifier: MIT OR Apache-2.0
// Listens and answers requests. One thread at a time per object.
#include <base/giving_up.hpp>
#include <cm/address.hpp>
#include <cm/establish.hpp>
#include <lend/cm/listener.hpp>

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend {

struct CmRequest::State {
  cm::CmLink link;
  CmPeer peer;
  std::uint8_t responder_resources;
  std::uint8_t initiator_depth;
  std::string device;

  State(cm::CmLink own_link, CmPeer from, cm::CmEvent const& event)
      : link{std::move(own_link)},
        peer{std::move(from)},
        responder_resources{event.responder_resources},
        initiator_depth{event.initiator_depth},
        device{link.id->verbs != nullptr ? link.id->verbs->device->name : ""} {}

  /// The checks before the peer is answered.
  Result<std::vector<std::byte>> prepare(PreparedQueuePair& queue_pair,
                                         std::span<std::byte const> private_data);
};

struct CmListener::State {
  cm::CmLink link;
  std::string address;
};

// Requests.

CmRequest::CmRequest(std::unique_ptr<State> state) noexcept : state_{std::move(state)} {}
CmRequest::CmRequest(CmRequest&&) noexcept = default;
CmRequest& CmRequest::operator=(CmRequest&& other) noexcept {
  CmRequest old{std::move(*this)};  // rejects what is replaced
  state_ = std::move(other.state_);
  return *this;
}
CmRequest::~CmRequest() {
  if (state_ && !state_->link.is_inherited())
    cm::refuse(*state_->link.id, {.reason = "the listener dropped the request"});
}

CmRequest::State& CmRequest::state() const noexcept {
  if (!state_) stop("a CmRequest was used after it had been answered or moved from");
  return *state_;
}
CmPeer const& CmRequest::peer() const noexcept {
  return state().peer;
}
std::string const& CmRequest::device() const noexcept {
  return state().device;
}
std::uint8_t CmRequest::port() const noexcept {
  return state().link.id->port_num;
}

Result<std::vector<std::byte>> CmRequest::State::prepare(PreparedQueuePair& queue_pair,
                                                         std::span<std::byte const> private_data) {
  LEND_TRY(handle, cm::usable(queue_pair));
  LEND_TRYV(cm::check_device(*link.id, *handle));
  LEND_TRY(message, cm::encode(cm::ContractKind::answer, cm::contract_of(*handle, private_data)));
  LEND_TRYV(cm::initialize(*link.id, *handle));
  LEND_TRYV(cm::make_ready(*link.id, *handle));
  return std::move(message);
}

Result<CmConnection> CmRequest::accept(PreparedQueuePair queue_pair, Deadline deadline,
                                       std::span<std::byte const> private_data) && {
  auto const state = std::move(state_);
  if (state == nullptr)
    return Error{Errc::stale_handle, "this request was answered or moved from before"};
  cm::CmLink& link = state->link;
  if (link.is_inherited()) return cm::CmLink::inherited("rdma_accept");
  auto const message = state->prepare(queue_pair, private_data);
  if (!message.has_value()) {
    cm::refuse(*link.id, {.reason = "it could not be accepted: " + message.error().message()});
    return message.error();
  }

  auto const step = "accepting the connection of " + state->peer.address;
  auto parameters =
      cm::parameters_of(*verbs::QueuePairDoor::handle_of(queue_pair), message.value());
  parameters.responder_resources =
      std::min(parameters.responder_resources, state->responder_resources);
  parameters.initiator_depth = std::min(parameters.initiator_depth, state->initiator_depth);
  if (rdma_accept(link.id.get(), &parameters) != 0)
    return Error::from_errno(Errc::peer_lost, step + " by rdma_accept", errno,
                             "The peer may have given up.");
  LEND_TRY(established, link.await(step, deadline));
  if (established.type != RDMA_CM_EVENT_ESTABLISHED) return cm::error_of(established, step);
  CmPeer& peer = state->peer;
  return cm::completed(
      std::move(link), std::move(queue_pair),
      {peer.send_depth, peer.receive_depth, peer.message_bytes_max, std::move(peer.private_data)});
}

Result<void> CmRequest::reject(std::string_view reason) && {
  auto const state = std::move(state_);
  if (state == nullptr)
    return Error{Errc::stale_handle, "this request was answered or moved from before"};
  if (state->link.is_inherited()) return cm::CmLink::inherited("rdma_reject");
  auto const message = cm::encode(cm::Refusal{.reason = std::string{reason}});
  if (rdma_reject(state->link.id.get(), message.data(),
                  static_cast<std::uint8_t>(message.size())) != 0)
    return Error::from_errno(Errc::peer_lost, "rdma_reject of " + state->peer.address, errno,
                             "The peer may have given up.");
  return success();
}

// Listeners.

CmListener::CmListener(std::unique_ptr<State> state) noexcept : state_{std::move(state)} {}
CmListener::CmListener(CmListener&&) noexcept = default;
CmListener& CmListener::operator=(CmListener&&) noexcept = default;
CmListener::~CmListener() = default;

Result<CmListener> CmListener::open(std::string_view address, int backlog) {
  LEND_TRY(link, cm::CmLink::make());
  LEND_TRY(bound, cm::CmAddress::parse(address, true));
  std::string const text{address};
  if (rdma_bind_addr(link.id.get(), bound.native()) != 0) {
    int const error = errno;
    bool const nowhere = error == EADDRNOTAVAIL || error == ENODEV;
    return Error::from_errno(
        nowhere ? Errc::not_found : Errc::system_failed, "rdma_bind_addr to " + text, error,
        nowhere ? "It is no address of an RDMA device's network interface." : "");
  }
  if (rdma_listen(link.id.get(), backlog) != 0)
    return Error::from_errno(Errc::system_failed, "rdma_listen on " + text, errno);
  auto const chosen = cm::CmAddress::of(*rdma_get_local_addr(link.id.get())).to_text();
  return CmListener{std::make_unique<State>(State{std::move(link), chosen})};
}

std::string const& CmListener::address() const noexcept {
  if (!state_) stop("a CmListener was used after it had been moved from");
  return state_->address;
}

Result<CmRequest> CmListener::next(Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this CmListener was moved from"};
  std::string last_rejected;
  auto const nobody_came = [&] {
    std::string const last = last_rejected.empty() ? "" : "; last rejected: " + last_rejected;
    return base::gave_up(deadline, "no peer connected by rdma_cm to " + state_->address,
                         "; start the connecting side or wait longer" + last);
  };
  for (;;) {
    LEND_TRY(event, state_->link.events.next(deadline));
    if (!event) return nobody_came();
    if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
      return cm::error_of(*event, "listening on " + state_->address);
    if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;

    LEND_TRY(link, cm::CmLink::of(std::move(event->request)));
    auto from = cm::CmAddress::of(*rdma_get_peer_addr(link.id.get())).to_text();
    auto contract = cm::decode(cm::ContractKind::request, event->private_data);
    if (!contract.has_value()) {
      cm::refuse(*link.id, {.by_program = false, .reason = contract.error().message()});
      last_rejected = from + ": " + contract.error().message();
      if (deadline.has_passed()) return nobody_came();  // requests may never cease
      continue;
    }
    auto& said = contract.value();
    CmPeer peer{std::move(from), said.send_depth, said.receive_depth, said.message_bytes_max,
                std::move(said.private_data)};
    return CmRequest{std::make_unique<CmRequest::State>(std::move(link), std::move(peer), *event)};
  }
}

}  // namespace lend
