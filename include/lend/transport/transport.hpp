// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages with flow control: what every transport can do, and what it is asked for. Values.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/builder.hpp>
#include <lend/transport/draft.hpp>
#include <lend/transport/received.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lend {

class MessagePool;
class WaitSet;

/// The numbers go over the wire.
enum class TransportKind : std::uint8_t {
  automatic = 0,     ///< credit_ring where the device has immediates, else send_receive
  send_receive = 1,  ///< each message takes a receive, with a buffer: works on every device
  credit_ring = 2,   ///< written into a ring of the receiver's: not on iWARP
  read_ring = 3,     ///< read from a ring of the sender's: works on every device
  memory = 4,        ///< within one process, without a device: for tests
};

/// Sizes that this end chooses as the receiver; the peer chooses those of the other direction. 0:
/// the default of the kind.
/// Borrows: `wait_set` and `pool`, until the transport is prepared.
struct TransportOptions {
  TransportKind kind = TransportKind::automatic;
  /// Messages that the peer may have under way: 4 to 512, a multiple of 4. Default 32; of a ring
  /// 64, in a pool 16.
  std::uint32_t window = 0;
  /// Of one message: 1 to 1,048,575. Default 16 KiB; of a ring 32 KiB, or a quarter of it if that
  /// is less. Without a ring this end's memory is (window + 12) · message_bytes_max to receive; to
  /// send at most as much again, or four messages of the size that the peer asks for.
  std::uint32_t message_bytes_max = 0;
  /// Of the ring, where the kind has one: a multiple of 256, at least four messages, each rounded
  /// up to 64 bytes, in a ReadRing with 8 bytes more. Default 256 KiB, or four messages if those
  /// are more. It is this end's memory to receive; to send at most as much again, or four messages
  /// of the peer's size. Both directions of a ReadRing have the smaller ring.
  std::uint32_t ring_bytes = 0;
  /// Of one message that the peer lends, which the program reads by try_fetch(): a multiple of
  /// 4 KiB, less than 16 TiB. 0: the peer may lend none. Of a CreditRing or SendReceive whose
  /// message_bytes_max is 40 or more.
  std::uint64_t lent_bytes_max = 0;
  /// How soon an end that only waits learns that its peer has died; 0: never. None:
  /// LEND_KEEP_ALIVE; 1 s.
  std::optional<std::chrono::nanoseconds> keep_alive{};
  Wait wait = Wait::adaptive;
  /// Which the transport joins, with `wait` of the set; one thread, the set's, uses all of them,
  /// and Boost.Asio none. The set lists it by `tag`, as a channel: then poll() it, take and send
  /// until nothing is there. Its arm() and descriptor() refuse: ask the set, and on iWARP also its
  /// look_again(). Calls that wait for it alone nap for 50 us at a time and do not sleep.
  WaitSet* wait_set = nullptr;
  std::uint64_t tag = 0;  ///< what the set calls the transport
  /// Whose receives and send buffers a SendReceive of `wait_set` uses. Then the window is 16 by
  /// default, message_bytes_max is by default and at most the pool's, in both directions, and no
  /// message is lent. Preparing is refused where the pool has its transports_max (`exhausted`).
  MessagePool* pool = nullptr;
  ConnectionOptions connection{};
};

struct TransportLimits {
  TransportKind kind{};
  std::uint32_t send_bytes_max = 0;          ///< of one message to the peer: as it said
  std::uint32_t receive_bytes_max = 0;       ///< of one message from it
  std::uint64_t send_lent_bytes_max = 0;     ///< of one that is lent to the peer; 0: none
  std::uint64_t receive_lent_bytes_max = 0;  ///< of one that the peer lends
  std::uint32_t window = 0;                  ///< messages that the peer may have under way
  /// Messages that this end may hold at a time as Received, and their bytes: with more the peer may
  /// have to wait. In a ring each is rounded up as in TransportOptions, and all count that came
  /// since the oldest that is held. In a pool 1.
  std::uint32_t hold_max = 0;
  std::uint64_t hold_bytes_max = 0;
  Wait wait = Wait::adaptive;  ///< how waits for it wait
};

/// Terms that two ends exchange before they connect, beside their endpoints. Opaque: carry them by
/// any means, as Endpoint::encode().
inline constexpr std::size_t transport_terms_bytes = 32;
using TransportTerms = std::array<std::byte, transport_terms_bytes>;

/// A transport: messages of limited size, in order, each whole, with flow control. No call waits:
/// `waiting.hpp` has the forms that do. A program may define its own transports.
///
///   try_draft(least, most)  room for one message of `least` to `most` bytes; empty: no room now
///   try_send_some()         may be missing: as TransportBase's, else by a draft. One that derives
///                           from lend's and hides try_draft() hides this too, or it is bypassed
///   try_receive()           the next message; what came before a loss comes before its error
///   finish_sending()        the peer's try_receive() returns the end after all that was sent
///   disconnect()            abrupt, and what is under way may be lost; again: nothing happens
///   poll()                  whether anything has changed since the last poll(); never waits
///   arm()                   as Channel::arm(): true = nothing has changed, sleep on descriptor()
///   descriptor()            for poll(2); look_again(): when to poll() though it is silent
///   sends_in_flight()       messages and the finish that the peer's device has not acknowledged,
///                           as of poll(); also a finish that could not be sent
template <class T>
concept IsTransport = requires(T& t, T const& c, std::size_t n) {
  { t.try_draft(n, n) }
  noexcept->std::same_as<Result<Draft>>;
  { t.try_receive() }
  noexcept->std::same_as<Result<Received>>;
  { t.finish_sending() }
  noexcept->std::same_as<Result<void>>;
  { t.disconnect() }
  noexcept->std::same_as<void>;
  { t.poll() }
  noexcept->std::same_as<Result<bool>>;
  { t.arm() }
  noexcept->std::same_as<Result<bool>>;
  { c.descriptor() }
  noexcept->std::same_as<Result<int>>;
  { c.look_again() }
  noexcept->std::same_as<Deadline>;
  { c.sends_in_flight() }
  noexcept->std::same_as<std::uint32_t>;
  { c.limits() }
  noexcept->std::same_as<TransportLimits const&>;
}
// Last: whether a Result of an AnyTransport can be moved is not known while it is asked.
&&std::movable<T>;

}  // namespace lend
