// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/base/stop.hpp>
#include <lend/transport/send_receive.hpp>
#include <transport/channel_line.hpp>
#include <transport/end.hpp>
#include <transport/terms.hpp>

#include <algorithm>
#include <utility>

namespace lend {

using channel::CreditSizes;
using transport::Buffers;

SendReceive::SendReceive(std::unique_ptr<transport::End> end) noexcept
    : TransportBase{std::move(end)} {}

struct PreparedSendReceive::State {
  ProtectionDomain domain;
  transport::PreparedLine line;
  transport::Terms terms;
  Wait wait;
  TransportTerms encoded = encode(terms);
};

PreparedSendReceive::PreparedSendReceive(std::unique_ptr<State> state) noexcept
    : state_{std::move(state)} {}
PreparedSendReceive::PreparedSendReceive(PreparedSendReceive&&) noexcept = default;
PreparedSendReceive& PreparedSendReceive::operator=(PreparedSendReceive&&) noexcept = default;
PreparedSendReceive::~PreparedSendReceive() = default;

Result<PreparedSendReceive> SendReceive::prepare(ProtectionDomain const& domain,
                                                 TransportOptions const& options) try {
  LEND_TRY(terms, transport::terms_of(options, TransportKind::send_receive));
  ChannelOptions of_channel;
  of_channel.wait = options.wait;
  of_channel.keep_alive = options.keep_alive;
  LEND_TRY(line, transport::PreparedLine::prepare(domain, of_channel, terms.window,
                                                  terms.message_bytes_max));
  return PreparedSendReceive{std::make_unique<PreparedSendReceive::State>(
      PreparedSendReceive::State{domain, std::move(line), terms, options.wait})};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

Endpoint const& PreparedSendReceive::endpoint() const noexcept {
  if (state_ == nullptr) stop("a PreparedSendReceive was used after it had been moved from");
  return state_->line.channel.endpoint();
}

TransportTerms const& PreparedSendReceive::terms() const noexcept {
  if (state_ == nullptr) stop("a PreparedSendReceive was used after it had been moved from");
  return state_->encoded;
}

Result<SendReceive> PreparedSendReceive::handshake(Endpoint const& peer,
                                                   std::span<std::byte const> theirs) &&
    try {
  if (state_ == nullptr)
    return Error{Errc::stale_handle, "this PreparedSendReceive was used before; prepare another"};
  auto const state = std::move(state_);
  auto const& ours = state->terms;
  LEND_TRY(terms, transport::accept_terms(theirs, ours));
  // Messages are as long as the peer says, but take no more memory than this end receives into;
  // a few fit in any case.
  auto const budget = std::uint64_t{ours.window} * ours.message_bytes_max / terms.message_bytes_max;
  auto const slots =
      std::clamp<std::uint64_t>(budget, transport::window_min, std::min(ours.window, terms.window));
  LEND_TRY(sends, Buffers::allocate(state->domain, static_cast<std::uint32_t>(slots),
                                    terms.message_bytes_max));
  LEND_TRY(words, Buffers::allocate(state->domain, transport::word_receives, 0));
  LEND_TRY(channel, std::move(state->line.channel).handshake(peer));
  auto line = std::make_unique<transport::ChannelLine>(std::move(state->line), std::move(channel),
                                                       std::move(sends), std::move(words));
  TransportLimits const limits{
      .kind = ours.kind,
      .send_bytes_max = terms.message_bytes_max,
      .receive_bytes_max = ours.message_bytes_max,
      .window = ours.window,
      .hold_max = ours.window - ours.window / 4,
      .wait = state->wait,
  };
  transport::End::Sizes const sizes{.out = CreditSizes::of(terms.window),
                                    .in = CreditSizes::of(ours.window)};
  return SendReceive{std::make_unique<transport::End>(std::move(line), limits, sizes)};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

}  // namespace lend
