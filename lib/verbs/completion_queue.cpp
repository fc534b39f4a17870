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

namespace lend {

using verbs::Provider;

namespace {

using Channel = verbs::CompletionQueueHandle::Channel;

CompletedWork success_of(verbs::CompletionEntry entry) noexcept {
  CompletedWork work;
  if (entry.has_bytes()) work.bytes = entry.bytes();
  if (entry.is_receive()) work.immediate = entry.immediate();
  return work;
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

Result<std::span<Completion>> CompletionQueue::poll(std::span<Completion> target) noexcept {
  ibv_cq& queue = *handle_->raw.get();
  std::size_t taken = 0;
  verbs::PolledCompletions entries;
  while (taken < target.size()) {
    auto const wanted = std::min<std::size_t>(verbs::poll_batch, target.size() - taken);
    int const got = entries.poll(queue, static_cast<int>(wanted));
    for (int i = 0; i < got; ++i) {
      verbs::CompletionEntry const entry = entries[i];
      if (entry.has_failed())
        target[taken++] = {entry.id(), entry.failure()};
      else
        target[taken++] = {entry.id(), success_of(entry)};
    }
    if (got < 0) [[unlikely]] {
      if (taken == 0)
        return verbs::poll_error(*this, got, "Flush and destroy the queue pairs that use it.");
      break;  // what was taken is real; the next poll meets the failure again
    }
    if (std::cmp_less(got, wanted)) break;
  }
  return target.first(taken);
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
  if (ready <= 0) return;
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  Provider const& provider = handle_->raw.provider();
  if (provider.get_cq_event(channel, &queue, &mark) == 0) provider.ack_cq_events(queue, 1);
}

std::uint32_t CompletionQueue::depth() const noexcept {
  return handle_->depth;
}

ibv_cq* CompletionQueue::native() const noexcept {
  return handle_->raw.get();
}

}  // namespace lend
