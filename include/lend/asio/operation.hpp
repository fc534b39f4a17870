// SPDX-License-Identifier: MIT OR Apache-2.0
// Handlers of a program: kept until their operation is done, then posted. For the headers beside
// it.
#pragma once

#include <lend/base/language.hpp>

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <boost/version.hpp>

#if BOOST_VERSION >= 107700
#include <boost/asio/associated_cancellation_slot.hpp>
#endif

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lend::asio::implementation {

#if BOOST_VERSION >= 107700
/// With a default, because 1.81 takes a std::ref() for ambiguous without.
template <class Handler>
[[nodiscard]] auto slot_of(Handler const& handler) noexcept {
  return boost::asio::get_associated_cancellation_slot(handler, boost::asio::cancellation_slot{});
}
#endif

/// Calls `cancel` when the program cancels the operation of this handler by its slot, which is of
/// the program's threads: `cancel` outlives the operation, and only the Completion clears it.
template <class Handler, class Cancel>
void connect_slot([[maybe_unused]] Handler const& handler, [[maybe_unused]] Cancel cancel) {
#if BOOST_VERSION >= 107700
  auto slot = slot_of(handler);
  if (slot.is_connected())
    slot.assign([cancel](boost::asio::cancellation_type) mutable { cancel(); });
#endif
}
template <class Handler>
void disconnect_slot([[maybe_unused]] Handler const& handler) {
#if BOOST_VERSION >= 107700
  auto slot = slot_of(handler);
  if (slot.is_connected()) slot.clear();
#endif
}

/// A handler and what it is called with; runs where the handler wants to.
template <class Handler, class Executor, class... Values>
class Completion {
 public:
  using executor_type = boost::asio::associated_executor_t<Handler, Executor>;
  using allocator_type = boost::asio::associated_allocator_t<Handler>;

  Completion(Handler handler, Executor const& executor, Values... values)
      : handler_{std::move(handler)}, executor_{executor}, values_{std::move(values)...} {}

  [[nodiscard]] executor_type get_executor() const noexcept {
    return boost::asio::get_associated_executor(handler_, executor_);
  }
  [[nodiscard]] allocator_type get_allocator() const noexcept {
    return boost::asio::get_associated_allocator(handler_);
  }
  void operator()() {
    disconnect_slot(handler_);
    std::apply([&](auto&... values) { std::move(handler_)(std::move(values)...); }, values_);
  }

 private:
  Handler handler_;
  Executor executor_;
  std::tuple<Values...> values_;
};

/// Calls the handler with these values, never before this returns.
template <class Handler, class Executor, class... Values>
void post_completion(Handler handler, Executor const& executor, Values... values) {
  boost::asio::post(
      Completion<Handler, Executor, Values...>{std::move(handler), executor, std::move(values)...});
}

/// What waits: in the list of its keeper, with whose mutex it is tried.
class Operation {
 public:
  /// Whether it is over.
  [[nodiscard]] virtual bool attempt() noexcept = 0;
  /// It is over, for that reason.
  virtual void end(boost::system::error_code why) noexcept = 0;
  /// Posts its handler. This or destroy() destroys it.
  virtual void complete() = 0;
  virtual void destroy() noexcept = 0;

  std::uint64_t number = 0;
  std::chrono::steady_clock::time_point expiry{};
  Operation* next = nullptr;

 protected:
  Operation() = default;
  ~Operation() = default;
};

/// First come, first tried.
class OperationList {
 public:
  OperationList() = default;
  OperationList(OperationList const&) = delete;
  OperationList& operator=(OperationList const&) = delete;
  ~OperationList() = default;

  [[nodiscard]] bool is_empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] Operation* first() const noexcept { return first_; }
  void add(Operation& operation) noexcept {
    operation.next = nullptr;
    *last_ = &operation;
    last_ = &operation.next;
  }
  /// Moves those for which `which` says so to `taken`.
  template <class Which>
  void take_if(Which which, OperationList& taken) noexcept {
    Operation* at = std::exchange(first_, nullptr);
    last_ = &first_;
    while (at != nullptr) {
      Operation& one = *std::exchange(at, at->next);
      which(one) ? taken.add(one) : add(one);
    }
  }
  /// Calls `ending`, which destroys it, for each.
  template <class Ending>
  void end_all(Ending ending) {
    last_ = &first_;
    for (Operation* at = std::exchange(first_, nullptr); at != nullptr;)
      ending(*std::exchange(at, at->next));
  }

 private:
  Operation* first_ = nullptr;
  Operation** last_ = &first_;
};

/// Where an operation lives, unless its handler brings an allocator or needs more.
struct OperationRoom {
  alignas(std::max_align_t) std::array<std::byte, 800> bytes;
  std::atomic<bool> is_used{false};  // until it is destroyed, which may be after it was taken
};

/// `Work` is what is tried: attempt() and end() as an Operation's, and values(), a tuple for the
/// handler.
template <class Work, class Handler, class Executor>
class OperationOf final : public Operation {
  using Allocator = typename std::allocator_traits<
      boost::asio::associated_allocator_t<Handler>>::template rebind_alloc<OperationOf>;

 public:
  /// `room` is used from now on, wherever this lives; null: there is none.
  [[nodiscard]] static OperationOf& make(OperationRoom* room, Work&& work, Handler&& handler,
                                         Executor const& executor) {
    Allocator allocator{boost::asio::get_associated_allocator(handler)};
    void* const place = is_in(room)
                            ? room->bytes.data()
                            : static_cast<void*>(std::to_address(
                                  std::allocator_traits<Allocator>::allocate(allocator, 1)));
    if (room != nullptr) room->is_used.store(true, std::memory_order_relaxed);
    return *new (place) OperationOf{room, std::move(work), std::move(handler), executor};
  }

  [[nodiscard]] bool attempt() noexcept override { return work_.attempt(); }
  void end(boost::system::error_code why) noexcept override { work_.end(why); }
  void complete() override {
    auto const guard = guard_;
    auto const executor = executor_;
    auto values = work_.values();
    Allocator const allocator{boost::asio::get_associated_allocator(handler_)};
    Handler handler{std::move(handler_)};
    destroy_by(allocator);  // the room is free before the handler begins the next operation
    std::apply(
        [&](auto&... each) { post_completion(std::move(handler), executor, std::move(each)...); },
        values);
  }
  void destroy() noexcept override {
    destroy_by(Allocator{boost::asio::get_associated_allocator(handler_)});
  }

 private:
  OperationOf(OperationRoom* room, Work&& work, Handler&& handler, Executor const& executor)
      : room_{room},
        work_{std::move(work)},
        handler_{std::move(handler)},
        executor_{executor},
        guard_{boost::asio::get_associated_executor(handler_, executor_)} {}
  ~OperationOf() = default;

  void destroy_by(Allocator allocator) noexcept {
    OperationRoom* const room = room_;
    this->~OperationOf();
    if (!is_in(room)) std::allocator_traits<Allocator>::deallocate(allocator, this, 1);
    // Release pairs with the acquire of the thread that looks for a room.
    if (room != nullptr) room->is_used.store(false, std::memory_order_release);
  }
  [[nodiscard]] static bool is_in(OperationRoom const* room) noexcept {
    return std::is_same_v<Allocator, std::allocator<OperationOf>> &&
           sizeof(OperationOf) <= sizeof(room->bytes) &&
           alignof(OperationOf) <= alignof(OperationRoom) && room != nullptr;
  }

  OperationRoom* room_;
  Work work_;
  Handler handler_;
  Executor executor_;
  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, Executor>> guard_;
};

}  // namespace lend::asio::implementation
