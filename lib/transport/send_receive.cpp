// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/transport/send_receive.hpp>
#include <transport/buffer_line.hpp>
#include <transport/pooled_line.hpp>
#include <transport/preparing.hpp>

#include <algorithm>
#include <utility>

namespace lend {

namespace {

using transport::Buffers;

class BufferPreparing final : public transport::Preparing {
 public:
  BufferPreparing(ProtectionDomain const& domain, transport::Terms const& ours,
                  transport::PreparedReceives receives, Buffers buffers)
      : Preparing{domain, ours, std::move(receives)}, buffers_{std::move(buffers)} {}

 private:
  Result<std::unique_ptr<transport::Line>> connect_line(transport::Way way,
                                                        transport::Terms const& theirs) override {
    // Messages are as long as the peer says, but take no more memory than this end receives into;
    // a few fit in any case.
    auto const budget =
        std::uint64_t{ours().window} * ours().message_bytes_max / theirs.message_bytes_max;
    auto const slots = std::clamp<std::uint64_t>(budget, transport::window_min,
                                                 std::min(ours().window, theirs.window));
    LEND_TRY(sends, Buffers::allocate(domain(), static_cast<std::uint32_t>(slots),
                                      theirs.message_bytes_max));
    LEND_TRY(words, Buffers::allocate(domain(), transport::word_receives, 0));
    LEND_TRY(channel, channel_by(std::move(way)));
    return std::make_unique<transport::BufferLine>(
        std::move(channel), std::move(receives().handles), std::move(buffers_), std::move(sends),
        std::move(words));
  }

  Buffers buffers_;  // on loan until the channel gives them back, also if this ends before it
};

class PooledPreparing final : public transport::Preparing {
 public:
  PooledPreparing(ProtectionDomain const& domain, transport::Terms const& ours,
                  transport::PreparedReceives receives)
      : Preparing{domain, ours, std::move(receives)} {}

 private:
  Result<std::unique_ptr<transport::Line>> connect_line(transport::Way way,
                                                        transport::Terms const& theirs) override {
    LEND_TRY(channel, channel_by(std::move(way)));
    return std::make_unique<transport::PooledLine>(
        std::move(channel), receives().share, std::min(transport::sends_in_pool, theirs.window));
  }
};

}  // namespace

SendReceive::SendReceive(std::unique_ptr<transport::End> end) noexcept
    : TransportBase{std::move(end)} {}

Result<PreparedSendReceive> SendReceive::prepare(ProtectionDomain const& domain,
                                                 TransportOptions const& options) try {
  LEND_TRY(terms, transport::terms_of(options, TransportKind::send_receive));
  if (options.pool != nullptr) {
    LEND_TRY(shared, transport::PreparedReceives::prepare_in_pool(domain, options, terms.window));
    return PreparedSendReceive{std::make_unique<PooledPreparing>(domain, terms, std::move(shared))};
  }
  LEND_TRY(buffers, Buffers::allocate(domain, terms.window + transport::word_receives,
                                      terms.message_bytes_max));
  LEND_TRY(receives,
           transport::PreparedReceives::prepare(domain, options, terms.window, buffers.count()));
  for (std::uint32_t slot = 0; slot < buffers.count(); ++slot) {
    LEND_TRYV(receives.post(buffers.whole(slot)));
  }
  return PreparedSendReceive{
      std::make_unique<BufferPreparing>(domain, terms, std::move(receives), std::move(buffers))};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

}  // namespace lend
