// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests a connection until the listener answers or the deadline passes. Any thread.
#include <base/giving_up.hpp>
#include <base/standard_reserved.hpp>
#include <cm/address.hpp>
#include <cm/connecting_state.hpp>
#include <cm/establish.hpp>
#include <lend/cm/connector.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend {

namespace {

// How long to wait before the next request if no listener was there: short compared with the start
// of a program, long compared with a rejected request.
constexpr std::chrono::milliseconds retry_pause{20};
// Before a name is looked up again: it may not be known yet, or its address may have changed.
constexpr std::chrono::milliseconds look_up_shortest{100}, look_up_longest{2000};

/// Where the request goes and what it carries.
struct Request {
  std::string address;  // as the program wrote it
  cm::HostNames names;
  std::optional<cm::CmAddress> target;  // none: its name is not known
  std::optional<cm::CmAddress> source;
  std::vector<std::byte> message;
};

/// The steps from an address to a connection. Each attempt has an id of its own.
class Asking final : public cm::ConnectingState {
 public:
  Asking(PreparedQueuePair queue_pair, cm::CmLink link, cm::Watch watch, Deadline deadline,
         Request request)
      : ConnectingState{std::move(queue_pair), std::move(link), std::move(watch), deadline},
        request_{std::move(request)} {}

  /// The first step, with a new id: looks the name up, if it is time to, and resolves its address.
  Result<void> begin();

 private:
  enum class At : std::uint8_t { address, route, answer };

  Step on(cm::CmEvent const& event) override;
  Step on_answer(cm::CmEvent const& answer);
  Result<void> resume() override;
  Error late() const override;

  Result<void> look_up();
  Result<void> resolve_address();
  Result<void> resolve_route();
  Result<void> request();
  bool asks_itself();
  Result<cm::Contract> establish(cm::CmEvent const& answer);
  /// Asks again later: there is no listener.
  void retry() noexcept;

  [[nodiscard]] std::string step() const;
  /// For the kernel's own timers, which otherwise have their own limits.
  [[nodiscard]] int timeout() const noexcept {
    auto const time = std::chrono::ceil<std::chrono::milliseconds>(deadline().left()).count();
    return static_cast<int>(std::clamp<std::int64_t>(time, 1, INT_MAX));
  }

