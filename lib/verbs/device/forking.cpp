// SPDX-License-Identifier: MIT OR Apache-2.0
// The handlers of a fork, and the calls that fail in the child. Any thread.
#include <verbs/device/forking.hpp>

#include <pthread.h>

#include <cerrno>
#include <mutex>
#include <type_traits>
#include <utility>

namespace lend::verbs {

namespace {

constinit std::uint32_t generation = 0;  // written in a child before it has a second thread
constinit std::mutex open_mutex;
constinit ForkedDataPath* newest_open = nullptr;  // any one of the ring

int post_send(ibv_qp*, ibv_send_wr* first, ibv_send_wr** refused) noexcept {
  *refused = first;
  return ENODEV;
}
int post_receive(ibv_qp*, ibv_recv_wr* first, ibv_recv_wr** refused) noexcept {
  *refused = first;
  return ENODEV;
}
int post_shared_receive(ibv_srq*, ibv_recv_wr* first, ibv_recv_wr** refused) noexcept {
  *refused = first;
  return ENODEV;
}
int poll(ibv_cq*, int, ibv_wc*) noexcept {
  return -ENODEV;
}
int notify(ibv_cq*, int) noexcept {
  return ENODEV;
}

/// A control call that fails: with null, or with the errno as its answer.
struct Refused {
  template <class Answer, class... Arguments>
  using Call = Answer (*)(Arguments...);

  template <class Answer, class... Arguments>
  constexpr operator Call<Answer, Arguments...>() const noexcept {
    return [](Arguments...) -> Answer {
      errno = ENODEV;
      if constexpr (std::is_pointer_v<Answer>)
        return nullptr;
      else
        return Answer(ENODEV);
    };
  }
};
constexpr Refused refuses;

/// Ends nothing: the object is the parent's.
template <class Raw>
int leave(Raw*) noexcept {
  return 0;
}

// The list of devices and ibv_open_device() are not in it: they go by the provider's own, for what
// a child opens is its own.
constinit Provider const inherited_table = [] {
  Provider made{};
  made.name = "inherited";
  made.last_reason = [] {
    return "this device was opened before fork(): open it again in the child";
  };
  made.query_device = refuses;
  made.query_port = refuses;
  made.query_gid_ex = refuses;
  made.query_device_ex = refuses;
  made.query_rt_values_ex = refuses;
  made.query_pkey = refuses;
  made.alloc_pd = refuses;
  made.reg_mr = refuses;
  made.reg_dmabuf_mr = refuses;
  made.reg_shown = refuses;
  made.show = refuses;
  made.advise_mr = refuses;
  made.alloc_mw = refuses;
  made.create_comp_channel = refuses;
  made.get_cq_event = refuses;
  made.create_cq = refuses;
  made.create_cq_ex = refuses;
  made.create_srq = refuses;
  made.modify_srq = refuses;
  made.create_qp = refuses;
  made.modify_qp = refuses;
  made.query_qp = refuses;
  made.create_ah = refuses;
  made.create_ah_from_wc = refuses;
  made.allocate = refuses;
  made.allocate_apart = refuses;
  made.close_device = &leave<ibv_context>;
  made.dealloc_pd = &leave<ibv_pd>;
  made.dereg_mr = &leave<ibv_mr>;
  made.hide = &leave<ibv_mr>;
  made.dealloc_mw = &leave<ibv_mw>;
  made.destroy_comp_channel = &leave<ibv_comp_channel>;
  made.destroy_cq = &leave<ibv_cq>;
  made.destroy_srq = &leave<ibv_srq>;
  made.destroy_qp = &leave<ibv_qp>;
  made.destroy_ah = &leave<ibv_ah>;
  made.write_at_once = [](ibv_qp*, ibv_send_wr const&) { return false; };
  made.ack_cq_events = [](ibv_cq*, unsigned) {};
  made.release = [](ibv_context*, void*, std::size_t) {};
  return made;
}();

}  // namespace

int register_fork_handlers() noexcept {
  // The lock is held over the fork, so that the child finds the ring whole.
  return ::pthread_atfork([] { open_mutex.lock(); }, [] { open_mutex.unlock(); },
                          [] {
                            ++generation;
                            ForkedDataPath::refuse_all();
                            open_mutex.unlock();
                          });
}

namespace {

// As the process starts: in a child, a static local could stay half made by another thread.
int const handlers_failure = register_fork_handlers();

}  // namespace

int notice_forks() noexcept {
  return handlers_failure;
}

std::uint32_t fork_generation() noexcept {
  return generation;
}

Provider const& inherited_provider() noexcept {
  return inherited_table;
}

ForkedDataPath::ForkedDataPath(ibv_context& context) noexcept : context_{context} {
  std::lock_guard const lock{open_mutex};
  next_ = newest_open != nullptr ? newest_open : this;
  previous_ = newest_open != nullptr ? newest_open->previous_ : this;
  next_->previous_ = previous_->next_ = this;
  newest_open = this;
}

ForkedDataPath::~ForkedDataPath() {
  std::lock_guard const lock{open_mutex};
  if (newest_open == this) newest_open = next_ != this ? next_ : nullptr;
  next_->previous_ = previous_;
  previous_->next_ = next_;
}

void ForkedDataPath::refuse_all() noexcept {
  ForkedDataPath* at = newest_open;
  if (at == nullptr) return;
  do {
    auto& operations = at->context_.ops;
    operations.post_send = &post_send;
    operations.post_recv = &post_receive;
    operations.post_srq_recv = &post_shared_receive;
    operations.poll_cq = &poll;
    operations.req_notify_cq = &notify;
    at = at->next_;
  } while (at != newest_open);
}

}  // namespace lend::verbs
