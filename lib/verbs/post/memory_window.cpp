// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory windows by hand, and what is said of those that cannot be. One thread at a time.
#include <lend/verbs/memory_window.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/device/limits.hpp>
#include <verbs/device/verb_error.hpp>
#include <verbs/post/posting.hpp>
#include <verbs/post/window_work.hpp>

#include <cerrno>
#include <string>
#include <utility>

namespace lend {

Error verbs::no_windows(ContextHandle const& context) noexcept {
  return Error{
      Errc::unsupported,
      context.name +
          " has no memory windows of type 2 (capabilities().windows); expose the bytes by "
          "MemoryRegion::unsafe_expose(), and let a message say that they are not used any "
          "more. Nothing was posted"};
}

Result<verbs::WindowHandle> verbs::make_window(std::shared_ptr<DomainHandle> const& domain) {
  ContextHandle const& context = *domain->context;
  if (!context.has_windows) return no_windows(context);
  Provider const& provider = domain->provider();
  errno = 0;
  WindowHandle made{domain, {provider, provider.alloc_mw(domain->raw.get(), IBV_MW_TYPE_2)}};
  int const error = errno;
  bool const is_shortage = may_be_a_limit(error) || error == EMFILE;
  if (!made.raw)
    return verb_error(
        is_shortage ? Errc::exhausted : Errc::system_failed, provider, "ibv_alloc_mw", error,
        "The device has at most " + std::to_string(context.limits.memory_windows_max) +
            " windows (memory_windows_max).");
  return made;
}

Result<void> verbs::check_bound_bytes(QueuePairHandle const& queue_pair, RegionState const* region,
                                      ByteRange range) noexcept {
  if (region == nullptr || !region->contains(range)) return element_error(region, range, 0, 1);
  if (region->domain != queue_pair.domain)
    return Error{Errc::invalid_argument,
                 "the bytes are of a region that was registered with another protection domain; "
                 "register it with the queue pair's. Nothing was lent"};
  if (!region->takes_windows)
    return Error{Errc::unsupported,
                 "bytes of a DeviceRegion, and those paged on demand, are not lent to a peer; use "
                 "pinned ones of the host"};
  if (range.length == 0)
    return Error{Errc::invalid_argument, "no bytes for the peer: lend 1 or more"};
  return success();
}

Error verbs::window_refused(QueuePairHandle const& queue_pair, Operation operation,
                            PostAnswer answer) noexcept {
  return answer.refusal == PostRefusal::unclear
             ? device_unclear(queue_pair, operation, answer.detail)
             : device_refused(queue_pair, operation, answer.detail);
}

MemoryWindow::MemoryWindow(std::unique_ptr<verbs::WindowHandle> handle) noexcept
    : handle_{std::move(handle)} {}
MemoryWindow::MemoryWindow(MemoryWindow&&) noexcept = default;
MemoryWindow& MemoryWindow::operator=(MemoryWindow&&) noexcept = default;
MemoryWindow::~MemoryWindow() = default;

Result<MemoryWindow> MemoryWindow::create(ProtectionDomain const& domain) {
  LEND_TRY(made, verbs::make_window(domain.handle_));
  return MemoryWindow{std::make_unique<verbs::WindowHandle>(std::move(made))};
}

Result<void> MemoryWindow::destroy() && noexcept {
  auto const handle = std::move(handle_);
  if (!handle) return success();
  auto const& provider = handle->raw.provider();
  int const result = handle->raw.try_destroy();
  if (result == 0) return success();
  return verbs::verb_error(Errc::system_failed, provider, "ibv_dealloc_mw", verbs::errno_of(result),
                           "The peer may access the bytes until the queue pair is destroyed.");
}

std::uint32_t MemoryWindow::key() const noexcept {
  return handle_ ? handle_->raw.get()->rkey : 0;
}

ibv_mw* MemoryWindow::native() const noexcept {
  return handle_ ? handle_->raw.get() : nullptr;
}

Result<RemoteRegion> AnyQueuePair::post_bind(std::uint64_t id, MemoryWindow& window,
                                             GatherElement bytes, RemoteAccess access) noexcept {
  auto const& [region, range] = bytes;
  if (window.native() == nullptr)
    return Error{Errc::stale_handle, "the MemoryWindow was moved from; nothing was posted"};
  if (window.handle_->domain != handle().domain)
    return Error{Errc::invalid_argument,
                 "the MemoryWindow is of another protection domain than the queue pair; create it "
                 "with the queue pair's. Nothing was posted"};
  LEND_TRYV(verbs::check_bound_bytes(handle(), region, range));
  auto const answer = verbs::post_bind(handle(), id, *window.native(), *region, range, access);
  if (!answer.is_posted()) return verbs::window_refused(handle(), Operation::lend, answer);
  return verbs::remote_of(*window.native(), *region, range, access);
}

Result<void> AnyQueuePair::post_invalidate(std::uint64_t id, std::uint32_t key) noexcept {
  if (!handle().has_windows) return verbs::no_windows(*handle().domain->context);
  auto const answer = verbs::post_invalidate(handle(), id, key);
  if (!answer.is_posted()) return verbs::window_refused(handle(), Operation::recall, answer);
  return success();
}

}  // namespace lend
