// SPDX-License-Identifier: MIT OR Apache-2.0
// Polls and arms the queues of a set, and sleeps on them. One thread at a time.
#include <channel/state/channel_state.hpp>
#include <channel/state/pool_state.hpp>
#include <channel/state/set_state.hpp>
#include <lend/verbs/completion_channel.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace lend::channel {

namespace {

// Of a descriptor that became readable: one of these, or the index of a queue.
constexpr std::uint64_t device_mark = UINT64_MAX - 2;
constexpr std::uint64_t managers_mark = UINT64_MAX - 3;

// The first queue has room for 16 channels of default depth. Each further one is twice as deep, so
// that few are polled however many channels come, and few channels take little memory.
constexpr std::uint32_t first_depth = 1u << 12;
constexpr std::uint32_t usual_depth_max = 1u << 16;

// A set that never sleeps asks the device for events, by a system call, once in so many polls.
constexpr std::uint32_t empty_polls_per_question = 4096;

// Between two looks at all channels that must be looked at.
constexpr std::chrono::milliseconds look_pause{10};

}  // namespace

SetState::SetState(Context const& context, Wait how) noexcept
    : plan{WaitPlan::for_this_process(how)}, context_{context}, look_at_{Deadline::Clock::now()} {}

Result<std::shared_ptr<SetState>> SetState::create(Context const& context, Wait how) try {
  std::shared_ptr<SetState> set{new SetState{context, how}};
  auto& descriptors = set->descriptors;
  LEND_TRYV(descriptors.open());
  set->events_.emplace(context, verbs::EventQueue::Wanted::of_device, descriptors.of_wake());
  if (int const of_device = set->events_->reader().descriptor(); of_device >= 0) {
    LEND_TRYV(descriptors.add(of_device, device_mark));
  }
  // Its queues are made with its channels. Then a pool may have posted what no channel can use.
  LEND_TRYV(without_value(CompletionChannel::create(context)));
  return set;
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

// ---- queues ----

Result<std::shared_ptr<Progress>> SetState::queue_with_room(std::uint32_t completions,
                                                            PoolState const* pool) {
  Use const use{*this};
  auto const shared = [this](Progress& queue) {
    return std::shared_ptr<Progress>{shared_from_this(), &queue};
  };
  for (auto const& queue : queues_)
    if (!queue->has_failed() &&
        queue->queue().room() >=
            completions + (pool != nullptr ? pool->queue().room_wanted_in(queue->queue()) : 0))
      return shared(*queue);
  if (pool != nullptr) completions += pool->queue().depth();

  auto const deepest = std::min(static_cast<std::uint32_t>(context_.limits().completions_max),
                                std::max(usual_depth_max, completions));
  auto const wished = queues_.empty() ? first_depth : 2 * queues_.back()->queue().depth();
  auto depth = std::clamp(wished, std::min(completions, deepest), deepest);
  auto made = CompletionQueue::create(context_, depth, Wakeable::yes);
  // The device, or the memory that may be locked, may have room for a smaller one.
  if (!made.has_value() && made.error() == Errc::exhausted && depth > completions)
    made = CompletionQueue::create(context_, completions, Wakeable::yes);
  LEND_TRY(completion_queue, std::move(made));
  queues_.reserve(queues_.size() + 1);  // throws before epoll knows of it
  auto queue = std::make_unique<Progress>(completion_queue, *this);
  LEND_TRYV(descriptors.add(completion_queue.descriptor(), queues_.size()));
  queues_.push_back(std::move(queue));
  return shared(*queues_.back());
}

std::optional<std::uint32_t> SetState::add(PoolState& pool) {
  auto const place = std::ranges::find(pools_, nullptr);
  auto const number = static_cast<std::uint32_t>(place - pools_.begin());
  if (number > PoolState::number_max) return std::nullopt;
  if (place == pools_.end())
    pools_.push_back(&pool);
  else
    *place = &pool;
  return number;
}

void SetState::remove(PoolState const& pool) noexcept {
  auto const place = std::ranges::find(pools_, &pool);
  if (place != pools_.end()) *place = nullptr;
}

void SetState::complete_pooled(verbs::CompletionEntry entry, ChannelState* channel) noexcept {
  auto const number = PoolState::number_of(entry.id());
  PoolState* const pool = number < pools_.size() ? pools_[number] : nullptr;
  if (pool != nullptr) pool->complete(entry, channel);
}

void SetState::post_waiting_pieces() noexcept {
  has_waiting_pieces_ = false;  // pools that keep some say so again
  for (PoolState* const pool : pools_)
    if (pool != nullptr) pool->post_waiting();
}

bool SetState::hear(ChannelState& channel, int descriptor) noexcept {
  bool const is_first = !managers_.has_any();
  bool const is_heard =
      managers_.add(channel, descriptor) &&
      (!is_first || descriptors.add(managers_.descriptor(), managers_mark).has_value());
  if (is_first && !is_heard) managers_ = {};
  return is_heard;
}

// ---- the calls of WaitSet ----

Result<void> SetState::check(std::span<Ready> into) const noexcept {
  if (origin_.is_inherited())
    return Error{Errc::system_failed,
                 "this WaitSet was made before fork() and is the parent's: make another"};
  if (into.empty())
    return Error{Errc::invalid_argument,
                 "there is no room for the channels with news: give a span of one or more"};
  return success();
}

std::span<Ready> SetState::list_ready(std::span<Ready> into) noexcept {
  std::size_t count = 0;
  while (events_->has_events() && count < into.size()) {
    auto const event = events_->next();
    if (!event) break;
    into[count++] = {0, Ready::What::device, *event};
  }
  auto const list_pools = [&] {
    while (count < into.size()) {
      PoolState* const pool = ready_pools.take_first();
      if (pool == nullptr) break;
      into[count++] = pool->take_news();
    }
  };
  // In turn, so that a short list starves neither.
  pools_come_first_ = !pools_come_first_;
  if (pools_come_first_) list_pools();
  while (count < into.size()) {
    ChannelState* const channel = ready.take_first();
    if (channel == nullptr) break;
    channel->news.note_listed();
    into[count++] = {
        channel->tag(), channel->is_broken() ? Ready::What::broken : Ready::What::work, {}};
  }
  list_pools();
  return into.first(count);
}

Result<std::span<Ready>> SetState::poll(std::span<Ready> into) noexcept {
  LEND_TRYV(check(into));
  static_cast<void>(descriptors.take_wake());
  look_around();
  return list_ready(into);
}

bool SetState::poll_or_pause(Waiter& waiter, Deadline deadline) noexcept {
  if (!look_around()) return waiter.pause(deadline);
  waiter.reset();
  return !deadline.has_passed();
}

Result<bool> SetState::poll_without_list() noexcept {
  std::array<Ready, 1> unused;
  LEND_TRYV(check(unused));
  static_cast<void>(descriptors.take_wake());
  return look_around();
}

Result<void> SetState::poll_for_member() noexcept {
  std::array<Ready, 1> unused;
  LEND_TRYV(check(unused));
  look_around();
  return success();
}

Result<bool> SetState::arm_for_program() noexcept {
  if (!origin_.is_inherited() && has_news()) return false;
  LEND_TRY(is_armed, arm_beside_news());
  return is_armed && !has_news();
}

Result<bool> SetState::arm_beside_news() noexcept {
  std::array<Ready, 1> unused;
  LEND_TRYV(check(unused));
  if (descriptors.is_woken()) return false;
  for (auto const& queue : queues_) queue->take_events();
  if (!arm())
    return Error{Errc::system_failed,
                 "the device refuses to signal the next completion: poll(), and sleep for a short "
                 "time only"};
  // Now, and when a descriptor of theirs may have woken the program.
  asks_device_ = asks_managers_ = true;
  // What came before raises no event.
  if (look_around()) return false;
  asks_device_ = asks_managers_ = true;
  descriptors.set_timer(next_look());
  return true;
}

// ---- what no completion says ----

bool SetState::look_around() noexcept {
  bool has_found = false;
  for (auto const& queue : queues_) {
    int count = 0;
    // Ends: of what is posted meanwhile, by pools, each needs a message first.
    do {
      count = queue->poll();
      has_found |= count > 0;
    } while (count == verbs::poll_batch);
    if (count < 0) queue->break_channels(count);
  }
  if (!has_found && ++empty_polls_ % empty_polls_per_question == 0) asks_device_ = true;
  if (std::exchange(asks_device_, false)) events_->reader().read();
  // Events that were not taken stay news, and cost no look at the device.
  if (events_->has_news() && events_->take_marked())
    for (auto const& queue : queues_) static_cast<void>(queue->break_reported());
  if (std::exchange(asks_managers_, false)) managers_.look();
  if ((looked_after.is_empty() && !managers_.has_any()) || !look_at_.has_passed()) return has_found;
  look_at_ = within(look_pause);
  managers_.look();  // for programs that never sleep
  looked_after.for_each([](ChannelState& channel) { channel.losses.look_now(); });
  return has_found;
}

Deadline SetState::next_look() noexcept {
  Deadline next = Deadline::never();
  looked_after.for_each(
      [&next](ChannelState& channel) { next = sooner(next, channel.losses.look_again()); });
  // Others may end the loans that keep a piece from being posted again.
  if (has_waiting_pieces_) next = sooner(next, within(look_pause));
  return next.at() < look_at_.at() ? look_at_ : next;
}

// ---- sleeping ----

bool SetState::arm() noexcept {
  return std::ranges::all_of(queues_, [](auto const& queue) { return queue->arm(); });
}

void SetState::sleep(Deadline deadline) noexcept {
  for (auto const& readable : descriptors.wait(sooner(deadline, next_look()))) {
    std::uint64_t const mark = readable.data.u64;
    if (mark == device_mark)
      asks_device_ = true;
    else if (mark == managers_mark)
      asks_managers_ = true;
    else if (mark < queues_.size())
      queues_[mark]->take_events();
  }
}

}  // namespace lend::channel
