// SPDX-License-Identifier: MIT OR Apache-2.0
// Takes and interprets events. One thread at a time per channel.
#include <base/giving_up.hpp>
#include <base/standard_reserved.hpp>
#include <cm/address.hpp>
#include <cm/contract.hpp>
#include <cm/event_channel.hpp>
#include <verbs/device/verb_error.hpp>

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <string>
#include <utility>

namespace lend::cm {

namespace {

// Rejection codes of InfiniBand. Source: InfiniBand Architecture Specification vol. 1, §12.6.7.2.
constexpr int invalid_service_id = 8;
constexpr int by_consumer = 28;

Error cannot_open(int error) {
  switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case ENOSYS:
      return Error::from_errno(
          Errc::unsupported, "rdma_create_event_channel", error,
          "This kernel or container has no rdma_cm: load the module rdma_ucm and let "
          "/dev/infiniband/rdma_cm be seen here, or connect over TCP with lend::connect().");
    case EACCES:
    case EPERM:
      return Error::from_errno(Errc::denied, "rdma_create_event_channel", error,
                               "Read and write access to /dev/infiniband/rdma_cm is needed.");
    default: return Error::from_errno("rdma_create_event_channel", error);
  }
}

CmEvent copy_of(rdma_cm_event const& raw) {
  CmEvent event;
  event.type = raw.event;
  event.status = raw.status;
  if (raw.event == RDMA_CM_EVENT_CONNECT_REQUEST) event.request.reset(raw.id);
  auto const& connection = raw.param.conn;
  event.responder_resources = connection.responder_resources;
  event.initiator_depth = connection.initiator_depth;
  auto const* const bytes = static_cast<std::byte const*>(connection.private_data);
  if (bytes != nullptr) event.private_data.assign(bytes, bytes + connection.private_data_len);
  return event;
}

Error rejection(CmEvent const& event, std::string_view step) {
  std::string const text{step};
  if (auto const refusal = decode_refusal(event.private_data))
    return Error{refusal->by_program ? Errc::denied : Errc::incompatible_peer,
                 text + ": the peer rejected it: " + refusal->reason};
  if (event.status == by_consumer || event.status == -ECONNREFUSED || event.status == -ECONNRESET)
    return Error{Errc::denied, text +
                                   ": the peer rejected it and gave no reason; it may be no "
                                   "lend program, or its listener went away"};
  return Error{Errc::system_failed,
               text + ": rejected with code " + std::to_string(event.status) +
                   " of the connection manager; its meaning is in the device's specification"};
}

}  // namespace

Result<EventChannel> EventChannel::open() {
  if (int const error = verbs::notice_forks(); error != 0)
    return Error::from_errno("pthread_atfork", error);
  LEND_TRYV(require_librdmacm());
  base::StandardReserved const reserved;
  errno = 0;
  EventChannel channel{rdma_create_event_channel()};
  if (!channel.raw_) return cannot_open(errno);
  int const fd = channel.raw_->fd;
  int const flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return Error::from_errno("fcntl of an rdma_cm event channel", errno);
  return channel;
}

Result<std::optional<CmEvent>> EventChannel::take() {
  if (origin_.is_inherited()) return CmLink::inherited("rdma_get_cm_event");
  base::StandardReserved const reserved;
  for (;;) {
    rdma_cm_event* raw = nullptr;
    if (rdma_get_cm_event(raw_.get(), &raw) == 0) {
      // Acknowledged also if copying runs out of memory.
      std::unique_ptr<rdma_cm_event, int (*)(rdma_cm_event*)> const got{raw, &rdma_ack_cm_event};
      return std::optional<CmEvent>{copy_of(*raw)};
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return Error::from_errno(Errc::system_failed, "rdma_get_cm_event", errno);
    return std::optional<CmEvent>{};
  }
}

Result<std::optional<CmEvent>> EventChannel::next(Deadline deadline) {
  for (;;) {
    LEND_TRY(event, take());
    if (event || deadline.has_passed()) return std::move(event);
    pollfd waiting{raw_->fd, POLLIN, 0};
    if (::poll(&waiting, 1, base::poll_milliseconds(deadline)) < 0 && errno != EINTR)
      return Error::from_errno(Errc::system_failed, "poll of an rdma_cm event channel", errno);
  }
}

Error CmLink::inherited(std::string_view call) noexcept {
  return verbs::verb_error(Errc::system_failed, verbs::inherited_provider(), call, ENODEV);
}

Result<CmLink> CmLink::make() {
  LEND_TRY(events, EventChannel::open());
  CmLink link{std::move(events), {}};
  LEND_TRYV(link.renew());
  return link;
}

Result<void> CmLink::renew() {
  id.reset();
  rdma_cm_id* raw = nullptr;
  base::StandardReserved const reserved;
  if (rdma_create_id(events.native(), &raw, nullptr, RDMA_PS_TCP) != 0)
    return Error::from_errno("rdma_create_id", errno);
  id = CmId{raw};
  return success();
}

Result<CmLink> CmLink::of(CmId id) {
  LEND_TRY(events, EventChannel::open());
  base::StandardReserved const reserved;
  if (rdma_migrate_id(id.get(), events.native()) != 0)
    return Error::from_errno("rdma_migrate_id", errno);
  return CmLink{std::move(events), std::move(id)};
}

Error error_of(CmEvent const& event, std::string_view step) {
  std::string const text{step};
  int const error = event.status < 0 ? -event.status : event.status;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return Error::from_errno(Errc::not_found, text, error,
                               "No RDMA device has a route there, or the host does not answer.");
    case RDMA_CM_EVENT_UNREACHABLE:
      return Error::from_errno(Errc::peer_lost, text, error, "The peer does not answer.");
    case RDMA_CM_EVENT_REJECTED: return rejection(event, step);
    case RDMA_CM_EVENT_DISCONNECTED:
      return Error{Errc::peer_lost, text + ": the peer disconnected"};
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return Error{Errc::peer_lost, text + ": the device was removed"};
    default:
      return Error::from_errno(Errc::system_failed, text + ": " + rdma_event_str(event.type),
                               error);
  }
}

bool says_nobody_listens(CmEvent const& event) noexcept {
  return event.type == RDMA_CM_EVENT_REJECTED &&
         (event.status == invalid_service_id || event.status == -ECONNREFUSED) &&
         !decode_refusal(event.private_data);
}

}  // namespace lend::cm
