// SPDX-License-Identifier: MIT OR Apache-2.0
// What a QueuePairChange asks of ibv_modify_qp. Values; any thread.
#pragma once

#include <lend/base/result.hpp>
#include <lend/verbs/queue_pair_change.hpp>
#include <verbs/device/handles.hpp>

#include <optional>
#include <string>

namespace lend::verbs {

struct ChangeRequest {
  ibv_qp_attr attributes{};
  int mask = 0;

  /// Puts `value`, if there is one, into `field`.
  template <class Value, class Field>
  void set(std::optional<Value> const& value, Field& field, int bit) noexcept {
    if (!value) return;
    field = static_cast<Field>(*value);
    mask |= bit;
  }
};

/// Errors:  invalid_argument  names the value that is out of range.
[[nodiscard]] Result<ChangeRequest> request_of(QueuePairHandle const& queue_pair,
                                               QueuePairChange const& change);

[[nodiscard]] Error change_refused(QueuePairHandle const& queue_pair, std::string const& why);

}  // namespace lend::verbs
