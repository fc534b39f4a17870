// SPDX-License-Identifier: MIT OR Apache-2.0
// rdma_cm's ids and events as values. One thread at a time per channel.
//
// An event is copied and acknowledged at once. So destroying an id, which waits for its
// unacknowledged events, never waits, and no event outlives its id.
// Source: rdma_ack_cm_event(3), rdma_destroy_id(3).
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <verbs/device/forking.hpp>

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace lend::cm {

/// One end of a connection, or a listener. Destroying it ends either, except in a forked child,
/// whose parent's it is.
struct CmIdDeleter {
  verbs::Inheritance origin{};
  void operator()(rdma_cm_id* id) const noexcept {
    if (!origin.is_inherited()) rdma_destroy_id(id);
  }
};
using CmId = std::unique_ptr<rdma_cm_id, CmIdDeleter>;

/// One event.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;  // a negative errno, or a rejection's code
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::vector<std::byte> private_data{};
  CmId request{};  // of a connect request: the new id
};

/// Receives the events of some ids.
class EventChannel {
 public:
  /// Errors:  unsupported  no rdma_cm here. denied, exhausted.
  [[nodiscard]] static Result<EventChannel> open();

  /// An event that has come, or nothing.
  /// Errors:  system_failed  from rdma_get_cm_event(3); in a forked child, whose parent the events
  ///                         are for.
  [[nodiscard]] Result<std::optional<CmEvent>> take();
  /// The next event; nothing once `deadline` has passed.
  /// Errors:  those of take(), and system_failed from poll(2).
  [[nodiscard]] Result<std::optional<CmEvent>> next(Deadline deadline);

  [[nodiscard]] rdma_event_channel* native() const noexcept { return raw_.get(); }

 private:
  struct Deleter {
    void operator()(rdma_event_channel* raw) const noexcept { rdma_destroy_event_channel(raw); }
  };
  explicit EventChannel(rdma_event_channel* raw) noexcept : raw_{raw} {}

  std::unique_ptr<rdma_event_channel, Deleter> raw_;  // in a forked child, a descriptor is closed
  verbs::Inheritance origin_{};
};

/// An id with an event channel of its own.
struct CmLink {
  EventChannel events;
  CmId id;  // destroyed before its channel; so no assignment, which would end them in order

  CmLink(EventChannel own_events, CmId own_id) noexcept
      : events{std::move(own_events)}, id{std::move(own_id)} {}
  CmLink(CmLink&&) noexcept = default;
  CmLink& operator=(CmLink&&) = delete;

  /// In a forked child: its id is the parent's.
  [[nodiscard]] bool is_inherited() const noexcept {
    return id.get_deleter().origin.is_inherited();
  }
  /// The error of a call in that child.
  [[nodiscard]] static Error inherited(std::string_view call) noexcept;

  /// A new id, not bound to anything.
  [[nodiscard]] static Result<CmLink> make();
  /// The same in place of the id that it had, which ends.
  [[nodiscard]] Result<void> renew();
  /// Takes over an id from another channel.
  [[nodiscard]] static Result<CmLink> of(CmId id);
};

/// The error for an unexpected event.
[[nodiscard]] Error error_of(CmEvent const& event, std::string_view step);
/// Whether a rejection means that no listener was there.
[[nodiscard]] bool says_nobody_listens(CmEvent const& event) noexcept;

}  // namespace lend::cm
