// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time per queue pair.
#include <lend/verbs/queue_pair.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/post/plain_work.hpp>
#include <verbs/post/posting.hpp>
#include <verbs/queue/adoption.hpp>
#include <verbs/queue/queue_pair_states.hpp>

namespace lend {

using verbs::QueuePairHandle;

namespace {

template <class Work>
[[gnu::cold, gnu::noinline]] Result<void> post_any(QueuePairHandle const& queue_pair,
                                                   std::uint64_t id, Work const& work) noexcept {
  auto const answer = verbs::try_post(queue_pair, id, work, {});
  if (!answer.is_posted()) return verbs::refusal_error(queue_pair, work, answer, {});
  return success();
}

// Out of line, so that a post which succeeds keeps fewer registers; and of plain work, of which the
// error has no more than the operation.
[[gnu::cold, gnu::noinline]] Result<void> refuse_plain(QueuePairHandle const& queue_pair,
                                                       Operation operation, int result,
                                                       void const* refused) noexcept {
  int const error = verbs::errno_of(result);
  return refused != nullptr ? verbs::device_refused(queue_pair, operation, error)
                            : verbs::device_unclear(queue_pair, operation, error);
}

template <class Work>
[[gnu::always_inline]] inline Result<void> post_one(QueuePairHandle const& queue_pair,
                                                    std::uint64_t id, Work const& work) noexcept {
  if (!verbs::may_be_plain(work) || !verbs::is_plain(queue_pair, verbs::plain_of(work)))
      [[unlikely]]
    return post_any(queue_pair, id, work);
  ibv_sge entry;
  verbs::RequestOf<Work> request;
  verbs::describe_plain(queue_pair, id, verbs::plain_of(work), request, entry);
  verbs::RequestOf<Work>* refused = nullptr;
  if (int const result = verbs::post_chain(queue_pair, request, refused); result != 0) [[unlikely]]
    return refuse_plain(queue_pair, verbs::operation_of<Work>, result, refused);
  return success();
}

}  // namespace

Result<void> AnyQueuePair::post(std::uint64_t id, Send const& work) noexcept {
  return post_one(handle(), id, work);
}
Result<void> AnyQueuePair::post(std::uint64_t id, Write const& work) noexcept {
  return post_one(handle(), id, work);
}
Result<void> AnyQueuePair::post(std::uint64_t id, Read const& work) noexcept {
  return post_one(handle(), id, work);
}
Result<void> AnyQueuePair::post(std::uint64_t id, Atomic const& work) noexcept {
  return post_one(handle(), id, work);
}
Result<void> AnyQueuePair::post(std::uint64_t id, Receive const& work) noexcept {
  // SoftiWARP's library divides by the depth 0. Source: rdma-core providers/siw/siw.c,
  // siw_post_recv(); and a run in test/guest.
  if (handle().shared_receives != nullptr) [[unlikely]]
    return Error{Errc::invalid_argument,
                 "receive refused: this queue pair shares the receives of a ReceiveQueue, post to "
                 "that; nothing was posted"};
  return post_one(handle(), id, work);
}
Result<void> AnyQueuePair::post_to(std::uint64_t id, Send const& work,
                                   Destination const& to) noexcept {
  return post_one(handle(), id, AddressedSend{work, to});
}

AnyQueuePair::AnyQueuePair(Handle handle) noexcept : handle_{std::move(handle)} {}
AnyQueuePair::AnyQueuePair(AnyQueuePair&&) noexcept = default;
AnyQueuePair& AnyQueuePair::operator=(AnyQueuePair&&) noexcept = default;
AnyQueuePair::~AnyQueuePair() = default;

QueuePairHandle& AnyQueuePair::handle() const noexcept {
  if (!handle_) [[unlikely]]
    stop("a QueuePair was used after it had been moved from");
  return *handle_;
}

QueuePairState verbs::state_of(QueuePairHandle const& queue_pair, ibv_qp_state reported) noexcept {
  // SoftiWARP of kernel 6.1 leaves the field out, and what some other query or change had there is
  // answered; that of 6.12 fills it in. What rdma_cm connected has left the first states for good.
  // Source: seen in test/guest.
  auto const lowest = queue_pair.domain->context->is_iwarp() ? IBV_QPS_RTR : IBV_QPS_RESET;
  bool const is_known = reported >= lowest && reported <= IBV_QPS_ERR;
  return is_known ? static_cast<QueuePairState>(reported) : QueuePairState::unknown;
}

Result<void> verbs::abort_all(QueuePairHandle const& queue_pair) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = verbs::any_to_error.target;
  verbs::Provider const& provider = queue_pair.domain->provider();
  int const result =
      provider.modify_qp(queue_pair.raw.get(), &attributes, verbs::any_to_error.attributes);
  if (result == 0) return success();
  int const error = verbs::errno_of(result);
  ibv_qp_attr now{};
  ibv_qp_init_attr unused{};
  if (provider.query_qp(queue_pair.raw.get(), &now, IBV_QP_STATE, &unused) == 0 &&
      verbs::state_of(queue_pair, now.qp_state) == QueuePairState::reset)
    return success();  // from there is no way to ERR, and nothing to abort
  return verbs::verb_error(Errc::system_failed, provider,
                           "ibv_modify_qp from " + std::string{verbs::any_to_error.name}, error);
}

