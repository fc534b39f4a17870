// SPDX-License-Identifier: MIT OR Apache-2.0
// The side of an examination that listens. One thread.
#pragma once

#include <network/exchange/conversation.hpp>

#include <lend/doctor/examine.hpp>
#include <lend/doctor/pair_connector.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lend::doctor {

/// How long one peer may keep others from being served.
inline constexpr std::chrono::minutes patience_with_peer{10};

/// "10 min", "90 s", "100 ms": in the largest unit of which it is a whole number.
[[nodiscard]] std::string text_of(std::chrono::nanoseconds time);

class PairServer {
 public:
  explicit PairServer(network::ConversationListener listener,
                      std::chrono::nanoseconds patience = patience_with_peer,
                      PairConnector const* by_cm = nullptr)
      : listener_{std::move(listener)}, patience_{patience}, by_cm_{by_cm} {}

  [[nodiscard]] std::string const& address() const noexcept { return listener_.address(); }
  /// As ExaminationListener::serve(), to a peer for its patience at most.
  [[nodiscard]] Result<std::vector<Finding>> serve(Deadline deadline);

 private:
  network::ConversationListener listener_;
  std::chrono::nanoseconds patience_;
  PairConnector const* by_cm_;
};

}  // namespace lend::doctor
