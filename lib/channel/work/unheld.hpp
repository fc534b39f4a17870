// SPDX-License-Identifier: MIT OR Apache-2.0
// Posts work without a handle, which its scope counts: what only needs to know how much of it is
// over. The thread of the channel.
#pragma once

#include <channel/state/channel_state.hpp>
#include <channel/work/posting_again.hpp>
#include <verbs/post/plain_work.hpp>

#include <endian.h>

#include <cstdint>
#include <optional>

namespace lend::channel {

/// Work of a scope that was posted so and is not known to have succeeded.
[[nodiscard]] inline std::uint64_t not_succeeded(ScopeRecord const& scope) noexcept {
  return scope.outstanding + scope.failures.size() + (scope.has_lost_failure ? 1 : 0);
}

/// Goes on after a first try, as post_after(), and drops the handle.
template <class Work>
[[nodiscard]] bool leave_after(SlotId tried, ChannelState& channel, Work const& work,
                               ScopeRecord& scope, SourceLine where) noexcept {
  SlotId const id = post_after<Lending::lends, Room::is_there_now>(
      tried, channel, work, scope, Deadline::never(), where.file, where.line);
  return id.is_valid() && channel.in_flight.drop_handle(id);
}

/// Posts any work. False: it was not posted, and the channel's last_error() has the reason.
template <class Work>
[[nodiscard]] bool post_unheld(ChannelState& channel, Work const& work, ScopeRecord& scope,
                               SourceLine where = SourceLine::here()) noexcept {
  ChannelState::Use const use{channel};
  return leave_after(post_general<Lending::lends>(channel, work, scope, where.file, where.line),
                     channel, work, scope, where);
}

/// The same of what may be plain, in few instructions, by a form that says whether it carries an
/// immediate.
template <class Work>
[[nodiscard, gnu::always_inline]] inline bool post_unheld(
    verbs::Form<Work>& form, ChannelState& channel, verbs::Plain<Work> plain,
    std::optional<std::uint32_t> immediate, ScopeRecord& scope,
    SourceLine where = SourceLine::here()) noexcept {
  ChannelState::Use const use{channel};
  auto const work = [&]() LEND_INLINED {
    return immediate ? plain.work().with_immediate(*immediate) : plain.work();
  };
  auto const [file, line] = where;
  if (immediate) form.request.imm_data = htobe32(*immediate);
  Prepared prepared;
  if (prepare<Lending::lends>(prepared, form, channel, plain, file, line)) [[likely]]
    return post_prepared<Lending::lends>(
        form, channel, scope, plain.peer, prepared,
        [&](Slot& slot, SlotId id) LEND_INLINED {
          open(form, channel, scope, slot, id, plain.peer);
          slot.held = false;
          return true;
        },
        [&](Work const&, SourceLine)
            LEND_INLINED { return leave_after({}, channel, work(), scope, where); });
  return leave_after(post_general<Lending::lends>(channel, work(), scope, file, line), channel,
                     work(), scope, where);
}

}  // namespace lend::channel
