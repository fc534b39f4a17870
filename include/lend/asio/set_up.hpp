// SPDX-License-Identifier: MIT OR Apache-2.0
// Set-ups that block, one after the other on a thread of their own. For `connect.hpp`; any thread.
//
// The thread destroys nothing of the program: a handler may own what would join it.
#pragma once

#include <lend/asio/service.hpp>
#include <lend/base/deadline.hpp>

#include <boost/asio/execution_context.hpp>

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace lend::asio::implementation {

class SetUp;

/// A set-up, and the handler that waits for it. Destroyed without deliver(), it calls nothing.
class Job {
 public:
  enum class State : std::uint8_t { queued, working, done };

  virtual ~Job() = default;
  /// On the thread.
  virtual void work() noexcept = 0;
  /// On the thread, after: posts a call of deliver_done().
  virtual void announce(std::weak_ptr<SetUp> set_up) = 0;
  /// Posts the handler with what work() made; without that it was cancelled, or there is no thread.
  virtual void deliver() = 0;

  std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();
  State state = State::queued;
};

/// The thread begins with the first job and ends with this.
class SetUp final : public Keeper, public std::enable_shared_from_this<SetUp> {
 public:
  explicit SetUp(boost::asio::execution_context& context) : Keeper{context} {}
  SetUp(SetUp const&) = delete;
  SetUp& operator=(SetUp const&) = delete;
  ~SetUp() override { stop(); }

  /// `keeps`: this lives until its jobs are delivered, though nothing else owns it.
  void add(std::unique_ptr<Job> job, bool keeps) {
    Jobs refused;
    {
      std::lock_guard const lock{mutex_};
      auto& target = is_stopping_ || !has_thread() ? refused : jobs_;
      if (is_stopping_) job->cancellation->cancel();
      target.push_back(std::move(job));
      if (keeps && refused.empty()) own_ = shared_from_this();
    }
    changed_.notify_one();
    for (auto const& one : refused) one->deliver();
  }

  /// Those that wait for their turn are delivered at once.
  void cancel() noexcept {
    cancel_if([](Job const&) { return true; });
  }
  void cancel(Cancellation const& one) noexcept {
    cancel_if([&](Job const& job) { return job.cancellation.get() == &one; });
  }
  void deliver_done() noexcept {
    deliver([](Job const& job) { return job.state == Job::State::done; });
  }
  /// All jobs are cancelled and delivered, and so are those that are added later. Waits for the
  /// call that the thread is in, which a cancellation ends soon, except in the resolver.
  void stop() noexcept {
    end_thread();
    deliver([](Job const&) { return true; });
  }

  void end_thread() noexcept override {
    {
      std::lock_guard const lock{mutex_};
      is_stopping_ = true;
      for (auto const& job : jobs_) job->cancellation->cancel();
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }
  void abandon() noexcept override {
    end_thread();
    // A handler may own what owns this: nothing of it is used once the first is destroyed.
    auto const own = std::exchange(own_, nullptr);
    auto const jobs = std::exchange(jobs_, {});
  }

 private:
  using Jobs = std::list<std::unique_ptr<Job>>;  // taken out without an allocation

  [[nodiscard]] bool has_thread() noexcept {
    try {
      if (!thread_.joinable()) thread_ = std::thread{[this] { serve(); }};
    } catch (std::system_error const&) {
      return false;
    }
    return true;
  }

  void serve() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return is_stopping_ || first_queued() != nullptr; });
      if (is_stopping_) return;
      Job& job = *first_queued();  // stays in the list, for cancel()
      job.state = Job::State::working;
      lock.unlock();
      job.work();
      lock.lock();
      job.state = Job::State::done;
      job.announce(weak_from_this());
    }
  }
  [[nodiscard]] Job* first_queued() const noexcept {
    for (auto const& job : jobs_)
      if (job->state == Job::State::queued) return job.get();
    return nullptr;
  }

  template <class Which>
  void cancel_if(Which which) noexcept {
    deliver([&](Job const& job) {
      if (which(job)) job.cancellation->cancel();
      return which(job) && job.state == Job::State::queued;
    });
  }

  template <class Which>
  void deliver(Which which) noexcept {
    std::shared_ptr<SetUp> own;
    Jobs taken;
    {
      std::lock_guard const lock{mutex_};
      for (auto at = jobs_.begin(); at != jobs_.end();) {
        auto const job = at++;
        if (which(**job)) taken.splice(taken.end(), jobs_, job);
      }
      if (jobs_.empty()) own = std::exchange(own_, nullptr);
    }
    for (auto const& job : taken) job->deliver();
  }

  std::mutex mutex_{};
  std::condition_variable changed_{};
  Jobs jobs_{};
  bool is_stopping_ = false;
  std::shared_ptr<SetUp> own_{};
  std::thread thread_{};
};

}  // namespace lend::asio::implementation
