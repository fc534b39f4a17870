// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/transport/credit_ring.hpp>
#include <transport/preparing.hpp>
#include <transport/ring_line.hpp>

#include <algorithm>
#include <utility>

namespace lend {

namespace {

class RingPreparing final : public transport::Preparing {
 public:
  RingPreparing(ProtectionDomain const& domain, transport::Terms const& ours,
                transport::PreparedReceives receives, MemoryRegion ring)
      : Preparing{domain, ours, std::move(receives)}, ring_{std::move(ring)} {}

 private:
  Result<std::unique_ptr<transport::Line>> connect_line(transport::Way way,
                                                        transport::Terms const& theirs) override {
    // As much as this end receives into, but a few of the peer's longest messages in any case.
    auto const few = 4 * flow::cells_of(theirs.message_bytes_max) * flow::cell_bytes;
    auto const staging_bytes = std::min(theirs.ring_bytes, std::max(ours().ring_bytes, few));
    LEND_TRY(staging, domain().allocate(staging_bytes));
    LEND_TRY(channel, channel_by(std::move(way)));
    return std::make_unique<transport::RingLine>(
        std::move(channel), std::move(receives().handles),
        transport::RingLine::Rings{
            .own = std::move(ring_),
            .staging = std::move(staging),
            .peers = {theirs.address, theirs.ring_bytes, theirs.key, RemoteAccess::write}},
        ours().window, std::min(ours().window, theirs.window));
  }

  MemoryRegion ring_;
};

}  // namespace

CreditRing::CreditRing(std::unique_ptr<transport::End> end) noexcept
    : TransportBase{std::move(end)} {}

Result<PreparedCreditRing> CreditRing::prepare(ProtectionDomain const& domain,
                                               TransportOptions const& options) try {
  LEND_TRY(terms, transport::terms_of(options, TransportKind::credit_ring));
  if (!domain.context().capabilities().immediates)
    return Error{Errc::unsupported,
                 "a CreditRing needs immediates, which iWARP has not: take SendReceive or "
                 "ReadRing, or TransportKind::automatic"};
  // SAFETY: the program sees only messages whose words the credits allowed, and whose cells the
  // peer is not told to be free; Received says what a peer can do that breaks the rules.
  LEND_TRY(ring, domain.unsafe_allocate_exposed(terms.ring_bytes, RemoteAccess::write));
  LEND_TRY(remote, ring.remote());
  terms.address = remote.address();
  terms.key = remote.key();
  auto const count = terms.window + transport::word_receives + transport::spare_receives;
  LEND_TRY(receives, transport::PreparedReceives::prepare(domain, options, terms.window, count));
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    LEND_TRYV(receives.post(Receive::only_immediate()));
  }
  return PreparedCreditRing{
      std::make_unique<RingPreparing>(domain, terms, std::move(receives), std::move(ring))};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

}  // namespace lend
