// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread at a time.
#include <base/standard_reserved.hpp>
#include <lend/verbs/completion_channel.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/queue/completion_events.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include <cerrno>
#include <chrono>

namespace lend {

namespace {

bool is_spare(int descriptor) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
         static_cast<rlim_t>(descriptor) < limit.rlim_cur / 2;
}

}  // namespace

Result<verbs::SharedChannel> verbs::make_channel(std::shared_ptr<ContextHandle> const& context,
                                                 Wakeable wakeable) {
  if (wakeable == Wakeable::no) return SharedChannel{};
  Provider const& provider = context->provider();
  base::StandardReserved const reserved;
  errno = 0;
  SharedChannel channel{new CompletionChannelHandle{
      context, {provider, provider.create_comp_channel(context->raw.get())}}};
  if (!channel->raw && wakeable == Wakeable::yes)
    return verb_error(provider, "ibv_create_comp_channel", errno,
                      "Outside a WaitSet, Wait::adaptive goes without events.");
  if (!channel->raw) return SharedChannel{};
  int const descriptor = channel->raw.get()->fd;
  // An event may be gone by the time that it is asked for; that must not block.
  bool const is_set = ::fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0;
  if (!is_set && wakeable == Wakeable::yes)
    return Error::from_errno(Errc::system_failed, "fcntl of a completion channel", errno,
                             "Outside a WaitSet, Wait::adaptive goes without events.");
  if (!is_set || (wakeable == Wakeable::if_spare && !is_spare(descriptor))) return SharedChannel{};
  return channel;
}

int verbs::await_event(CompletionChannelHandle const& channel, Deadline deadline) noexcept {
  pollfd wait{channel.raw.get()->fd, POLLIN, 0};
  int ready = 0;
  do {
    auto const time =
        std::chrono::ceil<std::chrono::nanoseconds>(deadline.until_next_look()).count();
    timespec const limit{static_cast<time_t>(time / 1'000'000'000),
                         static_cast<long>(time % 1'000'000'000)};
    ready = ::ppoll(&wait, 1, deadline.is_never() ? nullptr : &limit, nullptr);
  } while (ready == 0 && !deadline.has_passed());
  return ready;
}

std::optional<std::uint64_t> verbs::take_event(CompletionChannelHandle const& channel) noexcept {
  ibv_cq* queue = nullptr;
  void* mark = nullptr;
  Provider const& provider = channel.raw.provider();
  if (provider.get_cq_event(channel.raw.get(), &queue, &mark) != 0) return std::nullopt;
  provider.ack_cq_events(queue, 1);
  return reinterpret_cast<std::uintptr_t>(mark);
}

Result<CompletionChannel> CompletionChannel::create(Context const& context) {
  LEND_TRY(channel, verbs::make_channel(context.handle_, Wakeable::yes));
  return CompletionChannel{std::move(channel)};
}

Result<std::optional<std::uint64_t>> CompletionChannel::next(Deadline deadline) noexcept {
  for (;;) {
    errno = 0;
    if (auto const tag = verbs::take_event(*handle_)) return tag;
    // 0: a provider that found an event of no queue that still exists.
    if (errno != EAGAIN && errno != EINTR && errno != 0)
      return verbs::verb_error(Errc::system_failed, handle_->raw.provider(), "ibv_get_cq_event",
                               errno, "The device failed or was removed.");
    if (deadline.has_passed() || verbs::await_event(*handle_, deadline) <= 0)
      return std::optional<std::uint64_t>{};
  }
}

int CompletionChannel::descriptor() const noexcept {
  return handle_->raw.get()->fd;
}

ibv_comp_channel* CompletionChannel::native() const noexcept {
  return handle_->raw.get();
}

}  // namespace lend
