// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel as an Offer. One thread at a time.
#pragma once

#include <network/exchange/offer.hpp>

#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace lend::network {

/// Errors:  stale_handle  it was used before.
[[nodiscard]] inline Result<void> check_prepared(PreparedChannel const& prepared) {
  if (!prepared.is_used_up()) return success();
  return Error{Errc::stale_handle, "the prepared channel was used before; build another"};
}

class ChannelOffer final : public Offer {
 public:
  /// Errors:  those of check_prepared().
  [[nodiscard]] static Result<std::unique_ptr<Offer>> of(PreparedChannel prepared) {
    LEND_TRYV(check_prepared(prepared));
    return std::make_unique<ChannelOffer>(std::move(prepared));
  }
  explicit ChannelOffer(PreparedChannel prepared) noexcept : prepared_{std::move(prepared)} {}

  [[nodiscard]] Greeting greeting() const override { return {prepared_.endpoint()}; }
  [[nodiscard]] Result<void> connect(Greeting const& theirs) override {
    LEND_TRY(channel, std::move(prepared_).handshake(theirs.endpoint));
    channel_.emplace(std::move(channel));
    return success();
  }
  /// Shape: connect() succeeded; once.
  [[nodiscard]] Channel take() noexcept { return *std::move(channel_); }

 private:
  PreparedChannel prepared_;
  std::optional<Channel> channel_{};
};

}  // namespace lend::network
