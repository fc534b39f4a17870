// SPDX-License-Identifier: MIT OR Apache-2.0
// A channel for datagrams, to and from any number of others. One thread at a time; may move between
// threads.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/datagram_scope.hpp>
#include <lend/verbs/datagram.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace lend {

/// Sends datagrams of one packet to any other DatagramChannel, and receives them from any. Whether
/// a datagram arrives, nothing says; two may change places.
///
/// Made by `datagram_channel_builder()…build()`, and in use at once: there is no peer to connect
/// to. Others send to its address(). The channel outlives its peers: one that dies takes nothing
/// along but the datagrams that were under way.
///
///     LEND_TRY(channel, datagram_channel_builder(domain).build());
///     std::puts(channel.address().to_text().c_str());          // to others, by any means
///     LEND_TRY(room, DatagramRoom::in(memory.scatter(0, 4136)));
///     LEND_TRY(question, channel.receive(room, within(2s)));
///     LEND_TRY(back, channel.destination(question));
///     LEND_TRYV(channel.send(memory.gather(8192, 5), back));
class DatagramChannel : private Channel {
 public:
  /// Posts one datagram and waits until it left.
  /// Borrows: the source shared, until it returns.
  /// Errors:  those of DatagramScope::post_send(). A deadline bounds the wait for room; a send that
  ///          does not leave within 30 s after it breaks the channel.
  [[nodiscard]] Result<void> send(Send const& work, Destination const& to,
                                  Deadline deadline = Deadline::never(),
                                  SourceLine where = SourceLine::here()) noexcept {
    if (deadline.is_never()) return run_only(AddressedSend{work, to}, deadline, where);
    return send_in_scope(work, to, deadline, where);
  }
  // Without a destination it does not compile, and the compiler says why.
  template <IsService S = Ud>
  Result<void> send(Send const& work, Deadline deadline = Deadline::never()) requires IsConnected<S>
  = delete;
  /// Posts a room and waits until a datagram has it. If none comes in time the room is recalled, as
  /// DatagramScope says; the channel works on.
  /// Borrows: the room exclusively, until it returns.
  /// Errors:  those of DatagramScope::post_receive() and recall(), and
  ///          timed_out, cancelled  no datagram came; the room is the program's again. The recall
  ///                                waits up to 30 s for sends of other scopes.
  [[nodiscard]] LEND_EXPORT Result<ReceivedDatagram> receive(
      DatagramRoom const& room, Deadline deadline = Deadline::never(),
      SourceLine where = SourceLine::here()) noexcept;

  /// As Channel::scope().
  template <class Body>
  requires IsResult<std::invoke_result_t<Body, DatagramScope&>>
  [[nodiscard]] auto scope(Body&& body) -> std::invoke_result_t<Body, DatagramScope&> {
    return run_scope<DatagramScope>(std::forward<Body>(body), false);
  }

  /// Where others send to: give them its to_text(), and Endpoint::from_text() reads it.
  [[nodiscard]] Endpoint const& address() const noexcept { return endpoint(); }
  /// Where the DatagramChannel or DatagramQueuePair is whose address is `there`.
  /// Errors:  those of DatagramQueuePair::destination().
  /// Source:  ibv_create_ah(3).
  [[nodiscard]] LEND_EXPORT Result<Destination> destination(Endpoint const& there) const;
  /// Back to the sender of `datagram`, to answer it. `queue_key`: the sender's; by default this
  /// channel's own. Costs a call of the device: keep it to answer the same sender again.
  /// Errors:  those of DatagramQueuePair::destination(), and
  ///          channel_broken  the queue pair is gone.
  /// Source:  ibv_create_ah_from_wc(3).
  [[nodiscard]] LEND_EXPORT Result<Destination> destination(
      ReceivedDatagram const& datagram, std::optional<std::uint32_t> queue_key = {}) const;

  using Channel::arm;
  using Channel::descriptor;
  using Channel::look_again;
  using Channel::poll;

  using Channel::describe;
  using Channel::first_cause;
  using Channel::inline_bytes;
  using Channel::last_failures;
  using Channel::message_bytes_max;
  using Channel::metrics;
  using Channel::native;
  using Channel::protection_domain;
  using Channel::receive_depth;
  using Channel::send_depth;

 private:
  friend class DatagramScope;
  friend class SetScope;
  friend Result<DatagramChannel> open_channel(ProtectionDomain const&,
                                              DatagramChannelOptions const&);
  explicit DatagramChannel(Channel channel) noexcept : Channel{std::move(channel)} {}
  [[nodiscard]] LEND_EXPORT Result<void> send_in_scope(Send const& work, Destination const& to,
                                                       Deadline deadline,
                                                       SourceLine where) noexcept;
};

inline DatagramScope::DatagramScope(DatagramChannel& channel) noexcept : PollingScope{channel} {}

/// Makes a channel for datagrams with options in a struct; its builder calls this.
/// Errors:  those of prepare_channel() and PreparedDatagramQueuePair::activate(), and
///          unsupported  an iWARP device, which has no datagrams.
[[nodiscard]] LEND_EXPORT Result<DatagramChannel> open_channel(
    ProtectionDomain const& domain, DatagramChannelOptions const& options);

/// Starts a builder of a channel for datagrams: the steps of channel_builder() without those of a
/// connection, and queue_key().
[[nodiscard]] inline ChannelBuilder<0, Ud> datagram_channel_builder() {
  return {};
}
[[nodiscard]] inline auto datagram_channel_builder(ProtectionDomain const& domain) {
  return datagram_channel_builder().protection_domain(domain);
}

}  // namespace lend
