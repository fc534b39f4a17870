// SPDX-License-Identifier: MIT OR Apache-2.0
// Creates a queue pair and connects it. One thread at a time.
#include <lend/verbs/queue_pair.hpp>
#include <lend/verbs/receive_queue.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/port.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/queue/adoption.hpp>
#include <verbs/queue/connecting.hpp>
#include <verbs/queue/connection_settings.hpp>
#include <verbs/queue/endpoint_check.hpp>
#include <verbs/queue/making.hpp>
#include <verbs/queue/queue_pair_options.hpp>

#include <sys/random.h>

namespace lend {

using verbs::QueuePairAccess;
using verbs::QueuePairHandle;

namespace {

Result<PacketSequenceNumber> random_sequence_number() {
  std::uint32_t value = 0;
  // Up to 256 bytes are never cut short by a signal once the pool is ready. Source: getrandom(2).
  ssize_t got;
  do got = ::getrandom(&value, sizeof value, 0);
  while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof value)) return Error::from_errno("getrandom", errno);
  return PacketSequenceNumber::truncated(value);
}

Result<void> check_service(verbs::ContextHandle const& context, Service service,
                           std::uint32_t queue_key) {
  if (service != Service::reliable_connection && context.is_iwarp())
    return Error{Errc::unsupported, context.name +
                                        " is iWARP, which has reliable connections only (RFC "
                                        "5040); use another device, or a QueuePair"};
  // Source: InfiniBand Architecture Specification vol. 1, 10.2.5, privileged queue keys.
  constexpr std::uint32_t largest = INT32_MAX;
  if (queue_key > largest)
    return Error{Errc::invalid_argument, "queue_key is " + std::to_string(queue_key) +
                                             "; it must be 0 to " + std::to_string(largest)};
  return success();
}

Error no_room(char const* what, verbs::CompletionQueueHandle const& queue, std::uint64_t room) {
  return Error{Errc::invalid_argument, std::string{what} + " is " + std::to_string(room) +
                                           ", more than what is left of the completion queue's "
                                           "depth of " +
                                           std::to_string(queue.depth) + "; make it deeper"};
}

/// Room for the completions of one queue pair, and of the receives that it shares if no other queue
/// pair has reserved it there.
struct Shares {
  verbs::CompletionShare sends;
  verbs::CompletionShare receives;
  std::optional<verbs::CompletionShare> of_shared{};

  Shares(std::shared_ptr<verbs::CompletionQueueHandle> const& for_sends,
         std::shared_ptr<verbs::CompletionQueueHandle> const& for_receives,
         QueuePairOptions const& options, verbs::ReceiveQueueHandle const* shared_receives)
      // Each send, write, read and probe is signaled, and each receive completes.
      : sends{for_sends, std::uint64_t{options.send_depth} + options.probes},
        receives{for_receives, shared_receives == nullptr ? options.receive_depth : 0} {
    if (shared_receives != nullptr && !verbs::has_share(*shared_receives, *for_receives))
      of_shared.emplace(for_receives, shared_receives->depth);
  }
  [[nodiscard]] std::uint64_t of_receives() const noexcept {
    return receives.entries() + (of_shared ? of_shared->entries() : 0);
  }
  [[nodiscard]] Result<void> check() const {
    bool const is_one = &sends.queue() == &receives.queue();
    if (!sends.fits())
      return no_room(is_one ? "send_depth + receive_depth + probes" : "send_depth + probes",
                     sends.queue(), sends.entries() + (is_one ? of_receives() : 0));
    if (!receives.fits()) return no_room("receive_depth", receives.queue(), of_receives());
    return success();
  }
};

void end(QueuePairHandle* ending) noexcept {
  // Not again if it failed before: then the device may still have it.
  if (ending->raw) static_cast<void>(verbs::destroy(*ending));
  delete ending;
}

}  // namespace

Result<AnyPreparedQueuePair::Handle> AnyPreparedQueuePair::make(ProtectionDomain const& domain,
                                                                CompletionQueues completions,
                                                                QueuePairOptions const& options,
                                                                Kind kind) {
  return make(domain, completions, options, kind, nullptr);
}

