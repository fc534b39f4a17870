// SPDX-License-Identifier: MIT OR Apache-2.0
// Operations that wait in an execution context without a thread, and what tries them again. For the
// headers beside it. Any thread: a mutex, because turns run on any thread of the context.
//
//   idle ──an operation waits──▶ turning ──nothing new for spin_for──▶ asleep
//     ◀──no operation is left──────┘  ◀──descriptor, timer, new operation──┘
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/asio/service.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lend::asio::implementation {

using Clock = Deadline::Clock;

/// How long one without a descriptor sleeps: twice as long each time that nothing changed.
inline constexpr std::chrono::microseconds nap_min{50}, nap_max{10'000};

class Turning : public Keeper, public std::enable_shared_from_this<Turning> {
 public:
  Turning(Turning const&) = delete;
  Turning& operator=(Turning const&) = delete;

  void cancel() noexcept {
    cancel_if([](Operation const&) { return true; });
  }
  /// If the operation of that number still waits.
  void cancel(std::uint64_t number) noexcept {
    cancel_if([number](Operation const& one) { return one.number == number; });
  }
  void expires_at(Clock::time_point at) noexcept {
    std::lock_guard const lock{mutex_};
    expires_at_ = at;
  }
  void spin_for(std::chrono::nanoseconds time) noexcept {
    std::lock_guard const lock{mutex_};
    spin_for_ = time;
  }
  [[nodiscard]] std::optional<Error> last_error() const noexcept {
    std::lock_guard const lock{mutex_};
    return last_error_;
  }
  void abandon() noexcept override {
    auto const self = weak_from_this().lock();  // an operation may own the stream
    OperationList taken;
    {
      std::lock_guard const lock{mutex_};
      waiting_.take_if([](Operation const&) { return true; }, taken);
      is_asleep_ = false;
      timer_.reset();
      descriptor_.reset();
    }
    taken.end_all([](Operation& one) { one.destroy(); });
  }

 protected:
  /// What is done once the mutex is free.
  struct After {
    OperationList done{};
    bool turns = false;
  };
  /// How to sleep.
  struct Rest {
    bool has_signal = false;  // the descriptor says when something comes
    Clock::time_point until = (Clock::time_point::max)();
  };
  using Self = std::shared_ptr<Turning>;

  explicit Turning(boost::asio::any_io_executor const& executor)
      : Keeper{boost::asio::query(executor, boost::asio::execution::context)},
        turns_{boost::asio::require(executor, boost::asio::execution::blocking.never)},
        descriptor_{std::in_place, turns_},
        timer_{std::in_place, executor},
        // Where one CPU is all there is the peer needs it.
        spin_for_{std::thread::hardware_concurrency() > 1 ? std::chrono::microseconds{20}
                                                          : std::chrono::microseconds{0}} {}
  ~Turning() override = default;

  /// Tries at once; posts the handler, or keeps it until it can be. `work` has, beside what an
  /// OperationOf asks: begin(), the first attempt, and room().
  template <class Work, class Handler, class Executor>
  void start(Work&& work, Handler handler, Executor const& executor);

  // ---- of the kind, with the mutex ----

  /// Polls once and tries all. Whether anything changed.
  [[nodiscard]] virtual bool advance(After& after) noexcept = 0;
  /// Before a sleep. None: something is there, turn on.
  [[nodiscard]] virtual std::optional<Rest> arm() noexcept = 0;
  /// To sleep on.
  [[nodiscard]] virtual Result<int> own_descriptor() const noexcept = 0;
  /// Whether turns have something to do.
  [[nodiscard]] virtual bool is_needed() const noexcept { return has_operation(); }

  // ---- for the kinds, with the mutex ----

  [[nodiscard]] bool has_operation() const noexcept { return !waiting_.is_empty(); }
  [[nodiscard]] boost::system::error_code failed(Error error) noexcept {
    last_error_ = std::move(error);
    return code_of(*last_error_);
  }
  void attempt_all(After& after) noexcept;
  void take_all(boost::system::error_code why, After& after) noexcept {
    waiting_.take_if(
        [why](Operation& one) {
          one.end(why);
          return true;
        },
        after.done);
  }
  void begin_turning(After& after) noexcept {
    stop_sleeping();
    note_change();
    after.turns = !std::exchange(is_turning_, true);
  }
  void note_change() noexcept {
    changed_at_ = Clock::now();
    nap_ = nap_min;
  }
  void stop_sleeping() noexcept;
  /// The end of a sleep without a signal.
  [[nodiscard]] Clock::time_point next_nap() noexcept {
    auto const nap = std::exchange(nap_, (std::min)(2 * nap_, nap_max));
    return Clock::now() + nap;
  }

  // ---- without it ----
  static void finish(After& after, Self self);

  mutable std::mutex mutex_{};
  boost::asio::any_io_executor turns_;  // never runs anything inline
  // Of a duplicate: a transport closes its own when the connection breaks. Open from the first
  // sleep for which there was a descriptor.
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
  std::optional<boost::asio::steady_timer> timer_;  // none: abandoned
  std::chrono::nanoseconds spin_for_;
  Clock::time_point changed_at_{};
  std::chrono::microseconds nap_{};
  Clock::time_point expires_at_ = (Clock::time_point::max)();

 private:
  template <class Which>
  void cancel_if(Which which) noexcept;
  void turn(Self self);
  /// False: turn on.
  [[nodiscard]] bool sleep(Self const& self) noexcept;
  void open_descriptor() noexcept;
  void wake(Self self, std::uint64_t sleep);

  OperationList waiting_{};
  std::uint64_t number_ = 0;  // of the last operation
  std::optional<Error> last_error_{};
  std::uint64_t sleep_ = 0;  // the number of this one, or of the last
  bool is_asleep_ = false, is_turning_ = false;
};

template <class Work, class Handler, class Executor>
void Turning::start(Work&& work, Handler handler, Executor const& executor) {
  After after;
  bool is_over = false;
  {
    std::lock_guard const lock{mutex_};
    is_over = work.begin();
    if (!is_over) {
      connect_slot(handler, [self = weak_from_this(), number = ++number_] {
        if (auto const turning = self.lock()) turning->cancel(number);
      });
      using Made = OperationOf<std::decay_t<Work>, Handler, Executor>;
      OperationRoom* const room = work.room();
      Operation& made = Made::make(room, std::move(work), std::move(handler), executor);
      made.number = number_;
      made.expiry = expires_at_;
      waiting_.add(made);
    }
    // Also what was done at once concerns the others that wait: it may have found a break, or taken
    // the event that they sleep for.
    if (has_operation()) begin_turning(after);
  }
  finish(after, shared_from_this());
  if (!is_over) return;
  std::apply(
      [&](auto... each) { post_completion(std::move(handler), executor, std::move(each)...); },
      work.values());
}

inline void Turning::attempt_all(After& after) noexcept {
  auto const now = Clock::now();
  waiting_.take_if(
      [now](Operation& one) {
        if (one.attempt()) return true;
        if (now < one.expiry) return false;
        one.end(boost::asio::error::timed_out);
        return true;
      },
      after.done);
}

template <class Which>
void Turning::cancel_if(Which which) noexcept {
  After after;
  {
    std::lock_guard const lock{mutex_};
    waiting_.take_if(
        [which](Operation& one) {
          if (!which(one)) return false;
          one.end(boost::asio::error::operation_aborted);
          return true;
        },
        after.done);
    if (!is_needed()) stop_sleeping();
  }
  finish(after, shared_from_this());
}

}  // namespace lend::asio::implementation

#include <lend/asio/turns.hpp>
