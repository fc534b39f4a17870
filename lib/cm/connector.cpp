// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests a connection until the listener answers or the deadline passes. Any thread.
#include <base/giving_up.hpp>
#include <cm/address.hpp>
#include <cm/establish.hpp>
#include <lend/cm/connector.hpp>

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <new>
#include <utility>

namespace lend {

namespace {

// How long to wait before the next request if no listener was there: short compared with the start
// of a program, long compared with a rejected request.
constexpr std::chrono::milliseconds retry_pause{20};

/// The steps from an address to a connection. Each attempt has an id of its own.
class Connecting {
 public:
  Connecting(std::string_view address, cm::CmAddress target, std::optional<cm::CmAddress> source,
             verbs::QueuePairHandle& queue_pair, Deadline deadline)
      : address_{address},
        target_{target},
        source_{source},
        queue_pair_{queue_pair},
        deadline_{deadline} {}

  /// Resolves address and route and sends the request. Nothing: there is no listener.
  Result<std::optional<cm::CmEvent>> ask(cm::CmLink& link, std::span<std::byte const> message);
  /// Processes the listener's answer.
  Result<cm::Contract> finish(cm::CmLink& link, cm::CmEvent const& answer);

  [[nodiscard]] std::string step(std::string_view what) const {
    return std::string{what} + " " + address_;
  }

 private:
  Result<void> resolve(cm::CmLink& link);
  /// For the kernel's own timers, which otherwise have their own limits.
  [[nodiscard]] int timeout() const noexcept {
    auto const time = std::chrono::ceil<std::chrono::milliseconds>(deadline_.left()).count();
    return static_cast<int>(std::clamp<std::int64_t>(time, 1, INT_MAX));
  }

  std::string address_;
  cm::CmAddress target_;
  std::optional<cm::CmAddress> source_;
  verbs::QueuePairHandle& queue_pair_;
  Deadline deadline_;
};

Result<void> Connecting::resolve(cm::CmLink& link) {
  auto const address_step = step("resolving the address");
  sockaddr* const source = source_ ? source_->native() : nullptr;
  if (rdma_resolve_addr(link.id.get(), source, target_.native(), timeout()) != 0)
    return Error::from_errno(Errc::not_found, address_step + " by rdma_resolve_addr", errno,
                             "No RDMA device has a route there.");
  LEND_TRY(resolved, link.await(address_step, deadline_));
  if (resolved.type != RDMA_CM_EVENT_ADDR_RESOLVED) return cm::error_of(resolved, address_step);
  LEND_TRYV(cm::check_device(*link.id, queue_pair_));

  auto const route_step = step("resolving the route to");
  if (rdma_resolve_route(link.id.get(), timeout()) != 0)
    return Error::from_errno(Errc::not_found, route_step + " by rdma_resolve_route", errno);
  LEND_TRY(routed, link.await(route_step, deadline_));
  if (routed.type != RDMA_CM_EVENT_ROUTE_RESOLVED) return cm::error_of(routed, route_step);
  return success();
}

Result<std::optional<cm::CmEvent>> Connecting::ask(cm::CmLink& link,
                                                   std::span<std::byte const> message) {
  LEND_TRYV(resolve(link));
  LEND_TRYV(cm::initialize(*link.id, queue_pair_));
  auto const connect_step = step("connecting to");
  auto parameters = cm::parameters_of(queue_pair_, message);
  if (rdma_connect(link.id.get(), &parameters) != 0) {
    // On iWARP the TCP connection is made in this call.
    if (errno == ECONNREFUSED) return std::optional<cm::CmEvent>{};
    return Error::from_errno(connect_step + " by rdma_connect", errno);
  }
  LEND_TRY(answer, link.await(connect_step, deadline_));
  if (cm::says_nobody_listens(answer)) return std::optional<cm::CmEvent>{};
  return std::optional<cm::CmEvent>{std::move(answer)};
}

/// An attempt without an answer yet.
struct Unanswered {
  PreparedQueuePair queue_pair;
  cm::CmLink link;  // destroyed first: the queue pair's destruction waits for it
};

void* end(void* unanswered) noexcept {
  delete static_cast<Unanswered*>(unanswered);
  return nullptr;
}

/// Ends it.
///
/// On iWARP the kernel gives up only at a limit of its own (siw: 10 s), and destroying the id
/// blocks until then. So a detached thread does that; the caller has a deadline.
/// Source: Linux drivers/infiniband/core/iwcm.c, destroy_cm_id().
void abandon(Unanswered unanswered) noexcept {
  std::unique_ptr<Unanswered> kept{new (std::nothrow) Unanswered{std::move(unanswered)}};
  if (kept == nullptr) return;
  // The program's signal handlers must not run on this thread.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, end, kept.get()) == 0) {
    static_cast<void>(kept.release());  // the thread's
    ::pthread_detach(thread);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Without memory or a thread it is destroyed here.
}

Result<cm::Contract> Connecting::finish(cm::CmLink& link, cm::CmEvent const& answer) {
  auto const connect_step = step("connecting to");
  // On iWARP the answer establishes the connection.
  bool const established = answer.type == RDMA_CM_EVENT_ESTABLISHED;
  if (!established && answer.type != RDMA_CM_EVENT_CONNECT_RESPONSE)
    return cm::error_of(answer, connect_step);
  auto contract = cm::decode(cm::ContractKind::answer, answer.private_data);
  if (!contract.has_value()) {
    if (established)
      rdma_disconnect(link.id.get());
    else
      cm::refuse(*link.id, {.by_program = false, .reason = contract.error().message()});
    return contract;
  }
  LEND_TRYV(cm::make_ready(*link.id, queue_pair_));
  if (!established && rdma_establish(link.id.get()) != 0)
    return Error::from_errno(Errc::peer_lost, connect_step + " by rdma_establish", errno);
  return contract;
}

}  // namespace

Result<CmConnection> cm_connect(std::string_view address, PreparedQueuePair queue_pair,
                                Deadline deadline, CmOptions const& options) {
  LEND_TRY(handle, cm::usable(queue_pair));
  LEND_TRY(message,
           cm::encode(cm::ContractKind::request, cm::contract_of(*handle, options.private_data)));
  LEND_TRYV(cm::EventChannel::open());  // has the best error if there is no rdma_cm
  LEND_TRY(target, cm::CmAddress::parse(address, false));
  std::optional<cm::CmAddress> source;
  if (!options.source.empty()) {
    LEND_TRY(parsed, cm::CmAddress::parse(options.source, true));
    source = parsed;
  }

  Connecting connecting{address, target, source, *handle, deadline};
  auto const no_listener = [&connecting, deadline] {
    return base::gave_up(deadline, connecting.step("no peer listened by rdma_cm at"),
                         "; start a CmListener there");
  };
  for (bool found_no_listener = false;; found_no_listener = true) {
    LEND_TRY(link, cm::CmLink::make());
    auto asked = connecting.ask(link, message);
    if (!asked.has_value()) {
      if (handle->domain->context->is_iwarp()) abandon({std::move(queue_pair), std::move(link)});
      // A step of a later attempt that was cut short is not the reason.
      if (found_no_listener && base::is_given_up(asked.assume_error())) return no_listener();
      return std::move(asked).assume_error();
    }
    if (auto const& answer = asked.assume_value()) {
      LEND_TRY(contract, connecting.finish(link, *answer));
      return cm::completed(std::move(link), std::move(queue_pair), std::move(contract));
    }
    if (deadline.left() <= retry_pause) return no_listener();
    timespec const pause{0, std::chrono::nanoseconds{retry_pause}.count()};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace lend
