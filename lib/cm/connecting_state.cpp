// SPDX-License-Identifier: MIT OR Apache-2.0
// Advances with each event and with time, and gives up what is not connected.
#include <base/giving_up.hpp>
#include <cm/connecting_state.hpp>

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

namespace lend::cm {

namespace {

/// An attempt without an answer yet.
struct Unanswered {
  PreparedQueuePair queue_pair;
  CmLink link;  // destroyed first: the queue pair's destruction waits for it
};

void* end(void* unanswered) noexcept {
  delete static_cast<Unanswered*>(unanswered);
  return nullptr;
}

/// Ends it.
///
/// On iWARP the kernel gives up only at a limit of its own (siw: 10 s), and destroying the id
/// blocks until then. So a detached thread does that; the caller has a deadline.
/// Source: Linux drivers/infiniband/core/iwcm.c, destroy_cm_id().
void abandon(Unanswered unanswered) noexcept {
  std::unique_ptr<Unanswered> kept{new (std::nothrow) Unanswered{std::move(unanswered)}};
  if (kept == nullptr) return;
  // The program's signal handlers must not run on this thread.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, end, kept.get()) == 0) {
    static_cast<void>(kept.release());  // the thread's
    ::pthread_detach(thread);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Without memory or a thread it is destroyed here.
}

}  // namespace

ConnectingState::ConnectingState(PreparedQueuePair queue_pair, CmLink link, Watch watch,
                                 Deadline deadline) noexcept
    : queue_pair_{std::move(queue_pair)},
      link_{std::move(link)},
      watch_{std::move(watch)},
      deadline_{deadline} {
  watch_.set(deadline_.at());
}

ConnectingState::~ConnectingState() {
  if (!awaits_peer_ || link_.is_inherited() || !handle_->domain->context->is_iwarp()) return;
  // Its descriptor is another's, perhaps, once the thread has closed the channel.
  static_cast<void>(Watch{std::move(watch_)});
  abandon({std::move(queue_pair_), std::move(link_)});
}

ConnectingState::Step ConnectingState::advance() {
  if (link_.is_inherited()) return CmLink::inherited("rdma_get_cm_event");
  if (Clock::now() >= resumes_ && !deadline_.has_passed()) {
    resumes_ = Clock::time_point::max();
    LEND_TRYV(resume());
  }
  for (;;) {
    LEND_TRY(event, link_.events.take());
    if (!event) break;
    // An address that moves to another port of a bond changes nothing here. Source:
    // rdma_get_cm_event(3).
    if (event->type == RDMA_CM_EVENT_ADDR_CHANGE) continue;
    LEND_TRY(connection, on(*event));
    if (connection) return std::move(connection);
  }
  if (deadline_.has_passed()) return late();
  watch_.set(std::min(deadline_.at(), resumes_));
  return std::optional<CmConnection>{};
}

Result<CmConnection> ConnectingState::finish() {
  for (;;) {
    LEND_TRY(connection, advance());
    if (connection) return std::move(*connection);
    pollfd waiting{descriptor(), POLLIN, 0};
    if (::poll(&waiting, 1, base::poll_milliseconds(deadline_)) < 0 && errno != EINTR)
      return Error::from_errno(Errc::system_failed, "poll of a connection being made", errno);
  }
}

}  // namespace lend::cm
