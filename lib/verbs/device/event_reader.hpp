// SPDX-License-Identifier: MIT OR Apache-2.0
// The one reader of a device's asynchronous events: acknowledges each, marks the object that it
// concerns, and adds it to every queue of events. Any thread.
//
// A mark stays as long as its object. A channel looks at the marks of its own objects, on its own
// thread; a set learns that some object was marked, and looks at all its channels.
#pragma once

#include <lend/base/error.hpp>
#include <lend/verbs/completion_queue.hpp>
#include <lend/verbs/device_events.hpp>
#include <verbs/device/forking.hpp>
#include <verbs/device/provider.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lend::verbs {

class EventQueue;
struct QueuePairHandle;

class EventReader {
 public:
  /// Makes the descriptor of the events non-blocking: it is read to see whether there are any.
  EventReader(ibv_context& context, Provider const& provider) noexcept;
  EventReader(EventReader const&) = delete;
  EventReader& operator=(EventReader const&) = delete;

  /// Reads the events that have come, without waiting. In a forked child it does nothing.
  void read() noexcept;
  /// Readable while there are any; -1 if they cannot be read without blocking.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] bool is_inherited() const noexcept { return origin_.is_inherited(); }
  [[nodiscard]] bool has_device_failed() const noexcept {
    return has_device_failed_.load(std::memory_order_relaxed);
  }

 private:
  friend class EventMarks;
  friend class EventQueue;
  // The events of an object: 1 << ibv_event_type. They publish nothing else: relaxed throughout.
  using Marks = std::atomic<std::uint32_t>;

  /// The caller holds mutex_, and acknowledges the event after this.
  void pass_on(ibv_async_event const& event) noexcept;
  void mark(void const* object, ibv_event_type type) noexcept;

  ibv_context& context_;
  Provider const& provider_;
  int descriptor_;
  Inheritance origin_{};
  std::atomic<bool> has_device_failed_{false};
  std::mutex mutex_;  // held from the reading of an event to its acknowledgement
  std::unordered_map<void const*, Marks> marks_{};  // by object
  std::vector<EventQueue*> queues_{};
};

/// The marks of one object. They end before the object is destroyed, so that they are never those
/// of a later object at its address.
class EventMarks {
 public:
  EventMarks() noexcept = default;
  /// May throw std::bad_alloc.
  EventMarks(EventReader& reader, void const* object);
  EventMarks(EventMarks&& other) noexcept
      : reader_{std::exchange(other.reader_, nullptr)},
        object_{other.object_},
        marks_{std::exchange(other.marks_, nullptr)} {}
  EventMarks& operator=(EventMarks&& other) noexcept {
    std::swap(reader_, other.reader_);
    std::swap(object_, other.object_);
    std::swap(marks_, other.marks_);
    return *this;
  }
  ~EventMarks() { end(); }
  void end() noexcept;

  [[nodiscard]] bool have(ibv_event_type type) const noexcept {
    return marks_ != nullptr && (marks_->load(std::memory_order_relaxed) >> type & 1) != 0;
  }

 private:
  EventReader* reader_ = nullptr;
  void const* object_ = nullptr;
  EventReader::Marks const* marks_ = nullptr;
};

/// The events that one WaitSet or DeviceEvents has not taken yet.
class EventQueue {
 public:
  enum class Wanted : std::uint8_t {
    all,
    of_device,  ///< and of its ports
  };
  /// Becomes readable at `wake`, an eventfd that outlives it. May throw std::bad_alloc.
  EventQueue(Context const& context, Wanted wanted, int wake);
  EventQueue(EventQueue const&) = delete;
  EventQueue& operator=(EventQueue const&) = delete;
  ~EventQueue();

  [[nodiscard]] EventReader& reader() const noexcept { return reader_; }
  /// Takes one.
  [[nodiscard]] std::optional<DeviceEvent> next() noexcept;

  /// Whether there are events, or take_marked() was not called since one was marked.
  [[nodiscard]] bool has_news() const noexcept {
    // Acquire pairs with the release in tell().
    return news_.load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] bool has_events() const noexcept {
    return (news_.load(std::memory_order_acquire) & some_events) != 0;
  }
  /// Whether an object was marked since the last call.
  [[nodiscard]] bool take_marked() noexcept {
    return (news_.fetch_and(~some_marks, std::memory_order_acquire) & some_marks) != 0;
  }

 private:
  friend class EventReader;
  static constexpr std::uint32_t some_events = 1, some_marks = 2;
  static constexpr std::size_t events_max = 1024;

  // The caller holds EventReader::mutex_.
  void add(DeviceEvent const& event) noexcept;
  void tell(std::uint32_t news) noexcept;

  std::shared_ptr<ContextHandle> context_;
  EventReader& reader_;
  Wanted const wanted_;
  int const wake_;
  std::atomic<std::uint32_t> news_{0};
  std::deque<DeviceEvent> events_{};  // under EventReader::mutex_, as the next
  bool has_missed_ = false;
};

/// Of the device of `queue`.
[[nodiscard]] EventReader& events_of(CompletionQueue const& queue) noexcept;
/// The failure of a queue pair, or of what it depends on, that was read so far.
[[nodiscard]] std::optional<DeviceEvent> failure_of(QueuePairHandle const& queue_pair) noexcept;
/// Whether IBV_EVENT_QP_LAST_WQE_REACHED was read.
[[nodiscard]] bool has_taken_last_receive(QueuePairHandle const& queue_pair) noexcept;
/// Why a channel breaks by such a failure, and what to do.
[[nodiscard]] Error event_error(DeviceEvent const& failure, bool is_connection) noexcept;

}  // namespace lend::verbs
