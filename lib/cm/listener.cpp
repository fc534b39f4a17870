// SPDX-License-Identifier: MIT OR Apache-2.0
// Listens and answers requests. One thread at a time per object.
#include <base/giving_up.hpp>
#include <base/standard_reserved.hpp>
#include <cm/address.hpp>
#include <cm/connecting_state.hpp>
#include <cm/establish.hpp>
#include <lend/cm/listener.hpp>

#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend {

namespace {

/// One call looks at no more clients: those that are no peers may never cease.
constexpr int looks_max = 64;

/// A request that was answered: what is left is the peer's confirmation.
class Answering final : public cm::ConnectingState {
 public:
  Answering(PreparedQueuePair queue_pair, cm::CmLink link, cm::Watch watch, Deadline deadline,
            CmPeer peer)
      : ConnectingState{std::move(queue_pair), std::move(link), std::move(watch), deadline},
        peer_{std::move(peer)} {}

  Result<void> answer(rdma_conn_param parameters) {
    if (rdma_accept(link().id.get(), &parameters) != 0)
      return Error::from_errno(Errc::peer_lost, step() + " by rdma_accept", errno,
                               "The peer may have given up.");
    awaits_peer(true);
    return success();
  }

 private:
  Step on(cm::CmEvent const& event) override {
    awaits_peer(false);
    if (event.type != RDMA_CM_EVENT_ESTABLISHED) return cm::error_of(event, step());
    return std::optional{connected(cm::Side::accepts,
                                   {peer_.send_depth, peer_.receive_depth, peer_.message_bytes_max,
                                    std::move(peer_.private_data)},
                                   event)};
  }
  Error late() const override {
    return base::gave_up(deadline(), step() + " was not over", "; nothing is connected");
  }
  [[nodiscard]] std::string step() const { return "accepting the connection of " + peer_.address; }

  CmPeer peer_;
};

Error answered_before() {
  return {Errc::stale_handle, "this request was answered or moved from before"};
}

Error listener_moved() {
  return {Errc::stale_handle, "this CmListener was moved from"};
}

}  // namespace

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

  /// What the peer is answered with.
  struct Answer {
    std::vector<std::byte> message;
    cm::Watch watch;
  };
  /// Everything that can fail before the peer is answered.
  Result<Answer> prepare(PreparedQueuePair& queue_pair, std::span<std::byte const> private_data);
  Result<std::unique_ptr<Answering>> answer(PreparedQueuePair queue_pair, Deadline deadline,
                                            std::span<std::byte const> private_data);
};

struct CmListener::State {
  cm::CmLink link;
  std::string address;

