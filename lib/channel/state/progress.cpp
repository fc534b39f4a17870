// SPDX-License-Identifier: MIT OR Apache-2.0
// Passes completions to their channels. One thread at a time.
#include <channel/state/breaking.hpp>
#include <channel/state/channel_state.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/pool_state.hpp>
#include <channel/state/progress.hpp>
#include <channel/state/set_state.hpp>
#include <verbs/device/event_reader.hpp>

#include <utility>

namespace lend::channel {

Progress::Progress(CompletionQueue completions, Wait how) noexcept
    : completions_{std::move(completions)},
      raw_{completions_.native()},
      own_plan_{WaitPlan::for_this_process(how)},
      plan_{own_plan_} {}

Progress::Progress(CompletionQueue completions, SetState& set) noexcept
    : completions_{std::move(completions)},
      raw_{completions_.native()},
      set_{&set},
      plan_{set.plan} {}

std::shared_ptr<observe::Observer> Progress::shared_observer(std::string_view name) {
  for (auto const& each : shared_observers_)
    if (each->is_of(name)) return each;
  std::shared_ptr<observe::Observer> made{new observe::Observer{name}};
  return shared_observers_.emplace_back(std::move(made));
}

ChannelUse::User& Progress::user() noexcept {
  return set_ != nullptr ? set_->user : user_;
}

void Progress::look_after(ChannelState& channel) noexcept {
  if (set_ != nullptr) set_->looked_after.append(channel.as_looked_after);
}

void Progress::break_channels(int result) noexcept {
  has_failed_ = true;
  channels_.for_each([this, result](ChannelState& channel) {
    if (channel.is_broken()) return;
    // As where a lone channel aborts its work: what has failed by itself is the better cause.
    break_for_own(channel, poll_failure(channel, result));
    note_news(channel);
    look_after(channel);
    Ending{channel}.start_abort();
  });
}

bool Progress::break_reported() noexcept {
  bool has_broken = false;
  channels_.for_each([&has_broken](ChannelState& channel) {
    if (channel.losses.break_if_reported()) has_broken = true;
  });
  return has_broken;
}

bool Progress::look_at_events() noexcept {
  verbs::events_of(completions_).read();
  return break_reported();
}

void Progress::sleep(Deadline deadline) noexcept {
  if (!look_at_events()) completions_.sleep(deadline);
}

bool Progress::attach(ChannelState& channel, std::uint32_t queue_pair_number) noexcept {
  if (channels_.find(queue_pair_number) != nullptr) {
    empty_queue();
    channels_.remove(queue_pair_number);
  }
  return channels_.add(queue_pair_number, channel);
}

void Progress::detach(ChannelState const& channel, std::uint32_t queue_pair_number) noexcept {
  if (channels_.find(queue_pair_number) != &channel) return;
  channels_.remove(queue_pair_number);
  if (channels_.size() == 0 && set_ == nullptr) return;  // the queue goes, too
  empty_queue();
}

void Progress::empty_queue() noexcept {
  // rxe leaves completions of a destroyed queue pair in the queue, where a later one of that number
  // would find them. One round of the queue takes all of them.
  // Source: Linux drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_do_cleanup().
  for (std::uint32_t seen = 0; seen < completions_.depth();) {
    int const count = poll();
    if (count <= 0) return;
    seen += static_cast<std::uint32_t>(count);
  }
}

void Progress::pass_on(verbs::PolledCompletions const& entries, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    verbs::CompletionEntry const entry = entries[i];
    if (is_pooled(entry.id())) [[unlikely]] {
      if (set_ != nullptr) set_->complete_pooled(entry, channels_.find(entry.queue_pair_number()));
      continue;
    }
    if (ChannelState* const channel = channels_.find(entry.queue_pair_number())) [[likely]] {
      channel->complete(entry);
      if (!channel->news.is_unseen()) [[unlikely]]
        note_news(*channel);
    }
  }
  if (set_ != nullptr) set_->post_waiting();
}

void Progress::note_news(ChannelState& channel) noexcept {
  if (channel.news.note() && set_ != nullptr) set_->ready.append(channel.as_ready);
}

}  // namespace lend::channel
