// SPDX-License-Identifier: MIT OR Apache-2.0
// Passes completions to their channels. One thread at a time.
#include <channel/channel_state.hpp>
#include <channel/progress.hpp>

#include <utility>

namespace lend::channel {

Progress::Progress(CompletionQueue completions, Wait how) noexcept
    : completions_{std::move(completions)},
      raw_{completions_.native()},
      how_{how},
      wait_plan_{WaitPlan::for_this_process(how, false)} {}

bool Progress::attach(ChannelState& channel, std::uint32_t queue_pair_number) noexcept {
  return channels_.add(queue_pair_number, channel);
}

void Progress::detach(ChannelState const& channel, std::uint32_t queue_pair_number) noexcept {
  if (channels_.find(queue_pair_number) != &channel) return;
  channels_.remove(queue_pair_number);
  if (channels_.size() == 0) return;
  // rxe leaves completions of a destroyed queue pair in the queue, where a later one of that number
  // would find them. One round of the queue drops all of them.
  // Source: Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_do_cleanup().
  for (std::uint32_t seen = 0; seen < completions_.depth();) {
    int const count = poll();
    if (count <= 0) return;
    seen += static_cast<std::uint32_t>(count);
  }
}

void Progress::hand_out(verbs::PolledCompletions const& entries, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    verbs::CompletionEntry const entry = entries[i];
    if (ChannelState* const channel = channels_.find(entry.queue_pair_number())) [[likely]]
      channel->complete(entry);
  }
}

}  // namespace lend::channel