  Request request_;
  At at_ = At::address;
  bool found_no_listener_ = false;
  Clock::time_point looks_up_at_ = Clock::time_point::min();
  std::chrono::milliseconds look_up_pause_ = look_up_shortest;
  std::string unknown_;  // the resolver's words
};

std::string Asking::step() const {
  switch (at_) {
    case At::address: return "resolving the address " + request_.address;
    case At::route: return "resolving the route to " + request_.address;
    case At::answer: break;
  }
  return "connecting to " + request_.address;
}

Asking::Step Asking::on(cm::CmEvent const& event) {
  if (at_ == At::answer) return on_answer(event);
  if (event.type !=
      (at_ == At::address ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ROUTE_RESOLVED))
    return cm::error_of(event, step());
  LEND_TRYV(at_ == At::address ? resolve_route() : request());
  return std::optional<CmConnection>{};
}

Asking::Step Asking::on_answer(cm::CmEvent const& answer) {
  awaits_peer(false);
  if (cm::says_nobody_listens(answer)) {
    retry();
    return std::optional<CmConnection>{};
  }
  LEND_TRY(contract, establish(answer));
  return std::optional{connected(cm::Side::connects, std::move(contract), answer)};
}

Result<void> Asking::begin() {
  if (Clock::now() >= looks_up_at_) LEND_TRYV(look_up());
  if (request_.target) return resolve_address();
  pause_until(looks_up_at_);
  return success();
}

/// A name that is not known now keeps the address that it had.
Result<void> Asking::look_up() {
  bool const is_name = request_.names == cm::HostNames::looked_up;
  auto const found = cm::CmAddress::parse(request_.address, false, request_.names);
  if (!found && (!is_name || found.error() != Errc::not_found)) return found.error();
  if (found) request_.target = found.value();
  unknown_ = found ? "" : found.error().message();
  looks_up_at_ = is_name ? Clock::now() + look_up_pause_ : Clock::time_point::max();
  look_up_pause_ = std::min(2 * look_up_pause_, look_up_longest);
  return success();
}

Result<void> Asking::resolve_address() {
  at_ = At::address;
  LEND_TRYV(cm::set_class(*link().id, queue_pair()));
  auto& source = request_.source;
  base::StandardReserved const reserved;
  if (rdma_resolve_addr(link().id.get(), source ? source->native() : nullptr,
                        request_.target->native(), timeout()) != 0)
    return Error::from_errno(Errc::not_found, step() + " by rdma_resolve_addr", errno,
                             "No RDMA device has a route there.");
  return success();
}

Result<void> Asking::resolve_route() {
  LEND_TRYV(cm::check_device(*link().id, queue_pair()));
  at_ = At::route;
  if (rdma_resolve_route(link().id.get(), timeout()) != 0)
    return Error::from_errno(Errc::not_found, step() + " by rdma_resolve_route", errno);
  return success();
}

/// Whether rdma_cm chose for this end the very port that it is to ask. Then no peer listens there,
/// and on SoftiWARP the TCP connection would be one to itself.
/// Source:  kernel drivers/infiniband/core/cma.c, cma_alloc_any_port(), and sw/siw/siw_cm.c,
///          kernel_bindconnect(); seen in a guest.
bool Asking::asks_itself() {
  return cm::CmAddress::of(*rdma_get_local_addr(link().id.get())).to_text() ==
         request_.target->to_text();
}

Result<void> Asking::request() {
  if (asks_itself()) {
    retry();
    return success();
  }
  LEND_TRYV(cm::initialize(*link().id, queue_pair()));
  at_ = At::answer;
  auto parameters = cm::parameters_of(queue_pair(), request_.message);
  if (rdma_connect(link().id.get(), &parameters) == 0) {
    awaits_peer(true);
    return success();
  }
  // On SoftiWARP the TCP connection is made in this call.
  if (errno != ECONNREFUSED) return Error::from_errno(step() + " by rdma_connect", errno);
  retry();
  return success();
}

void Asking::retry() noexcept {
  found_no_listener_ = true;
  link().id.reset();
  pause_until(Clock::now() + retry_pause);
}

Result<void> Asking::resume() {
  LEND_TRYV(link().renew());
  return begin();
}

// A step of a later attempt that was cut short is not the reason.
Error Asking::late() const {
  if (!unknown_.empty())
    return base::gave_up(deadline(), "the host of " + request_.address + " was not known",
                         " (" + unknown_ + ")");
  if (found_no_listener_)
    return base::gave_up(deadline(), "no peer listened by rdma_cm at " + request_.address,
                         "; start a CmListener there");
  return base::gave_up(deadline(), step() + " was not over", "; nothing is connected");
}

Result<cm::Contract> Asking::establish(cm::CmEvent const& answer) {
  // On iWARP the answer establishes the connection.
  bool const established = answer.type == RDMA_CM_EVENT_ESTABLISHED;
  if (!established && answer.type != RDMA_CM_EVENT_CONNECT_RESPONSE)
    return cm::error_of(answer, step());
  auto contract = cm::decode(cm::ContractKind::answer, answer.private_data);
  if (!contract.has_value()) {
    if (established)
      rdma_disconnect(link().id.get());
    else
      cm::refuse(*link().id, {.by_program = false, .reason = contract.error().message()});
    return contract;
  }
  LEND_TRYV(cm::make_ready(*link().id, queue_pair(), contract.value().traffic_class));
  if (!established && rdma_establish(link().id.get()) != 0)
    return Error::from_errno(Errc::peer_lost, step() + " by rdma_establish", errno);
  return contract;
}

/// Begins to connect.
Result<std::unique_ptr<Asking>> ask(std::string_view address, PreparedQueuePair queue_pair,
                                    Deadline deadline, CmOptions const& options,
                                    cm::HostNames names) {
  LEND_TRY(handle, cm::usable(queue_pair));
  LEND_TRY(message,
           cm::encode(cm::ContractKind::request, cm::contract_of(*handle, options.private_data)));
  LEND_TRY(link, cm::CmLink::make());  // before parsing: it has the best error without rdma_cm
  LEND_TRY(watch, cm::Watch::of(link.events));
  std::optional<cm::CmAddress> source;
  if (!options.source.empty()) {
    LEND_TRY(parsed, cm::CmAddress::parse(options.source, true, names));
    source = parsed;
  } else if (handle->terms.from.gid != verbs::Origin::usual) {
    auto const host = text_of(handle->local.gid);
    LEND_TRY(chosen,
             cm::CmAddress::parse(cm::is_ipv6(host) ? '[' + host + ']' : host, true, names));
    source = chosen;
  }
  auto asking = std::make_unique<Asking>(
      std::move(queue_pair), std::move(link), std::move(watch), deadline,
      Request{std::string{address}, names, {}, source, std::move(message)});
  LEND_TRYV(asking->begin());
  return asking;
}

}  // namespace

Result<CmConnecting> CmConnecting::begin(std::string_view address, PreparedQueuePair queue_pair,
                                         Deadline deadline, CmOptions const& options) {
  LEND_TRY(asking, ask(address, std::move(queue_pair), deadline, options, cm::HostNames::refused));
  return CmConnecting{std::move(asking)};
}

Result<CmConnection> cm_connect(std::string_view address, PreparedQueuePair queue_pair,
                                Deadline deadline, CmOptions const& options) {
  LEND_TRY(asking,
           ask(address, std::move(queue_pair), deadline, options, cm::HostNames::looked_up));
  return asking->finish();
}

}  // namespace lend
