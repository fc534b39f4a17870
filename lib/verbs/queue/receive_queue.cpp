// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <lend/base/stop.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <lend/verbs/receive_queue.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/post/plain_work.hpp>
#include <verbs/post/posting.hpp>

#include <algorithm>
#include <cerrno>
#include <string>

namespace lend {

using verbs::ReceiveQueueHandle;

namespace {

using RawReceiveQueue = verbs::RawHandle<ibv_srq, &verbs::Provider::destroy_srq>;

RawReceiveQueue make(verbs::DomainHandle const& domain, ibv_srq_attr& attributes) noexcept {
  ibv_srq_init_attr asked{};
  asked.attr = attributes;
  errno = 0;
  RawReceiveQueue raw{domain.provider(), domain.provider().create_srq(domain.raw.get(), &asked)};
  if (raw) attributes = asked.attr;
  return raw;
}

Error refusal_of(verbs::DomainHandle const& domain, ibv_srq_attr const& asked, int errno_value) {
  verbs::Provider const& provider = domain.provider();
  verbs::ContextHandle const& context = *domain.context;
  std::string const call = "ibv_create_srq of " + std::to_string(asked.max_wr) + " receives";
  if (!verbs::may_be_a_limit(errno_value) || provider.last_reason() != nullptr)
    return verbs::verb_error(provider, call, errno_value);
  ibv_srq_attr smallest{.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  // Whether the smallest can be made distinguishes too large from too many.
  std::string remedy =
      make(domain, smallest)
          ? "One of a single receive can be made: ask for less depth or fewer elements."
          : verbs::at_most(context, context.limits.receive_queues_max, "shared receive queues") +
                '.';
  if (verbs::locked_memory_is_limited()) remedy += ' ' + verbs::locked_memory_remedy();
  return verbs::verb_error(verbs::code_of_limit(errno_value), provider, call, errno_value, remedy);
}

[[gnu::cold, gnu::noinline]] Error refusal_of(ReceiveQueueHandle const& queue, Receive const& work,
                                              verbs::PostAnswer answer) noexcept {
  using verbs::PostRefusal;
  if (answer.refusal != PostRefusal::by_device && answer.refusal != PostRefusal::unclear)
    return verbs::refusal_error(queue, work, answer, {});
  if (answer.detail == ENOMEM)
    return Errc::queue_full;  // as providers answer; ibv_post_srq_recv(3)
  auto const code = answer.detail == EOPNOTSUPP ? Errc::unsupported : Errc::system_failed;
  return verbs::verb_error(code, queue.domain->provider(), "ibv_post_srq_recv", answer.detail,
                           answer.refusal == PostRefusal::unclear
                               ? "The device does not say whether it took the receive, and may "
                                 "write to its bytes until the queue is destroyed."
                               : "");
}

}  // namespace

Result<ReceiveQueue> ReceiveQueue::create(ProtectionDomain const& domain, std::uint32_t depth,
                                          std::uint32_t elements) {
  auto const& parent = domain.handle_;
  verbs::ContextHandle const& context = *parent->context;
  DeviceLimits const& limits = context.limits;
  if (limits.receive_queues_max <= 0)
    return Error{Errc::unsupported,
                 context.name + " has no shared receive queues; post receives on each channel"};
  if (depth == 0 || std::cmp_greater(depth, limits.shared_receives_max))
    return verbs::beyond_limit("depth of a shared receive queue", depth,
                               static_cast<std::uint64_t>(limits.shared_receives_max),
                               "shared_receives_max", context.name);
  auto const most = std::min(static_cast<std::uint32_t>(limits.elements_max), elements_max);
  if (elements == 0 || elements > most)
    return verbs::beyond_limit("elements", elements, most, "elements_max", context.name);

  ibv_srq_attr attributes{.max_wr = depth, .max_sge = elements, .srq_limit = 0};
  auto raw = make(*parent, attributes);
  if (int const error = errno; !raw) return refusal_of(*parent, attributes, error);
  if (attributes.max_wr < depth || attributes.max_sge < elements)
    return Error{Errc::exhausted, context.name + " granted " + std::to_string(attributes.max_wr) +
                                      " of " + std::to_string(depth) +
                                      " shared receives; ask for less"};
  verbs::EventMarks marks{parent->context->events, raw.get()};
  auto handle = std::make_shared<ReceiveQueueHandle>(
      ReceiveQueueHandle{{parent}, std::move(raw), std::move(marks), attributes.max_wr});
  handle->elements = handle->receive_elements = elements;
  handle->message_bytes_max = context.port.message_bytes_max;
  return ReceiveQueue{std::move(handle)};
}

ReceiveQueue::ReceiveQueue(std::shared_ptr<ReceiveQueueHandle> handle) noexcept
    : handle_{std::move(handle)} {}
ReceiveQueue::ReceiveQueue(ReceiveQueue&&) noexcept = default;
ReceiveQueue& ReceiveQueue::operator=(ReceiveQueue&&) noexcept = default;
ReceiveQueue::~ReceiveQueue() = default;

ReceiveQueueHandle& ReceiveQueue::handle() const noexcept {
  if (!handle_) [[unlikely]]
    stop("a ReceiveQueue was used after it had been moved from");
  return *handle_;
}

Result<void> ReceiveQueue::unsafe_post_receive(std::uint64_t id, Receive const& work) noexcept {
  ReceiveQueueHandle const& queue = handle();
  if (!verbs::may_be_plain(work) || !verbs::is_plain(queue, verbs::plain_of(work))) [[unlikely]] {
    auto const answer = verbs::try_post(queue, id, work, {});
    return answer.is_posted() ? Result<void>{success()} : refusal_of(queue, work, answer);
  }
  ibv_sge entry;
  ibv_recv_wr request;
  verbs::describe_plain(queue, id, verbs::plain_of(work), request, entry);
  ibv_recv_wr* refused = nullptr;
  if (int const result = verbs::post_chain(queue, request, refused); result != 0) [[unlikely]]
    return refusal_of(queue, work,
                      verbs::device_answer(work.target.only().range.length, result, refused));
  return success();
}

Result<void> ReceiveQueue::request_limit_event(std::uint32_t receives) noexcept {
  ReceiveQueueHandle& queue = handle();
  if (receives > queue.depth)
    return Error{Errc::invalid_argument, "a limit of " + std::to_string(receives) +
                                             " is above the queue's depth of " +
                                             std::to_string(queue.depth)};
  ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = receives};
  verbs::Provider const& provider = queue.domain->provider();
  int const result = provider.modify_srq(queue.raw.get(), &attributes, IBV_SRQ_LIMIT);
  if (result == 0) return success();
  return verbs::verb_error(provider, "ibv_modify_srq", verbs::errno_of(result));
}

Result<void> ReceiveQueue::destroy() && noexcept {
  verbs::Provider const& provider = handle().domain->provider();
  auto const last = std::move(handle_);
  if (last.use_count() > 1)
    return Error{Errc::system_failed, "a queue pair still uses the shared receive queue"};
  last->marks.end();
  int const result = last->raw.is_inherited() ? ENODEV : last->raw.try_destroy();
  if (result == 0) return success();
  return verbs::verb_error(Errc::system_failed, provider, "ibv_destroy_srq",
                           verbs::errno_of(result),
                           "The device may still access the posted bytes.");
}

bool verbs::has_share(ReceiveQueueHandle const& receives,
                      CompletionQueueHandle const& completions) noexcept {
  return std::ranges::any_of(receives.shares, [&completions](CompletionShare const& share) {
    return &share.queue() == &completions;
  });
}

std::uint32_t ReceiveQueue::room_wanted_in(CompletionQueue const& completions) const noexcept {
  return verbs::has_share(handle(), *completions.handle_) ? 0 : handle().depth;
}

std::uint32_t ReceiveQueue::depth() const noexcept {
  return handle().depth;
}

ibv_srq* ReceiveQueue::native() const noexcept {
  return handle_ ? handle_->raw.get() : nullptr;
}

}  // namespace lend
