// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/verbs/completion_queue.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/queue/completion_events.hpp>
#include <verbs/queue/polling.hpp>

#include <algorithm>
#include <cstddef>

namespace lend {

using verbs::Provider;

namespace {

// In place: made elsewhere, a Completion is copied through the stack.
void write(Completion& target, verbs::CompletionEntry entry) noexcept {
  target.id = entry.id();
  if (entry.has_failed()) [[unlikely]] {
    target.outcome = entry.failure();
    return;
  }
  CompletedWork& work = target.outcome.emplace<CompletedWork>();
  if (entry.has_bytes()) work.bytes = entry.bytes();
  if (!entry.is_receive()) return;
  work.immediate = entry.immediate();
  if (entry.has_returned()) [[unlikely]]
    work.returned = entry.returned();
}

void write(DatagramCompletion& target, verbs::CompletionEntry entry) noexcept {
  write(static_cast<Completion&>(target), entry);
  if (!entry.has_failed() && entry.is_receive()) target.sender = entry.sender();
}

void write(TimedCompletion& target, verbs::CompletionEntry entry, DeviceTime at) noexcept {
  write(static_cast<DatagramCompletion&>(target), entry);
  if (!entry.has_failed()) target.at = at;
}

/// As ibv_poll_cq(3) answers; `target` has room for at most poll_batch.
int poll_once(ibv_cq_ex& queue, std::span<TimedCompletion> target) noexcept {
  verbs::TimedCompletions entries;
  int const got = entries.poll(queue, static_cast<int>(target.size()));
  for (int i = 0; i < got; ++i)
    write(target[static_cast<std::size_t>(i)], entries[i], entries.time_of(i));
  return got;
}
template <class Entry>
[[gnu::always_inline]] inline int poll_once(ibv_cq& queue, std::span<Entry> target) noexcept {
  verbs::PolledCompletions entries;
  int const got = entries.poll(queue, static_cast<int>(target.size()));
  Entry* next = target.data();
  for (int i = 0; i < got; ++i) write(*next++, entries[i]);
  return got;
}

/// The same for any target: as many as were taken before the device had no more, or refused.
template <class Raw, class Entry>
[[gnu::cold, gnu::noinline]] std::ptrdiff_t poll_often(Raw& queue,
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

/// What verbs keep with a queue for its user.
void* mark_of(std::uint64_t tag) noexcept {
  static_assert(sizeof(void*) >= sizeof tag);
  return reinterpret_cast<void*>(tag);
}

Result<void> check_options(verbs::ContextHandle const& context,
                           CompletionQueueOptions const& options) {
  // At least one: a device without interrupts of its own says 0 or 1.
  auto const vectors = std::max(context.attributes.completion_vectors, 1u);
  if (options.vector >= vectors)
    return Error{Errc::invalid_argument, "completion vector " + std::to_string(options.vector) +
                                             "; " + context.name + " has " +
                                             std::to_string(vectors) + ", counted from 0"};
  if (options.timestamps && !context.has_timestamps())
    return Error{Errc::unsupported,
                 context.name +
                     " gives completions no timestamps: leave CompletionQueueOptions::timestamps "
                     "out, and read the host's clock after poll()"};
  if (options.channel != nullptr && options.wakeable != Wakeable::no)
    return Error{Errc::invalid_argument,
                 "a completion queue has its own descriptor or a CompletionChannel, not both"};
  return success();
}

ibv_cq* make_plain(verbs::ContextHandle const& context, CompletionQueueOptions const& options,
                   ibv_comp_channel* events) noexcept {
  return context.provider().create_cq(context.raw.get(), static_cast<int>(options.depth),
                                      mark_of(options.tag), events,
                                      static_cast<int>(options.vector));
}

/// All fields that CompletionEntry reads, and the time.
ibv_cq_ex* make_timed(verbs::ContextHandle const& context, CompletionQueueOptions const& options,
                      ibv_comp_channel* events) noexcept {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = options.depth;
  wanted.cq_context = mark_of(options.tag);
  wanted.channel = events;
  wanted.comp_vector = options.vector;
  wanted.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  return context.provider().create_cq_ex(context.raw.get(), &wanted);
}

}  // namespace

Result<CompletionQueue> CompletionQueue::create(Context const& context, std::uint32_t depth,
                                                Wakeable wakeable) {
  return create(context, CompletionQueueOptions{.depth = depth, .wakeable = wakeable});
}

Result<CompletionQueue> CompletionQueue::create(Context const& context,
                                                CompletionQueueOptions const& options) {
  auto const depth = options.depth;
  auto const limit = context.limits().completions_max;
  if (depth == 0 || std::cmp_greater(depth, limit))
    return verbs::beyond_limit("completion queue depth", depth, static_cast<std::uint64_t>(limit),
                               "completions_max", context.name());
  auto const& parent = context.handle_;
  LEND_TRYV(check_options(*parent, options));
  if (options.channel != nullptr && options.channel->handle_->context != parent)
    return Error{
        Errc::invalid_argument,
        "the CompletionChannel and the completion queue belong to different Contexts; make "
        "both from one"};
  LEND_TRY(channel, options.channel != nullptr
                        ? Result<verbs::SharedChannel>{options.channel->handle_}
                        : verbs::make_channel(parent, options.wakeable));
  auto* const events = channel != nullptr ? channel->raw.get() : nullptr;
  errno = 0;
  ibv_cq_ex* const timed = options.timestamps ? make_timed(*parent, options, events) : nullptr;
  verbs::RawHandle<ibv_cq, &Provider::destroy_cq> raw{
      parent->provider(),
      options.timestamps ? ibv_cq_ex_to_cq(timed) : make_plain(*parent, options, events)};
  int const error = errno;
  if (!raw)
    return verbs::completion_queue_error(
        *parent, options.timestamps ? "ibv_create_cq_ex" : "ibv_create_cq", depth, error);
  int const granted = raw.get()->cqe;
  if (std::cmp_less(granted, depth))
    return Error{Errc::exhausted, context.name() + " granted " + std::to_string(granted) + " of " +
                                      std::to_string(depth) +
                                      " completion queue entries; ask for less"};
  return CompletionQueue{std::make_shared<verbs::CompletionQueueHandle>(
      parent, std::move(channel), options.channel != nullptr, std::move(raw), timed,
      static_cast<std::uint32_t>(granted))};
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

template <class Raw, class Entry>
[[gnu::always_inline]] inline Result<std::span<Entry>> CompletionQueue::poll_into(
    Raw& queue, std::span<Entry> target) noexcept {
  bool const is_at_once = target.size() - 1 < verbs::poll_batch;  // not 0 either
  std::ptrdiff_t const got = is_at_once ? poll_once(queue, target) : poll_often(queue, target);
  if (got < 0) [[unlikely]]
    return verbs::poll_error(*this, static_cast<int>(got),
                             "Flush and destroy the queue pairs that use it.");
  return target.first(static_cast<std::size_t>(got));
}

Result<std::span<Completion>> CompletionQueue::poll(std::span<Completion> target) noexcept {
  return poll_into(*handle_->raw.get(), target);
}
Result<std::span<DatagramCompletion>> CompletionQueue::poll(
    std::span<DatagramCompletion> target) noexcept {
  return poll_into(*handle_->raw.get(), target);
}
Result<std::span<TimedCompletion>> CompletionQueue::poll(
    std::span<TimedCompletion> target) noexcept {
  if (handle_->timed == nullptr)
    return Error{Errc::invalid_argument,
                 "the completion queue was made without timestamps: set "
                 "CompletionQueueOptions::timestamps, or poll it into Completion"};
  // A fork replaces what is called through the context, and these calls go through the queue.
  if (handle_->raw.is_inherited()) return verbs::poll_error(*this, -ENODEV, {});
  return poll_into(*handle_->timed, target);
}

bool CompletionQueue::is_wakeable() const noexcept {
  return handle_->channel != nullptr && !handle_->shares_channel;
}

bool CompletionQueue::arm(EventFor which) noexcept {
  return handle_->channel != nullptr &&
         ibv_req_notify_cq(handle_->raw.get(), which == EventFor::solicited ? 1 : 0) == 0;
}

void CompletionQueue::sleep(Deadline deadline) noexcept {
  if (is_wakeable() && verbs::await_event(*handle_->channel, deadline) > 0)
    static_cast<void>(verbs::take_event(*handle_->channel));
}

int CompletionQueue::descriptor() const noexcept {
  return is_wakeable() ? handle_->channel->raw.get()->fd : -1;
}

void CompletionQueue::take_events() noexcept {
  while (is_wakeable() && verbs::take_event(*handle_->channel)) {
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
