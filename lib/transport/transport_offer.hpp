// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport of any kind as an Offer. One thread at a time.
#pragma once

#include <network/exchange/offer.hpp>
#include <transport/by_kind.hpp>

#include <lend/base/result.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/prepared.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace lend::transport {

class TransportOffer : public network::Offer {
 public:
  /// Errors:  those of prepare() of the kind.
  [[nodiscard]] static Result<std::unique_ptr<network::Offer>> prepare(
      ProtectionDomain const& domain, TransportOptions const& options);
  /// Shape: connect() succeeded; once.
  [[nodiscard]] AnyTransport take() noexcept { return *std::move(made_); }

 protected:
  std::optional<AnyTransport> made_{};
};

template <class Kind>
class OfferOf final : public TransportOffer {
 public:
  explicit OfferOf(PreparedTransport<Kind> prepared) noexcept : prepared_{std::move(prepared)} {}

  [[nodiscard]] network::Greeting greeting() const override {
    auto const& terms = prepared_.terms();
    return {prepared_.endpoint(), {reinterpret_cast<char const*>(terms.data()), terms.size()}};
  }
  [[nodiscard]] Result<void> connect(network::Greeting const& theirs) override {
    LEND_TRY(made, std::move(prepared_).handshake(theirs.endpoint,
                                                  std::as_bytes(std::span{theirs.note})));
    made_.emplace(std::move(made));
    return success();
  }

 private:
  PreparedTransport<Kind> prepared_;
};

inline Result<std::unique_ptr<network::Offer>> TransportOffer::prepare(
    ProtectionDomain const& domain, TransportOptions const& options) {
  return with_kind(
      options, domain,
      [&]<class Kind>(std::type_identity<Kind>) -> Result<std::unique_ptr<network::Offer>> {
        LEND_TRY(prepared, Kind::prepare(domain, options));
        return std::make_unique<OfferOf<Kind>>(std::move(prepared));
      });
}

}  // namespace lend::transport
