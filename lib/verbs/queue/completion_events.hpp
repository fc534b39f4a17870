// SPDX-License-Identifier: MIT OR Apache-2.0
// The events of completion queues, of one or of many on one descriptor. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <verbs/device/handles.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace lend::verbs {

using SharedChannel = std::shared_ptr<CompletionChannelHandle>;

/// A channel whose descriptor does not block; null where `wakeable` wants none, or finds none to
/// spare.
/// Errors:  exhausted, system_failed  Wakeable::yes, and there is none.
[[nodiscard]] Result<SharedChannel> make_channel(std::shared_ptr<ContextHandle> const& context,
                                                 Wakeable wakeable);

/// Sleeps until an event, a signal or `deadline`: above 0, below, or 0.
[[nodiscard]] int await_event(CompletionChannelHandle const& channel, Deadline deadline) noexcept;

/// Takes one event and acknowledges it: the tag of its queue. Nothing: none was there, or errno
/// says what failed.
[[nodiscard]] std::optional<std::uint64_t> take_event(
    CompletionChannelHandle const& channel) noexcept;

}  // namespace lend::verbs