Result<AnyPreparedQueuePair::Handle> AnyPreparedQueuePair::make(ProtectionDomain const& domain,
                                                                CompletionQueues completions,
                                                                QueuePairOptions const& options,
                                                                Kind kind,
                                                                ReceiveQueue const& receives) {
  if (receives.handle_ == nullptr)
    return Error{Errc::invalid_argument, "the ReceiveQueue was moved from"};
  if (receives.handle_->domain->context != domain.handle_->context)
    return Error{Errc::invalid_argument,
                 "the ReceiveQueue and the protection domain belong to different Contexts; make "
                 "both from one"};
  return make(domain, completions, options, kind, receives.handle_);
}

Result<AnyPreparedQueuePair::Handle> AnyPreparedQueuePair::make(
    ProtectionDomain const& domain, CompletionQueues completions, QueuePairOptions const& options,
    Kind kind, std::shared_ptr<verbs::ReceiveQueueHandle> const& shared_receives) {
  auto const& parent = domain.handle_;
  verbs::ContextHandle const& context = *parent->context;
  auto const& sends = completions.sends.handle_;
  auto const& receives = completions.receives.handle_;
  if (sends->context != parent->context || receives->context != parent->context)
    return Error{Errc::invalid_argument,
                 "the completion queue and the protection domain belong to different Contexts; "
                 "make both from one"};
  LEND_TRYV(check_service(context, kind.service, kind.queue_key));
  LEND_TRYV(verbs::check_counts(context, options, shared_receives == nullptr));

  Shares shares{sends, receives, options, shared_receives.get()};
  LEND_TRYV(shares.check());
  LEND_TRY(plan, verbs::plan_of(context, options, kind.service));
  LEND_TRY(sequence_number, random_sequence_number());
  ibv_qp_cap granted{};
  LEND_TRY(raw, make_queue_pair(*parent, {sends->raw.get(), receives->raw.get()},
                                shared_receives != nullptr ? shared_receives->raw.get() : nullptr,
                                options, kind.service, granted));

  auto const number = QueuePairNumber::from(raw.get()->qp_num);
  if (!number)
    return Error{Errc::unsupported, context.name + " numbered a queue pair " +
                                        std::to_string(raw.get()->qp_num) +
                                        ", which does not fit the 24 bits on the wire"};
  std::shared_ptr<QueuePairHandle> const handle{new QueuePairHandle{{parent},
                                                                    shared_receives,
                                                                    std::move(shares.sends),
                                                                    std::move(shares.receives),
                                                                    std::move(raw)},
                                                &end};
  handle->marks = verbs::EventMarks{parent->context->events, handle->raw.get()};
  handle->is_destroyed = std::make_shared<verbs::DestroyedFlag>(false);
  handle->message_bytes_max = plan.port.message_bytes_max;
  handle->elements = granted.max_send_sge;
  handle->receive_elements = granted.max_recv_sge;
  handle->inline_bytes = granted.max_inline_data;
  handle->times = plan.times;
  handle->terms = plan.terms;
  handle->gid_index = static_cast<std::uint8_t>(plan.gid.index);
  handle->local = {
      .device_kind = context.kind(),
      .link_layer = plan.port.link_layer,
      .queue_pair_number = *number,
      .packet_sequence_number = sequence_number,
      .lid = plan.port.lid,
      .gid = plan.gid.gid,
      .gid_type = plan.gid.type,
      .reads_served = plan.terms.reads.as_target,
      .mtu_bytes = plan.mtu_bytes,
      .traffic_class = plan.terms.traffic_class,
      .service_level = plan.terms.service_level,
      .send_depth = options.send_depth,
      .receive_depth = shared_receives == nullptr ? options.receive_depth : shared_receives->depth,
      .service = kind.service,
      .queue_key = kind.queue_key};
  // Before it is connected, so that receives can be posted first. Source: ibv_post_recv(3).
  LEND_TRYV(verbs::initialize(*handle));
  if (shares.of_shared) shared_receives->shares.push_back(std::move(*shares.of_shared));
  return handle;
}

