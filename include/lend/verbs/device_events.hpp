// SPDX-License-Identifier: MIT OR Apache-2.0
// What a device reports beside completions. One thread at a time per DeviceEvents; several of them,
// also of one Context, on any threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/context.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace lend {

/// An asynchronous event of a device.
/// Source:  ibv_get_async_event(3).
struct DeviceEvent {
  enum class Kind : std::uint8_t {
    queue_pair_failed,        ///< and no completion says so
    request_refused,          ///< a queue pair failed: its peer asked for what it does not serve
    access_refused,           ///< a queue pair failed: its peer named memory that it may not reach
    completion_queue_failed,  ///< mostly because it overran
    receive_queue_failed,     ///< a shared one
    receives_low,             ///< as ReceiveQueue::request_limit_event() asked
    last_receive,             ///< a failed queue pair will take no further shared receive
    established,              ///< a queue pair got its first message before it was in RTS
    sends_drained,            ///< a queue pair in SQD has ended what it had begun
    port_active,
    port_down,
    addresses_changed,  ///< of a port: its GIDs, LID, partition keys or subnet manager
    device_failed,      ///< or was removed
    other,              ///< `code` says which
    missed,             ///< more came than are kept: some are missing before it
  };
  Kind kind{};
  std::uint8_t port = 0;         ///< of port_…, addresses_changed
  std::uint32_t code = 0;        ///< the ibv_event_type
  std::uint32_t queue_pair = 0;  ///< the number of the queue pair, if it concerns one
  /// The ibv_qp, ibv_cq or ibv_srq, to compare with a native(): it may have been destroyed.
  void const* object = nullptr;

  friend bool operator==(DeviceEvent const&, DeviceEvent const&) = default;
};

[[nodiscard]] LEND_EXPORT std::string_view name_of(DeviceEvent::Kind) noexcept;

/// Reports all asynchronous events of a device, from its creation on, for programs without a
/// WaitSet.
///
/// lend reads the events of a Context itself, because a channel breaks by some of them: an event
/// that a program takes by ibv_get_async_event is lost to its channels, and the reverse. Each
/// DeviceEvents of a Context reports every event, also those that another one or a channel read.
/// Two equal events that were not taken yet are merged, at the place of the later one; 1,024 are
/// kept.
///
///     LEND_TRY(events, DeviceEvents::of(context));
///     LEND_TRY(event, events.wait(within(1s)));
///     if (event.kind == DeviceEvent::Kind::port_down) …
class LEND_EXPORT DeviceEvents {
 public:
  /// Errors:  exhausted    no memory, or no descriptor.
  ///          unsupported  the device has no events that can be read without blocking.
  /// Source:  epoll_create1(2), eventfd(2).
  [[nodiscard]] static Result<DeviceEvents> of(Context const& context);
  DeviceEvents(DeviceEvents&&) noexcept;
  DeviceEvents& operator=(DeviceEvents&&) noexcept;
  ~DeviceEvents();

  /// The next event, or nothing if none is there.
  /// Errors:  system_failed  in a forked child: the device is the parent's.
  [[nodiscard]] Result<std::optional<DeviceEvent>> poll() noexcept;
  /// Waits for the next event.
  /// Errors:  as poll(), and
  ///          timed_out, cancelled  none came.
  [[nodiscard]] Result<DeviceEvent> wait(Deadline deadline = Deadline::never()) noexcept;

  /// For poll(2) or epoll(7): readable if an event may have come since poll() returned nothing.
  /// Never read or close it.
  [[nodiscard]] int descriptor() const noexcept;

 private:
  struct State;
  explicit DeviceEvents(std::unique_ptr<State> state) noexcept;
  [[nodiscard]] State& state() const noexcept;  // stops if moved from
  std::unique_ptr<State> state_;
};

}  // namespace lend
