// SPDX-License-Identifier: MIT OR Apache-2.0
// Set-ups that block, one after the other on a thread of their own. For `connect.hpp`; any thread.
#pragma once

#include <lend/asio/service.hpp>
#include <lend/base/deadline.hpp>

#include <boost/asio/execution_context.hpp>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace lend::asio::implementation {

/// A set-up, and the handler that waits for it. Destroyed without deliver(), it calls nothing.
class Job {
 public:
  virtual ~Job() = default;
  /// On the thread, unless it was cancelled.
  virtual void work() noexcept = 0;
  /// Posts the handler with what work() made; without that it was cancelled, or there is no thread.
  virtual void deliver() = 0;

  Cancellation cancellation{};
};

/// The thread begins with the first job and ends with this.
class SetUp final : public Keeper {
 public:
  explicit SetUp(boost::asio::execution_context& context) : Keeper{context} {}
  SetUp(SetUp const&) = delete;
  SetUp& operator=(SetUp const&) = delete;
  /// Its jobs are cancelled and delivered. Waits for the call that the thread is in, which a
  /// cancellation ends soon, except in the resolver.
  ~SetUp() override { stop(true); }

  void add(std::unique_ptr<Job> job) {
    std::lock_guard const lock{mutex_};
    jobs_.push_back(std::move(job));
    try {
      if (!thread_.joinable()) thread_ = std::thread{[this] { serve(); }};
    } catch (std::system_error const&) {
      auto const last = std::move(jobs_.back());
      jobs_.pop_back();
      last->deliver();
    }
    changed_.notify_one();
  }

  void cancel() noexcept {
    std::lock_guard const lock{mutex_};
    for (auto const& job : jobs_) job->cancellation.cancel();
  }

  void abandon() noexcept override { stop(false); }

 private:
  void serve() {
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return is_stopping_ || !jobs_.empty(); });
      if (is_stopping_) return;
      Job& job = *jobs_.front();  // stays there, for cancel()
      lock.unlock();
      if (!job.cancellation.is_cancelled()) job.work();
      lock.lock();
      if (is_stopping_) return;
      auto const done = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      done->deliver();
      lock.lock();
    }
  }

  void stop(bool delivers) noexcept {
    cancel();
    {
      std::lock_guard const lock{mutex_};
      is_stopping_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    // A handler may own what owns this: nothing of it is used from here on.
    auto const jobs = std::exchange(jobs_, {});
    for (auto const& job : jobs)
      if (delivers) job->deliver();
  }

  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::deque<std::unique_ptr<Job>> jobs_{};
  bool is_stopping_ = false;
  std::thread thread_{};
};

}  // namespace lend::asio::implementation
