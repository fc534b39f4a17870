// SPDX-License-Identifier: MIT OR Apache-2.0
// Gets receives of datagrams back, which nothing else ends. The thread of the channel.
#include <base/giving_up.hpp>
#include <channel/state/breaking.hpp>
#include <channel/state/ending.hpp>
#include <channel/state/wait_until.hpp>
#include <channel/work/drain.hpp>
#include <verbs/post/posting.hpp>
#include <verbs/queue/adoption.hpp>
#include <verbs/queue/connecting.hpp>

#include <algorithm>

namespace lend::channel {

namespace {

// How long the device may take to flush the receives.
constexpr std::chrono::seconds recall_bound{2};

/// A recall goes on in the device: receives that it flushes are no failures.
class Recall {
 public:
  explicit Recall(DatagramState& datagrams) noexcept : datagrams_{datagrams} {
    datagrams_.begin_recall();
  }
  Recall(Recall const&) = delete;
  Recall& operator=(Recall const&) = delete;
  ~Recall() { datagrams_.end_recall(); }

 private:
  DatagramState& datagrams_;
};

}  // namespace

// Verbs take no single receive back: the error state flushes all, and RESET lets the queue pair
// begin again, with its number and key. Source: InfiniBand Architecture Specification vol. 1,
// 10.3.1.
std::optional<Error> Drain::recall(ScopeRecord& scope, Deadline deadline,
                                   bool is_unwinding) noexcept {
  InFlight& in_flight = channel_.in_flight;
  // What is there already needs no recall; a failure of this poll shows again below.
  if (scope.outstanding > 0) static_cast<void>(channel_.progress.poll());
  if (!in_flight.has_receive_of(scope)) return std::nullopt;
  // Sends end as they leave. Those of other scopes would be flushed, too.
  if (auto gave_up = wait_for(scope, true, deadline, is_unwinding)) return gave_up;
  if (channel_.is_broken() || !in_flight.has_receive_of(scope)) return std::nullopt;
  auto const recalled = begin_again(scope);
  if (recalled.has_value()) return std::nullopt;
  // What the device flushed does not come again.
  Error const why = channel_.connection.about(recalled.error());
  break_for_own(channel_, why);
  Ending{channel_}.abandon();
  return why;
}

Result<void> Drain::begin_again(ScopeRecord const& recalled) noexcept {
  verbs::QueuePairHandle const& queue_pair = channel_.connection.raw();
  Recall const recall{*channel_.datagrams};
  LEND_TRYV(verbs::abort_all(queue_pair));
  LEND_TRYV(wait_for_flush());
  LEND_TRYV(verbs::initialize_again(queue_pair));
  // Before datagrams come, so that none finds fewer receives than there were.
  LEND_TRYV(post_again(recalled));
  return verbs::activate(queue_pair);
}

std::optional<Error> Drain::recall_alone(ScopeRecord& scope, Deadline deadline) noexcept {
  auto failed = recall(scope, deadline, false);
  if (!failed && channel_.is_broken()) return channel_.failures.broken_error();
  if (!failed) return std::nullopt;
  if (base::is_given_up(*failed))
    return base::gave_up(deadline, "a send did not leave",
                         "; it is still outstanding, and so are the receives");
  Ending{channel_}.abort_all(channel_.connection.about(*failed));
  return failed;
}

Result<void> Drain::wait_for_flush() noexcept {
  LEND_TRY(came, wait_within(channel_, recall_bound, [this] {
             return channel_.is_broken() ||
                    channel_.datagrams->flushed() >= channel_.in_flight.room.outstanding();
           }));
  if (channel_.is_broken()) return *channel_.failures.first_cause();
  if (!came)
    return Error{Errc::system_failed,
                 "the device did not return the receives within 2 s of its error state"};
  return success();
}

Result<void> Drain::post_again(ScopeRecord const& recalled) noexcept {
  InFlight& in_flight = channel_.in_flight;
  verbs::QueuePairHandle const& queue_pair = channel_.connection.raw();
  DatagramState& datagrams = *channel_.datagrams;
  std::vector<SlotId>& others = datagrams.begin_list();
  in_flight.for_each_outstanding([&](SlotId id, Slot& slot) {
    if (slot.scope == &recalled)
      in_flight.take_back(slot);
    else
      others.push_back(id);
  });
  // The room that was posted first takes the next datagram.
  std::ranges::sort(others, {}, [&](SlotId id) { return datagrams.row(id).posted_as; });
  for (SlotId const id : others) {
    RoomReceive const work{datagrams.row(id).room};
    auto const answer = verbs::try_post(queue_pair, id.value, work, {});
    if (!answer.is_posted()) return verbs::refusal_error(queue_pair, work, answer, {});
  }
  return success();
}

}  // namespace lend::channel