Result<void> verbs::destroy(QueuePairHandle& queue_pair) noexcept {
  queue_pair.keeper.reset();  // first: see there
  queue_pair.marks.end();
  int const result = queue_pair.raw.try_destroy();
  // In a forked child the queue pair is the parent's, and so are the posted bytes.
  bool const is_inherited = queue_pair.raw.is_inherited();
  if (result == 0 && !is_inherited) {
    // Pairs with the acquire in Connection.
    if (queue_pair.is_destroyed) queue_pair.is_destroyed->store(true, std::memory_order_release);
    return success();
  }
  int const error = is_inherited ? ENODEV : verbs::errno_of(result);
  return verbs::verb_error(
      Errc::system_failed, queue_pair.domain->provider(), "ibv_destroy_qp", error,
      "The device may still access the posted bytes: they stay on loan for good.");
}

Result<void> AnyQueuePair::abort_all() noexcept {
  return verbs::abort_all(handle());
}

Result<void> AnyQueuePair::destroy() && noexcept {
  auto answer = verbs::destroy(handle());
  handle_.reset();
  return answer;
}

QueuePairState AnyQueuePair::state() const noexcept {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  verbs::Provider const& provider = handle().domain->provider();
  if (provider.query_qp(handle().raw.get(), &attributes, IBV_QP_STATE, &unused) != 0)
    return QueuePairState::unknown;
  return verbs::state_of(handle(), attributes.qp_state);
}

AnyQueuePair::Probe AnyQueuePair::post_probe(std::uint64_t id) noexcept {
  ibv_send_wr request;
  ibv_sge none;
  request.wr.rdma.remote_addr = 0;
  request.wr.rdma.rkey = 0;
  verbs::fill(handle(), request, id, &none, {}, IBV_WR_RDMA_WRITE, false);
  ibv_send_wr* refused = nullptr;
  if (verbs::post_chain(handle(), request, refused) == 0) return Probe::posted;
  return refused != nullptr ? Probe::refused : Probe::unclear;
}

bool AnyQueuePair::is_answered() const noexcept {
  return !handle().domain->context->is_iwarp();
}

bool AnyQueuePair::port_is_down() const noexcept {
  verbs::ContextHandle const& context = *handle().domain->context;
  ibv_port_attr attributes{};
  return context.provider().query_port(context.raw.get(), context.port.number, &attributes) == 0 &&
         attributes.state != IBV_PORT_ACTIVE;
}

std::optional<Error> AnyQueuePair::lost_before(Deadline deadline) noexcept {
  if (!handle().keeper) return std::nullopt;
  return handle().keeper->lost(deadline);
}

bool AnyQueuePair::has_keeper() const noexcept {
  return handle().keeper != nullptr;
}

Service AnyQueuePair::service() const noexcept {
  return handle().local.service;
}
QueuePairNumber AnyQueuePair::number() const noexcept {
  return handle().local.queue_pair_number;
}
Endpoint const& AnyQueuePair::endpoint() const noexcept {
  return handle().local;
}
Endpoint const& AnyQueuePair::connected_peer() const noexcept {
  return handle().peer;
}
std::uint32_t AnyQueuePair::inline_bytes() const noexcept {
  return handle().inline_bytes;
}
std::uint32_t AnyQueuePair::elements() const noexcept {
  return handle().elements;
}
std::uint32_t AnyQueuePair::receive_elements() const noexcept {
  return handle().receive_elements;
}
std::uint64_t AnyQueuePair::message_bytes_max() const noexcept {
  // The limit of a post holds for rooms, too, which are longer than their datagrams.
  if (service() == Service::datagram) return handle().local.mtu_bytes;
  return handle().message_bytes_max;
}
QueuePairHandle const& verbs::QueuePairAccess::handle_of(AnyQueuePair const& queue_pair) noexcept {
  return queue_pair.handle();
}
ibv_qp* AnyQueuePair::native() const noexcept {
  return handle_ ? handle_->raw.get() : nullptr;
}

}  // namespace lend
