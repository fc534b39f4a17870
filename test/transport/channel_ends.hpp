// SPDX-License-Identifier: MIT OR Apache-2.0
// Two ends of a transport over channels, of whichever kind, in one process.
#pragma once

#include <lend/transport/any.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

template <class Kind>
Result<std::pair<Kind, Kind>> try_ends(ProtectionDomain const& domain,
                                       TransportOptions const& of_a = {},
                                       TransportOptions const& of_b = {}) {
  LEND_TRY(a, Kind::prepare(domain, of_a));
  LEND_TRY(b, Kind::prepare(domain, of_b));
  auto const endpoint = a.endpoint();
  auto const terms = a.terms();
  LEND_TRY(one, std::move(a).handshake(b.endpoint(), b.terms()));
  LEND_TRY(other, std::move(b).handshake(endpoint, terms));
  return std::pair{std::move(one), std::move(other)};
}

/// The same over queue pairs that something else has connected.
template <class Kind>
Result<std::pair<Kind, Kind>> try_adopted_ends(ProtectionDomain const& domain,
                                               TransportOptions const& of_both = {}) {
  LEND_TRY(a, Kind::prepare(domain, of_both));
  LEND_TRY(b, Kind::prepare(domain, of_both));
  auto const terms = a.terms();
  LEND_TRYV(a.check(b.terms()));
  auto const endpoint = a.endpoint();
  LEND_TRY(queue_pair_of_a, a.take_queue_pair().connect(b.endpoint()));
  LEND_TRY(queue_pair_of_b, b.take_queue_pair().connect(endpoint));
  LEND_TRY(one, std::move(a).adopt(std::move(queue_pair_of_a), b.terms()));
  LEND_TRY(other, std::move(b).adopt(std::move(queue_pair_of_b), terms));
  return std::pair{std::move(one), std::move(other)};
}

template <class Kind>
std::pair<Kind, Kind> ends(TransportOptions const& of_a = {}, TransportOptions const& of_b = {}) {
  auto const domain = must(open_test_device().allocate_protection_domain());
  return must(try_ends<Kind>(domain, of_a, of_b));
}

/// The kinds as values, for tests that take turns.
struct ChannelKind {
  using AnyEnds = Result<std::pair<AnyTransport, AnyTransport>>;
  char const* name;
  AnyEnds (*try_ends)(ProtectionDomain const&, TransportOptions const&);
  AnyEnds (*try_unlike_ends)(ProtectionDomain const&, TransportOptions const&,
                             TransportOptions const&);
};
template <class Kind>
ChannelKind::AnyEnds try_unlike_ends(ProtectionDomain const& domain, TransportOptions const& of_a,
                                     TransportOptions const& of_b) {
  LEND_TRY(both, try_ends<Kind>(domain, of_a, of_b));
  return std::pair{AnyTransport{std::move(both.first)}, AnyTransport{std::move(both.second)}};
}
template <class Kind>
ChannelKind::AnyEnds try_any_ends(ProtectionDomain const& domain, TransportOptions const& options) {
  return try_unlike_ends<Kind>(domain, options, options);
}
inline constexpr ChannelKind channel_kinds[] = {
    {"SendReceive", &try_any_ends<SendReceive>, &try_unlike_ends<SendReceive>},
    {"CreditRing", &try_any_ends<CreditRing>, &try_unlike_ends<CreditRing>},
    {"ReadRing", &try_any_ends<ReadRing>, &try_unlike_ends<ReadRing>},
};

/// An end that polls the other, too, where one thread has both: a ReadRing's messages go only while
/// both programs poll. Not if they sleep (Wait::event): then each polls for itself.
class Accompanied {
 public:
  struct Both {
    std::array<std::optional<AnyTransport>, 2> ends{};
    std::array<bool, 2> has_changed{};  // as the other end has seen
  };
  Accompanied(std::shared_ptr<Both> both, std::size_t own) : both_{std::move(both)}, own_{own} {}
  Accompanied(Accompanied&&) noexcept = default;
  Accompanied& operator=(Accompanied&& other) noexcept {
    std::swap(both_, other.both_);
    std::swap(own_, other.own_);
    return *this;
  }
  ~Accompanied() {
    if (both_) both_->ends[own_].reset();
  }

  Result<Draft> try_draft(std::size_t least, std::size_t most) noexcept {
    return end().try_draft(least, most);
  }
  Result<Received> try_receive() noexcept { return end().try_receive(); }
  Result<void> finish_sending() noexcept { return end().finish_sending(); }
  void disconnect() noexcept { end().disconnect(); }
  Result<bool> poll() noexcept {
    auto& other = both_->ends[1 - own_];
    if (is_accompanied() && other) {
      LEND_TRY(has_changed, other->poll());
      both_->has_changed[1 - own_] |= has_changed;
    }
    LEND_TRY(has_changed, end().poll());
    return std::exchange(both_->has_changed[own_], false) || has_changed;
  }
  Result<bool> arm() noexcept {
    if (both_->has_changed[own_]) return false;
    return end().arm();
  }
  Result<int> descriptor() const noexcept { return end().descriptor(); }
  Deadline look_again() const noexcept {
    return is_accompanied() ? within(std::chrono::milliseconds{1}) : end().look_again();
  }
  std::uint32_t sends_in_flight() const noexcept { return end().sends_in_flight(); }
  TransportLimits const& limits() const noexcept { return end().limits(); }

 private:
  bool is_accompanied() const noexcept { return limits().wait != Wait::event; }
  AnyTransport& end() const noexcept { return *both_->ends[own_]; }

  std::shared_ptr<Both> both_;
  std::size_t own_;
};
inline std::pair<AnyTransport, AnyTransport> accompanied(
    std::pair<AnyTransport, AnyTransport> ends) {
  auto both = std::make_shared<Accompanied::Both>();
  both->ends[0].emplace(std::move(ends.first));
  both->ends[1].emplace(std::move(ends.second));
  return {AnyTransport{Accompanied{both, 0}}, AnyTransport{Accompanied{both, 1}}};
}

}  // namespace lend::test
