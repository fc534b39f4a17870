// SPDX-License-Identifier: MIT OR Apache-2.0
// The first messages of a link by rdma_cm, of whose ends only one may send first. The thread of the
// group.
#pragma once

#include <flow/greetings.hpp>
#include <group/link/link.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <optional>

namespace lend::group {

class Meeting {
 public:
  /// The link is connected.
  void begin(verbs::FirstSender first) noexcept {
    greetings_.emplace(first);
    is_over_ = first == verbs::FirstSender::either;
  }
  /// Whether both ends may send.
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  [[nodiscard]] Deadline next_greeting() const noexcept {
    return greetings_ ? greetings_->next() : Deadline::never();
  }
  /// Sends the greeting that is due, or the answer to the peer's.
  /// Errors:  the link is broken.
  [[nodiscard]] Result<void> greet(Link& link) noexcept {
    if (!greetings_ || is_over_) return success();
    LEND_TRYV(link.take_arrivals());
    if (link.failure() != nullptr) return *link.failure();
    if (link.has_heard()) {
      if (greetings_->is_awaited()) {
        LEND_TRYV(link.send_credit());
      }
      greetings_->note_arrival();
      is_over_ = true;
    } else if (greetings_->is_due()) {
      LEND_TRYV(link.send_credit());
      greetings_->note_sent();
    }
    return success();
  }

 private:
  std::optional<flow::Greetings> greetings_{};  // once it is connected
  bool is_over_ = false;
};

}  // namespace lend::group
