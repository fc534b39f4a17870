// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/verbs/completion_queue.hpp>
#include <verbs/handles.hpp>
#include <verbs/limits.hpp>
#include <verbs/polling.hpp>
#include <verbs/verb_error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace lend {

using verbs::Provider;

namespace {

using Channel = verbs::CompletionQueueHandle::Channel;

// In place: made elsewhere, a Completion is copied through the stack.
void write(Completion& target, verbs::CompletionEntry entry) noexcept {
  target.id = entry.id();
  if (entry.has_failed()) [[unlikely]] {
    target.outcome = entry.failure();
    return;
  }
  CompletedWork& work = target.outcome.emplace<CompletedWork>();
  if (entry.has_bytes()) work.bytes = entry.bytes();
  if (entry.is_receive()) work.immediate = entry.immediate();
}

void write(DatagramCompletion& target, verbs::CompletionEntry entry) noexcept {
  write(static_cast<Completion&>(target), entry);
  if (!entry.has_failed() && entry.is_receive()) target.sender = entry.sender();
}

/// As ibv_poll_cq(3) answers; `target` has room for at most poll_batch.
template <class Entry>
[[gnu::always_inline]] inline int poll_once(ibv_cq& queue, std::span<Entry> target) noexcept {
  verbs::PolledCompletions entries;
  int const got = entries.poll(queue, static_cast<int>(target.size()));
  Entry* next = target.data();
  for (int i = 0; i < got; ++i) write(*next++, entries[i]);
  return got;
}

/// The same for any target: as many as were taken before the device had no more, or refused.
template <class Entry>
[[gnu::cold, gnu::noinline]] std::ptrdiff_t poll_often(ibv_cq& queue,
                                                       std::span<Entry> target) noexcept {
  std::size_t taken = 0;
  while (taken < target.size()) {
    auto const rest = target.subspan(taken);
    auto const some = rest.first(std::min<std::size_t>(verbs::poll_batch, rest.size()));
    int const got = poll_once(queue, some);
    // What was taken is real; the next poll meets the failure again.
    if (got < 0) return taken == 0 ? got : static_cast<std::ptrdiff_t>(taken);
    taken += static_cast<std::size_t>(got);
    if (std::cmp_less(got, some.size())) break;
  }
  return static_cast<std::ptrdiff_t>(taken);
}

bool is_spare(int descriptor) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
         static_cast<rlim_t>(descriptor) < limit.rlim_cur / 2;
}

/// Empty unless the queue is to be wakeable.
Result<Channel> make_channel(Provider const& provider, ibv_context* context, Wakeable wakeable) {
  if (wakeable == Wakeable::no) return Channel{provider, nullptr};
  errno = 0;
  Channel channel{provider, provider.create_comp_channel(context)};
  if (!channel && wakeable == Wakeable::yes)
    return verbs::verb_error(provider, "ibv_create_comp_channel", errno,
                             "A wait without events (Wait::adaptive) needs no descriptor.");
  if (!channel) return channel;
  int const descriptor = channel.get()->fd;
  // An event may be gone by the time that it is asked for; that must not block.
  bool const is_set = ::fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0;
  if (!is_set && wakeable == Wakeable::yes)
    return Error::from_errno(Errc::system_failed, "fcntl of a completion channel", errno,
                             "Wait without events (Wait::adaptive).");
  if (!is_set || (wakeable == Wakeable::if_spare && !is_spare(descriptor)))
    return Channel{provider, nullptr};
  return channel;
}

/// Whether there was one; the queue must be wakeable.
bool take_event(verbs::CompletionQueueHandle& handle) noexcept {
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  Provider const& provider = handle.raw.provider();
  if (provider.get_cq_event(handle.channel.get(), &queue, &mark) != 0) return false;
  provider.ack_cq_events(queue, 1);
  return true;
}

}  // namespace

