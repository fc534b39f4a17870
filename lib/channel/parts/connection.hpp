// SPDX-License-Identifier: MIT OR Apache-2.0
// The queue pair of one channel, from its preparation until it had to be destroyed, and what errors
// say of it. The thread of the channel.
#pragma once

#include <base/error_access.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>
#include <lend/verbs/connection_options.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/queue_pair.hpp>
#include <verbs/device/handles.hpp>
#include <verbs/queue/adoption.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lend::channel {

/// A queue pair of any service: its handle knows which, its type here says nothing.
///
/// Prepared, perhaps handed out to be connected elsewhere, connected, gone: in this order.
class Connection {
 public:
  Connection(PreparedQueuePair prepared, std::string const& peer_name) noexcept;

  /// Connects it to `peer`. After an error it is gone.
  /// Errors:  those of PreparedQueuePair::connect().
  [[nodiscard]] Result<void> connect(Endpoint const& peer);
  /// Lets one for datagrams send. After an error it is gone.
  /// Errors:  those of PreparedDatagramQueuePair::activate().
  [[nodiscard]] Result<void> activate();
  /// To be connected elsewhere, and given to adopt(). Asked again, one that was moved from.
  [[nodiscard]] PreparedQueuePair hand_out() noexcept;
  /// Whether `queue_pair`, which was not moved from, is the one that was handed out.
  [[nodiscard]] bool is_own(QueuePair const& queue_pair) const noexcept;
  void adopt(QueuePair own) noexcept;
  [[nodiscard]] bool is_prepared() const noexcept { return phase_ == Phase::prepared; }
  [[nodiscard]] bool is_connected() const noexcept { return phase_ == Phase::connected; }

  /// Of every post: while it is here, prepared or connected.
  [[nodiscard]] verbs::QueuePairHandle const& raw() const noexcept { return *raw_; }
  /// Empty once it is gone.
  [[nodiscard]] std::vector<Setting> settings() const;
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] verbs::ServiceChoice service() const noexcept {
    return {own_.service, own_.queue_key};
  }
  [[nodiscard]] bool is_for_datagrams() const noexcept { return own_.service == Service::datagram; }
  [[nodiscard]] Endpoint const& own() const noexcept { return own_; }
  [[nodiscard]] Endpoint const& peer() const noexcept { return peer_; }
  /// What the program calls it; empty: nothing.
  [[nodiscard]] std::string const& peer_name() const noexcept { return peer_name_; }

  /// Whether the queue pair was destroyed, mostly to end its work. Only then is work settled whose
  /// completion was not seen.
  [[nodiscard]] bool is_gone() const noexcept { return phase_ == Phase::gone; }
  /// Why the device keeps the queue pair and its posted work for good; otherwise null.
  [[nodiscard]] Error const* kept() const noexcept { return kept_ ? &*kept_ : nullptr; }
  /// Whether work that is aborted completes: elsewhere it is over with the queue pair.
  [[nodiscard]] bool can_bring_back() const noexcept {
    return phase_ == Phase::connected || (phase_ == Phase::handed_out && !handed_out_.expired());
  }
  /// Moves it to the error state. False if the device refuses.
  [[nodiscard]] bool abort_all() noexcept;
  /// Destroys it: the device no longer accesses posted bytes, unless it is kept().
  void destroy() noexcept;
  /// Posts a probe to the peer's device: see QueuePair::unsafe_post_probe().
  [[nodiscard]] QueuePair::Probe unsafe_post_probe(std::uint64_t id) noexcept;

  /// Queries the device, which costs a system call except on the soft device.
  [[nodiscard]] QueuePairState state() const noexcept;
  [[nodiscard]] bool port_is_down() const noexcept;
  /// Reads the device's events.
  void read_events() const noexcept;
  /// Whether the device says that it takes no more receives of its shared queue, and that those it
  /// took have completed. Reads the device's events.
  [[nodiscard]] bool has_taken_last_receive() const noexcept;
  /// Why the device says that it failed, as far as its events were read.
  [[nodiscard]] std::optional<Error> reported() const noexcept;
  /// Why the connection has ended, if a connection manager reports it before `deadline`.
  [[nodiscard]] std::optional<Error> lost(Deadline deadline) noexcept;

  /// This connection's part of an error with `code`.
  [[nodiscard]] WorkFailure subject(Errc code = {}) const noexcept;
  /// `error`, described for this connection.
  [[nodiscard]] Error about(Error const& error) const noexcept {
    return base::ErrorAccess::about(error, subject(error.code()));
  }

 private:
  [[nodiscard]] Result<void> take(Result<QueuePair> connected);
  /// Its handle is gone: keeps the posted work unless the device no longer has the queue pair.
  void keep_unless_destroyed() noexcept;

  enum class Phase : std::uint8_t { prepared, handed_out, connected, gone };

  Phase phase_ = Phase::prepared;
  std::uint32_t const number_;
  verbs::QueuePairHandle const* raw_;
  Endpoint own_;
  Endpoint peer_{};
  std::string const& peer_name_;  // of the channel's options
  PreparedQueuePair prepared_;
  std::weak_ptr<verbs::QueuePairHandle> handed_out_;  // the same, after take_queue_pair()
  std::shared_ptr<verbs::DestroyedFlag const> is_destroyed_;
  std::optional<QueuePair> queue_pair_{};
  std::optional<Error> kept_{};
};

}  // namespace lend::channel
