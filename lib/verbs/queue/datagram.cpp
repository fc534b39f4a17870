// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams: their rooms, their destinations. One thread at a time per queue pair.
#include <lend/verbs/any_queue_pair.hpp>
#include <lend/verbs/datagram.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/memory/region_state.hpp>
#include <verbs/post/destination.hpp>
#include <verbs/queue/connecting.hpp>
#include <verbs/queue/endpoint_check.hpp>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace lend {

using verbs::DestinationHandle;
using verbs::QueuePairHandle;

namespace {

Error no_destination(QueuePairHandle const& queue_pair, std::string const& call, int errno_value) {
  // EPROTONOSUPPORT: bytes that are no header of either IP.
  bool const is_argument = errno_value == EINVAL || errno_value == EPROTONOSUPPORT;
  bool const is_shortage = errno_value == ENOMEM || errno_value == EMFILE;
  auto const code = is_argument ? Errc::invalid_argument : Errc::system_failed;
  return verbs::verb_error(is_shortage ? Errc::exhausted : code, queue_pair.domain->provider(),
                           call, errno_value);
}

}  // namespace

Result<DatagramRoom> DatagramRoom::in(ScatterElement element) noexcept {
  if (element.range.length <= datagram_header_bytes)
    return Error{Errc::invalid_argument, "a room of " + std::to_string(element.range.length) +
                                             " bytes holds no datagram: 40 bytes come before each "
                                             "message; give it 41 or "
                                             "more"};
  if (element.region != nullptr && element.region->is_device_memory)
    return Error{Errc::invalid_argument,
                 "a room of device memory, where lend cannot read the sender's header; use memory "
                 "of the host"};
  return DatagramRoom{element};
}

QueuePairNumber Destination::number() const noexcept {
  return QueuePairNumber::truncated(handle_->queue_pair_number);
}

ibv_ah* Destination::native() const noexcept {
  return handle_->raw.get();
}

Result<Destination> AnyQueuePair::destination_at(Endpoint const& peer) const {
  return verbs::DestinationAccess::at(handle(), peer);
}

Result<Destination> verbs::DestinationAccess::at(QueuePairHandle const& own, Endpoint const& peer) {
  LEND_TRYV(verbs::check_fit(own.local, peer));
  ibv_ah_attr address = verbs::address_of(own, peer);
  verbs::Provider const& provider = own.domain->provider();
  errno = 0;
  verbs::RawHandle<ibv_ah, &verbs::Provider::destroy_ah> raw{
      provider, provider.create_ah(own.domain->raw.get(), &address)};
  if (int const error = errno; !raw) return no_destination(own, "ibv_create_ah", error);
  return Destination{std::make_shared<DestinationHandle const>(DestinationHandle{
      own.domain, std::move(raw), peer.queue_pair_number.value(), peer.queue_key})};
}

Result<Destination> AnyQueuePair::destination_back(DatagramSender const& sender,
                                                   std::span<std::byte const> header,
                                                   std::uint32_t queue_key) const {
  return verbs::DestinationAccess::back_to(handle(), sender, header, queue_key);
}

Result<Destination> verbs::DestinationAccess::back_to(QueuePairHandle const& own,
                                                      DatagramSender const& sender,
                                                      std::span<std::byte const> header,
                                                      std::uint32_t queue_key) {
  if (header.size() < datagram_header_bytes)
    return Error{Errc::invalid_argument, "a header of " + std::to_string(header.size()) +
                                             " bytes; it is the first 40 of the datagram's room"};
  ibv_wc completion{};
  completion.src_qp = sender.number.value();
  completion.slid = sender.lid;
  completion.sl = sender.service_level;
  completion.dlid_path_bits = sender.path_bits;
  completion.wc_flags = sender.has_header ? unsigned{IBV_WC_GRH} : 0U;
  ibv_grh route;
  std::memcpy(&route, header.data(), sizeof route);
  static_assert(sizeof route == datagram_header_bytes);
  verbs::Provider const& provider = own.domain->provider();
  errno = 0;
  verbs::RawHandle<ibv_ah, &verbs::Provider::destroy_ah> raw{
      provider, provider.create_ah_from_wc(own.domain->raw.get(), &completion, &route,
                                           own.domain->context->port.number)};
  if (int const error = errno; !raw) return no_destination(own, "ibv_create_ah_from_wc", error);
  return Destination{std::make_shared<DestinationHandle const>(
      DestinationHandle{own.domain, std::move(raw), sender.number.value(), queue_key})};
}

}  // namespace lend