AnyPreparedQueuePair::AnyPreparedQueuePair(Handle handle) noexcept : handle_{std::move(handle)} {}
AnyPreparedQueuePair::AnyPreparedQueuePair(AnyPreparedQueuePair&&) noexcept = default;
AnyPreparedQueuePair& AnyPreparedQueuePair::operator=(AnyPreparedQueuePair&&) noexcept = default;
AnyPreparedQueuePair::~AnyPreparedQueuePair() = default;

QueuePairHandle* QueuePairAccess::handle_of(AnyPreparedQueuePair& prepared) noexcept {
  return prepared.handle_.get();
}

std::weak_ptr<QueuePairHandle> QueuePairAccess::watch(
    AnyPreparedQueuePair const& prepared) noexcept {
  return prepared.handle_;
}

std::shared_ptr<verbs::DestroyedFlag const> QueuePairAccess::end_of(
    AnyPreparedQueuePair const& prepared) noexcept {
  return prepared.handle_->is_destroyed;
}

Result<PreparedQueuePair> QueuePairAccess::prepare(ProtectionDomain const& domain,
                                                   CompletionQueue const& completions,
                                                   QueuePairOptions const& options,
                                                   ServiceChoice choice,
                                                   ReceiveQueue const* receives) {
  AnyPreparedQueuePair::Kind const kind{choice.service, choice.queue_key};
  LEND_TRY(handle, receives == nullptr
                       ? AnyPreparedQueuePair::make(domain, completions, options, kind)
                       : AnyPreparedQueuePair::make(domain, completions, options, kind, *receives));
  return PreparedQueuePair{std::move(handle)};
}

Result<QueuePair> QueuePairAccess::activate(PreparedQueuePair prepared) {
  LEND_TRY(handle, prepared.activate_it());
  return QueuePair{std::move(handle)};
}

QueuePair QueuePairAccess::connected(PreparedQueuePair&& prepared,
                                     std::unique_ptr<verbs::ConnectionKeeper> keeper) noexcept {
  prepared.handle_->keeper = std::move(keeper);
  return QueuePair{std::move(prepared.handle_)};
}

Endpoint const& AnyPreparedQueuePair::endpoint() const noexcept {
  if (!handle_) stop("a PreparedQueuePair was used after it had been connected or moved from");
  return handle_->local;
}

ibv_qp* AnyPreparedQueuePair::native() const noexcept {
  return handle_ ? handle_->raw.get() : nullptr;
}

Result<AnyPreparedQueuePair::Handle> AnyPreparedQueuePair::connect_to(Endpoint const& peer) {
  LEND_TRY(handle, consume());
  if (verbs::ContextHandle const& context = *handle->domain->context; context.is_iwarp())
    return Error{Errc::unsupported,
                 context.name +
                     " is iWARP, whose queue pairs only rdma_cm can connect: use cm_connect() or "
                     "CmListener, or an InfiniBand or RoCE device"};
  LEND_TRYV(verbs::check_fit(handle->local, peer));
  // A port that went down would still take the queue pair to RTS, and nothing would arrive.
  LEND_TRYV(without_value(verbs::usable_port(*handle->domain->context)));
  handle->peer = peer;
  LEND_TRYV(verbs::bring_up(*handle));
  return std::move(handle);
}

Result<AnyPreparedQueuePair::Handle> AnyPreparedQueuePair::activate_it() {
  LEND_TRY(handle, consume());
  LEND_TRYV(without_value(verbs::usable_port(*handle->domain->context)));
  LEND_TRYV(verbs::activate(*handle));
  return std::move(handle);
}

Result<AnyPreparedQueuePair::Handle> AnyPreparedQueuePair::consume() {
  if (!handle_)
    return Error{Errc::invalid_argument,
                 "this queue pair was connected or moved from before; prepare another"};
  return std::move(handle_);  // gone on every error
}

}  // namespace lend
