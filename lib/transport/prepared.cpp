// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/base/stop.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/prepared.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>
#include <transport/preparing.hpp>
#include <transport/read_line.hpp>
#include <verbs/queue/adoption.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace lend {

using flow::CreditSizes;

namespace {

/// The longest request to a peer with these terms.
std::uint32_t longest_request(transport::Terms const& ours, transport::Terms const& theirs) {
  if (ours.kind == TransportKind::read_ring)
    return std::min(ours.ring_bytes, transport::read_bytes_max);
  return theirs.message_bytes_max +
         (ours.kind == TransportKind::send_receive ? transport::word_bytes : 0);
}

/// Of `own` READs at a time from this end, and of `peers` from the peer.
Result<void> check_reads(TransportKind kind, unsigned own, unsigned peers) {
  if (kind != TransportKind::read_ring || (own > 0 && peers > 0)) return success();
  return Error{Errc::incompatible_peer,
               "a ReadRing needs READs of both ends, and the connection takes " +
                   std::to_string(own) + " of this end at a time and " + std::to_string(peers) +
                   " of the peer: take another kind, or allow READs at the end that has 0"};
}

}  // namespace

Result<std::unique_ptr<transport::End>> transport::Preparing::connect(
    Way way, std::span<std::byte const> theirs) {
  LEND_TRY(terms, accept_terms(theirs, ours_));
  fit_to_each_other(ours_, terms);
  auto const* const connected = std::get_if<QueuePair>(&way);
  auto const longest = longest_request(ours_, terms);
  if (connected != nullptr && connected->native() != nullptr &&
      connected->message_bytes_max() < longest)
    return Error{Errc::incompatible_peer, "the connection takes messages of " +
                                              std::to_string(connected->message_bytes_max()) +
                                              " bytes, and by the peer's terms some have " +
                                              std::to_string(longest)};
  LEND_TRYV(check_reads_of(way));
  auto const first = connected != nullptr && connected->native() != nullptr
                         ? verbs::QueuePairAccess::handle_of(*connected).first_sender
                         : verbs::FirstSender::either;
  LEND_TRY(line, connect_line(std::move(way), terms));
  TransportLimits limits{
      .kind = ours_.kind,
      .send_bytes_max = terms.message_bytes_max,
      .receive_bytes_max = ours_.message_bytes_max,
      .send_lent_bytes_max = terms.lent_bytes_max,
      .receive_lent_bytes_max = ours_.lent_bytes_max,
      .window = ours_.window,
      .hold_max = ours_.window - ours_.window / 4,
      .wait = receives_.wait,
  };
  if (ours_.start != 0) limits.hold_max = ours_.start;
  limits.hold_bytes_max = ours_.ring_bytes > 0
                              ? ours_.ring_bytes / 4
                              : std::uint64_t{limits.hold_max} * ours_.message_bytes_max;
  auto const sizes_of = [&](Terms const& receivers) {
    auto sizes = CreditSizes::of(receivers.window, receivers.ring_bytes / flow::cell_bytes);
    if (receivers.start != 0) sizes.start = receivers.start;
    sizes.has_one_word = ours_.start != 0 || terms.start != 0;
    return sizes;
  };
  return std::make_unique<End>(std::move(line), limits,
                               End::Sizes{.out = sizes_of(terms),
                                          .in = sizes_of(ours_),
                                          .header_bytes = header_bytes_of(ours_.kind)},
                               first);
}

Result<void> transport::Preparing::check_reads_of(Way const& way) const {
  if (auto const* const peer = std::get_if<Endpoint>(&way))
    return check_reads(ours_.kind, peer->reads_served, endpoint().reads_served);
  auto const& connected = std::get<QueuePair>(way);
  if (connected.native() == nullptr) return success();  // which channel_by() refuses
  auto const& reads = verbs::QueuePairAccess::handle_of(connected).terms.reads;
  return check_reads(ours_.kind, reads.as_initiator, reads.as_target);
}

Result<Channel> transport::Preparing::channel_by(Way way) {
  PreparedChannel& channel = receives_.channel;
  if (auto* const connected = std::get_if<QueuePair>(&way))
    return std::move(channel).adopt(std::move(*connected));
  return std::move(channel).handshake(std::get<Endpoint>(way));
}

template <class Kind>
PreparedTransport<Kind>::PreparedTransport(std::unique_ptr<transport::Preparing> preparing) noexcept
    : preparing_{std::move(preparing)} {}
template <class Kind>
PreparedTransport<Kind>::PreparedTransport(PreparedTransport&&) noexcept = default;
template <class Kind>
PreparedTransport<Kind>& PreparedTransport<Kind>::operator=(PreparedTransport&&) noexcept = default;
template <class Kind>
PreparedTransport<Kind>::~PreparedTransport() = default;

template <class Kind>
transport::Preparing& PreparedTransport<Kind>::preparing() const noexcept {
  if (preparing_ == nullptr) [[unlikely]]
    stop("a prepared transport was used after it had been moved from");
  return *preparing_;
}
template <class Kind>
Endpoint const& PreparedTransport<Kind>::endpoint() const noexcept {
  return preparing().endpoint();
}
template <class Kind>
TransportTerms const& PreparedTransport<Kind>::terms() const noexcept {
  return preparing().terms();
}

template <class Kind>
PreparedQueuePair PreparedTransport<Kind>::take_queue_pair() noexcept {
  return preparing().take_queue_pair();
}
template <class Kind>
Result<void> PreparedTransport<Kind>::check(std::span<std::byte const> theirs) const {
  return preparing().check(theirs);
}

template <class Kind>
Result<Kind> PreparedTransport<Kind>::handshake(Endpoint const& peer,
                                                std::span<std::byte const> theirs) && {
  return std::move(*this).connect(peer, theirs);
}
template <class Kind>
Result<Kind> PreparedTransport<Kind>::adopt(QueuePair connected,
                                            std::span<std::byte const> theirs) && {
  return std::move(*this).connect(std::move(connected), theirs);
}

template <class Kind>
    template <class Way>
    Result<Kind> PreparedTransport<Kind>::connect(Way way, std::span<std::byte const> theirs) &&
    try {
  auto const preparing = std::move(preparing_);
  if (preparing == nullptr)
    return Error{Errc::stale_handle, "this prepared transport was used before; prepare another"};
  LEND_TRY(end, preparing->connect(std::move(way), theirs));
  return Kind{std::move(end)};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

template class PreparedTransport<SendReceive>;
template class PreparedTransport<CreditRing>;
template class PreparedTransport<ReadRing>;

}  // namespace lend