Result<CompletionQueue> CompletionQueue::create(Context const& context, std::uint32_t depth,
                                                Wakeable wakeable) {
  auto const limit = context.limits().completions_max;
  if (depth == 0 || std::cmp_greater(depth, limit))
    return verbs::beyond_limit("completion queue depth", depth, static_cast<std::uint64_t>(limit),
                               "completions_max", context.name());
  auto const& parent = context.handle_;
  Provider const& provider = parent->provider();
  LEND_TRY(channel, make_channel(provider, parent->raw.get(), wakeable));
  errno = 0;
  verbs::RawHandle<ibv_cq, &Provider::destroy_cq> raw{
      provider,
      provider.create_cq(parent->raw.get(), static_cast<int>(depth), nullptr, channel.get(), 0)};
  int const error = errno;
  if (!raw) return verbs::completion_queue_error(*parent, depth, error);
  int const granted = raw.get()->cqe;
  if (std::cmp_less(granted, depth))
    return Error{Errc::exhausted, context.name() + " granted " + std::to_string(granted) + " of " +
                                      std::to_string(depth) +
                                      " completion queue entries; ask for less"};
  return CompletionQueue{std::make_shared<verbs::CompletionQueueHandle>(
      parent, std::move(channel), std::move(raw), static_cast<std::uint32_t>(granted))};
}

verbs::EventReader& verbs::events_of(CompletionQueue const& queue) noexcept {
  return queue.handle_->context->events;
}

Error verbs::poll_error(CompletionQueue const& queue, int result,
                        std::string_view remedy) noexcept {
  auto const& raw = queue.handle_->raw;
  auto const entries = "a queue of " + std::to_string(raw.get()->cqe) + " entries";
  // Without a reason the number is not taken for an errno: drivers answer codes of their own.
  // Source: rdma-core providers/mlx5/cq.c, CQ_POLL_ERR.
  if (raw.provider().last_reason() != nullptr)
    return verbs::verb_error(Errc::system_failed, raw.provider(), "ibv_poll_cq on " + entries,
                             -result);
  return Error{Errc::system_failed,
               "ibv_poll_cq returned " + std::to_string(result) + " on " + entries +
                   ": the queue overran or the device failed; no work has ended. " +
                   std::string{remedy}};
}

template <class Entry>
[[gnu::always_inline]] inline Result<std::span<Entry>> CompletionQueue::poll_into(
    std::span<Entry> target) noexcept {
  ibv_cq& queue = *handle_->raw.get();
  bool const is_at_once = target.size() - 1 < verbs::poll_batch;  // not 0 either
  std::ptrdiff_t const got = is_at_once ? poll_once(queue, target) : poll_often(queue, target);
  if (got < 0) [[unlikely]]
    return verbs::poll_error(*this, static_cast<int>(got),
                             "Flush and destroy the queue pairs that use it.");
  return target.first(static_cast<std::size_t>(got));
}

Result<std::span<Completion>> CompletionQueue::poll(std::span<Completion> target) noexcept {
  return poll_into(target);
}
Result<std::span<DatagramCompletion>> CompletionQueue::poll(
    std::span<DatagramCompletion> target) noexcept {
  return poll_into(target);
}

bool CompletionQueue::is_wakeable() const noexcept {
  return static_cast<bool>(handle_->channel);
}

bool CompletionQueue::arm() noexcept {
  return is_wakeable() && ibv_req_notify_cq(handle_->raw.get(), 0) == 0;
}

void CompletionQueue::sleep(Deadline deadline) noexcept {
  ibv_comp_channel* const channel = handle_->channel.get();
  if (channel == nullptr) return;
  pollfd wait{channel->fd, POLLIN, 0};
  int ready = 0;
  do {
    auto const time =
        std::chrono::ceil<std::chrono::nanoseconds>(deadline.until_next_look()).count();
    timespec const limit{static_cast<time_t>(time / 1'000'000'000),
                         static_cast<long>(time % 1'000'000'000)};
    ready = ::ppoll(&wait, 1, deadline.is_never() ? nullptr : &limit, nullptr);
  } while (ready == 0 && !deadline.has_passed());
  if (ready > 0) static_cast<void>(take_event(*handle_));
}

int CompletionQueue::descriptor() const noexcept {
  return is_wakeable() ? handle_->channel.get()->fd : -1;
}

void CompletionQueue::take_events() noexcept {
  while (is_wakeable() && take_event(*handle_)) {
  }
}

std::uint32_t CompletionQueue::room() const noexcept {
  auto const promised = handle_->promised.load(std::memory_order_relaxed);
  return promised < handle_->depth ? handle_->depth - static_cast<std::uint32_t>(promised) : 0;
}

std::uint32_t CompletionQueue::depth() const noexcept {
  return handle_->depth;
}

ibv_cq* CompletionQueue::native() const noexcept {
  return handle_->raw.get();
}

}  // namespace lend
