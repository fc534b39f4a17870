// SPDX-License-Identifier: MIT OR Apache-2.0
// How the state of a channel is made, and what stops its misuse. One thread at a time.
#include <channel/channel_state.hpp>
#include <verbs/adoption.hpp>

#include <new>
#include <utility>

namespace lend {

ChannelState::ChannelState(ProtectionDomain const& domain, CompletionQueue completions,
                           QueuePair queue_pair, ChannelOptions const& options)
    : endpoint{queue_pair.endpoint()},
      peer{queue_pair.peer()},
      send_depth{options.queue_pair.send_depth},
      receive_depth{options.queue_pair.receive_depth},
      inline_bytes{queue_pair.inline_bytes()},
      message_bytes_max{queue_pair.message_bytes_max()},
      completions_{std::move(completions)},
      queue_pair_{std::move(queue_pair)},
      raw_completions_{completions_.native()},
      raw_queue_pair_{&QueuePairDoor::handle_of(*queue_pair_)},
      elements_{queue_pair_->elements()},      // granted: more may be posted than was asked for
      slots_{(send_depth + receive_depth)      // every request that can be outstanding
             + (send_depth + receive_depth)},  // as many finished ones that handles still hold
      pieces_{std::make_unique<LentPiece[]>(std::size_t{slots_.capacity()} * elements_)},
      is_watched_{queue_pair_->is_watched()},
      keep_alive_{*queue_pair_, options.keep_alive},
      is_attentive_{is_watched_ || keep_alive_.is_on()},
      wait_plan_{WaitPlan::for_this_process(options.wait, is_watched_)},
      domain_{domain},
      options_{options} {
  slots_.for_each_slot([pieces = pieces_.get(), this](Slot& slot) mutable {
    slot.pieces = std::exchange(pieces, pieces + elements_);
  });
}

std::unique_ptr<ChannelState> ChannelState::make(ProtectionDomain const& domain,
                                                 CompletionQueue completions, QueuePair queue_pair,
                                                 ChannelOptions const& options) {
  try {
    std::unique_ptr<ChannelState> state{
        new ChannelState{domain, std::move(completions), std::move(queue_pair), options}};
    state->reference_ = take_anchor(state.get());
    return state->reference_.anchor != nullptr ? std::move(state) : nullptr;
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
}

void ChannelState::stop_for_moved() noexcept {
  stop("a Channel was used after it had been moved from");
}

void ChannelUse::stop_for_two_threads() noexcept {
  stop("a Channel, or a scope or handle of it, was used by two threads at once");
}

}  // namespace lend