  /// The request that `event` brings, or nothing; `rejected` says then why a client was rejected.
  Result<std::optional<CmRequest>> request_of(cm::CmEvent event, std::string& rejected) const;
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

Result<CmRequest::State::Answer> CmRequest::State::prepare(
    PreparedQueuePair& queue_pair, std::span<std::byte const> private_data) {
  LEND_TRY(handle, cm::usable(queue_pair));
  LEND_TRYV(cm::check_device(*link.id, *handle));
  auto contract = cm::contract_of(*handle, private_data);
  auto const& terms = handle->terms;
  if (terms.from.traffic_class != verbs::Origin::usual)
    contract.traffic_class = terms.traffic_class;
  LEND_TRY(message, cm::encode(cm::ContractKind::answer, contract));
  LEND_TRY(watch, cm::Watch::of(link.events));
  LEND_TRYV(cm::initialize(*link.id, *handle));
  LEND_TRYV(cm::make_ready(*link.id, *handle, std::nullopt));
  return Answer{std::move(message), std::move(watch)};
}

Result<std::unique_ptr<Answering>> CmRequest::State::answer(
    PreparedQueuePair queue_pair, Deadline deadline, std::span<std::byte const> private_data) {
  if (link.is_inherited()) return cm::CmLink::inherited("rdma_accept");
  auto prepared = prepare(queue_pair, private_data);
  if (!prepared.has_value()) {
    cm::refuse(*link.id, {.reason = "it could not be accepted: " + prepared.error().message()});
    return prepared.error();
  }
  auto& [message, watch] = prepared.value();
  auto parameters = cm::parameters_of(*verbs::QueuePairAccess::handle_of(queue_pair), message);
  parameters.responder_resources = std::min(parameters.responder_resources, responder_resources);
  parameters.initiator_depth = std::min(parameters.initiator_depth, initiator_depth);
  auto answering = std::make_unique<Answering>(std::move(queue_pair), std::move(link),
                                               std::move(watch), deadline, std::move(peer));
  LEND_TRYV(answering->answer(parameters));
  return answering;
}

Result<CmConnecting> CmRequest::begin_accept(PreparedQueuePair queue_pair, Deadline deadline,
                                             std::span<std::byte const> private_data) && {
  auto const state = std::move(state_);
  if (state == nullptr) return answered_before();
  LEND_TRY(answering, state->answer(std::move(queue_pair), deadline, private_data));
  return CmConnecting{std::move(answering)};
}

Result<CmConnection> CmRequest::accept(PreparedQueuePair queue_pair, Deadline deadline,
                                       std::span<std::byte const> private_data) && {
  auto const state = std::move(state_);
  if (state == nullptr) return answered_before();
  LEND_TRY(answering, state->answer(std::move(queue_pair), deadline, private_data));
  return answering->finish();
}

Result<void> CmRequest::reject(std::string_view reason) && {
  auto const state = std::move(state_);
  if (state == nullptr) return answered_before();
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
  LEND_TRY(bound, cm::CmAddress::parse(address, true, cm::HostNames::looked_up));
  std::string const text{address};
  base::StandardReserved const reserved;
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

int CmListener::descriptor() const noexcept {
  return state_ ? state_->link.events.native()->fd : -1;
}

Result<std::optional<CmRequest>> CmListener::State::request_of(cm::CmEvent event,
                                                               std::string& rejected) const {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
    return cm::error_of(event, "listening on " + address);
  if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return std::optional<CmRequest>{};

  LEND_TRY(own, cm::CmLink::of(std::move(event.request)));
  auto from = cm::CmAddress::of(*rdma_get_peer_addr(own.id.get())).to_text();
  auto contract = cm::decode(cm::ContractKind::request, event.private_data);
  if (!contract.has_value()) {
    cm::refuse(*own.id, {.by_program = false, .reason = contract.error().message()});
    rejected = from + ": " + contract.error().message();
    return std::optional<CmRequest>{};
  }
  auto& said = contract.value();
  CmPeer peer{std::move(from), said.send_depth, said.receive_depth, said.message_bytes_max,
              std::move(said.private_data)};
  return std::optional{
      CmRequest{std::make_unique<CmRequest::State>(std::move(own), std::move(peer), event)}};
}

Result<std::optional<CmRequest>> CmListener::poll() {
  if (!state_) return listener_moved();
  std::string unused;
  for (int looks = 0; looks < looks_max; ++looks) {
    LEND_TRY(event, state_->link.events.take());
    if (!event) break;
    LEND_TRY(request, state_->request_of(std::move(*event), unused));
    if (request) return std::move(request);
  }
  return std::optional<CmRequest>{};
}

Result<CmRequest> CmListener::next(Deadline deadline) {
  if (!state_) return listener_moved();
  std::string last_rejected;
  do {
    LEND_TRY(event, state_->link.events.next(deadline));
    if (!event) break;
    LEND_TRY(request, state_->request_of(std::move(*event), last_rejected));
    if (request) return std::move(*request);
  } while (!deadline.has_passed());  // other events may never cease
  std::string const last = last_rejected.empty() ? "" : "; last rejected: " + last_rejected;
  return base::gave_up(deadline, "no peer connected by rdma_cm to " + state_->address,
                       "; start the connecting side or wait longer" + last);
}

}  // namespace lend
