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
#include <cstddef>
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

/// A read or write that waits.
class Operation {
 public:
  /// Either destroys it.
  virtual void complete(boost::system::error_code code, std::size_t bytes) = 0;
  virtual void destroy() noexcept = 0;

 protected:
  ~Operation() = default;
};

/// Where an operation lives, unless its handler brings an allocator or needs more.
struct OperationRoom {
  alignas(std::max_align_t) std::array<std::byte, 512> bytes;  // first: destroy_by()
  std::atomic<bool> is_used{false};  // until it is destroyed, which may be after it was taken
};

template <class Handler, class Executor>
class OperationOf final : public Operation {
  using Allocator = typename std::allocator_traits<
      boost::asio::associated_allocator_t<Handler>>::template rebind_alloc<OperationOf>;

 public:
  [[nodiscard]] static OperationOf* make(OperationRoom& room, Handler handler,
                                         Executor const& executor) {
    if constexpr (is_in_room()) {
      auto* const made = new (room.bytes.data()) OperationOf{std::move(handler), executor};
      room.is_used.store(true, std::memory_order_relaxed);
      return made;
    } else {
      Allocator allocator{boost::asio::get_associated_allocator(handler)};
      auto* const at = std::allocator_traits<Allocator>::allocate(allocator, 1);
      return new (static_cast<void*>(at)) OperationOf{std::move(handler), executor};
    }
  }

  void complete(boost::system::error_code code, std::size_t bytes) override {
    auto const work = work_;
    auto const executor = executor_;
    Allocator const allocator{boost::asio::get_associated_allocator(handler_)};
    Handler handler{std::move(handler_)};
    destroy_by(allocator);  // the room is free before the handler begins the next operation
    post_completion(std::move(handler), executor, code, bytes);
  }
  void destroy() noexcept override {
    destroy_by(Allocator{boost::asio::get_associated_allocator(handler_)});
  }

 private:
  OperationOf(Handler handler, Executor const& executor)
      : handler_{std::move(handler)},
        executor_{executor},
        work_{boost::asio::get_associated_executor(handler_, executor_)} {}
  ~OperationOf() = default;

  void destroy_by([[maybe_unused]] Allocator allocator) noexcept {
    void* const place = this;
    this->~OperationOf();
    if constexpr (is_in_room())  // whose bytes come first
      static_cast<OperationRoom*>(place)->is_used.store(
          false, std::memory_order_release);  // pairs with start()'s acquire
    else
      std::allocator_traits<Allocator>::deallocate(allocator, this, 1);
  }
  [[nodiscard]] static constexpr bool is_in_room() noexcept {
    return std::is_same_v<Allocator, std::allocator<OperationOf>> &&
           sizeof(OperationOf) <= sizeof(OperationRoom) &&
           alignof(OperationOf) <= alignof(OperationRoom);
  }

  Handler handler_;
  Executor executor_;
  boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, Executor>> work_;
};

}  // namespace lend::asio::implementation
