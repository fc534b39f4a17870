// SPDX-License-Identifier: MIT OR Apache-2.0
// An end that is prepared for one peer, of whichever kind: what an exchange in an event loop
// connects. One thread at a time.
#pragma once

#include <network/wire/frame.hpp>

#include <lend/base/result.hpp>

namespace lend::network {

class Offer {
 public:
  Offer() = default;
  Offer(Offer const&) = delete;
  Offer& operator=(Offer const&) = delete;
  virtual ~Offer() = default;

  /// What the peer learns of it.
  [[nodiscard]] virtual Greeting greeting() const = 0;
  /// Connects it to the peer, once. The peer learns of an error.
  [[nodiscard]] virtual Result<void> connect(Greeting const& theirs) = 0;
};

}  // namespace lend::network
