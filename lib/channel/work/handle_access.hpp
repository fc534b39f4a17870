// SPDX-License-Identifier: MIT OR Apache-2.0
// What a wait for many handles asks of each one; and posts that reuse a handle. The thread of their
// channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <lend/channel/calls.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>

namespace lend::channel {

struct HandleAccess {
  /// Whether it has taken no result yet, and was not moved from.
  [[nodiscard]] static bool is_pending(PendingWork const& work) noexcept {
    return work.seen_ == PendingWork::Seen::nothing && work.channel_.anchor != nullptr;
  }
  /// The id of its work, which is left to who has that: dropping the handle drops no result.
  [[nodiscard]] static SlotId release(PendingWork work) noexcept {
    work.channel_ = {};
    return SlotId{work.id_};
  }
  /// Null once it is gone.
  [[nodiscard]] static ChannelState* channel_of(PendingWork const& work) noexcept {
    return living(work.channel_);
  }
  /// The result that it took, if its work succeeded; else null.
  [[nodiscard]] static WorkSuccess const* success_of(PendingWork const& work) noexcept {
    return work.seen_ == PendingWork::Seen::success ? &work.success_ : nullptr;
  }
  /// Takes the result if the work has succeeded, after one poll at most, in few instructions.
  /// Whether it has a success. False: there is none yet, or it has an immediate; poll() or wait()
  /// decides. The caller holds a use of the channel or of its set.
  [[nodiscard, gnu::always_inline]] static bool take_success(PendingWork& work) noexcept {
    if (work.seen_ != PendingWork::Seen::nothing) return work.seen_ == PendingWork::Seen::success;
    ChannelState* const channel = living(work.channel_);
    if (channel == nullptr) return false;
    Slot* const slot = channel->in_flight.slots.find(SlotId{work.id_});
    if (slot == nullptr) return false;
    if (!slot->finished) static_cast<void>(channel->poll());  // a failure shows again
    if (!slot->finished || slot->failed || slot->work.immediate) return false;
    WorkAnswer const answer{slot->work.operation, slot->work.bytes};
    channel->in_flight.slots.collect(*slot);
    return work.keep(answer);
  }
  /// Posts in `scope` as its post_…() do. `handle` drops what it had, and is the handle of this
  /// work. False: nothing was posted, the handle is as before, and error_of_post() has the reason.
  template <class Work, class Element>
  [[nodiscard, gnu::always_inline]] static bool post_again(PendingWork& handle, PollingScope& scope,
                                                           ElementList<Element> const& elements,
                                                           Deadline deadline,
                                                           SourceLine where) noexcept {
    return begin_again(handle, scope,
                       ScopeCalls<Work>::post_any(scope, Work{elements}, deadline, where));
  }
  /// The same of one element, in fewer instructions.
  template <class Work, class Element>
  [[nodiscard, gnu::always_inline]] static bool post_again(PendingWork& handle, PollingScope& scope,
                                                           Element element, Deadline deadline,
                                                           SourceLine where) noexcept {
    if (!deadline.is_never())
      return post_again<Work, Element>(handle, scope, ElementList<Element>{element}, deadline,
                                       where);
    auto const [offset, length] = element.range;
    return begin_again(
        handle, scope,
        ScopeCalls<Work>::post(scope, element.region, offset, length, where.file, where.line, {}));
  }
  /// Of the last of these.
  [[nodiscard]] static Error error_of_post(PollingScope const& scope) noexcept {
    return scope.error_of_post();
  }
  /// Whether poll() may do more than poll the queue: there is a result, or the work is to be posted
  /// or brought back first.
  [[nodiscard]] static bool is_worth_a_poll(PendingWork const& work) noexcept {
    ChannelState* const channel = living(work.channel_);
    if (channel == nullptr || channel->is_broken()) return true;
    Slot const* const slot = channel->in_flight.slots.find(SlotId{work.id_});
    return slot == nullptr || slot->finished || slot->unposted;
  }

 private:
  [[gnu::always_inline]] static bool begin_again(PendingWork& handle, PollingScope const& scope,
                                                 std::uint64_t id) noexcept {
    if (id == 0) [[unlikely]]
      return false;
    if (handle.seen_ != PendingWork::Seen::success) [[unlikely]]
      handle = PendingWork{};
    handle.channel_ = scope.channel_;
    handle.id_ = id;
    handle.seen_ = PendingWork::Seen::nothing;
    return true;
  }
};

}  // namespace lend::channel
