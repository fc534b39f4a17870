// SPDX-License-Identifier: MIT OR Apache-2.0
// Examines what two processes can exchange, and says what keeps them from it. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/doctor/examine.hpp>
#include <lend/doctor/pair_connector.hpp>
#include <lend/network/connect.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lend {

/// Examines this process, and the way to the one that serves at `address`: by TCP both sides tell
/// their findings and ports; then each pair of ports that fits sends, writes and reads bytes, both
/// ways, and compares them. Where that fails it tries smaller packets, other addresses, and each
/// device alone. The last finding, `pair.use`, says which pairs of ports work. What the peer worded
/// has a subject that begins "at the peer", and is ASCII.
///
/// The other side must listen within 10 s. A pair that works takes a fraction of a second, one that
/// does not some 10 s. LEND_DEVICE limits this side to one device.
///
/// Ports of iWARP are tried if both sides have a connector for them: `by_cm`.
/// Errors:  those of connect(), but for handshake()'s; those of list_devices(); and
///          peer_lost          the peer went away, or said or took nothing for 30 s, before it had
///                             told its ports. Later that is the finding `pair.lost`.
///          incompatible_peer  it speaks otherwise.
[[nodiscard]] LEND_EXPORT Result<std::vector<Finding>> examine_with(
    std::string_view address, Deadline deadline, ExchangeOptions const& options = {},
    PairConnector const* by_cm = nullptr);

/// The other side of examine_with(): a TCP port at which peers are served, one at a time.
class LEND_EXPORT ExaminationListener {
 public:
  /// Borrows: `by_cm`, while the listener exists.
  /// Errors:  those of Listener::open().
  [[nodiscard]] static Result<ExaminationListener> open(std::string_view address,
                                                        ExchangeOptions const& options = {},
                                                        PairConnector const* by_cm = nullptr);
  ExaminationListener(ExaminationListener&&) noexcept;
  ExaminationListener& operator=(ExaminationListener&&) noexcept;
  ~ExaminationListener();

  /// Its address, with the chosen port.
  [[nodiscard]] std::string const& address() const noexcept;

  /// Examines this process, waits for one peer and does what it asks for, for 10 minutes at most.
  /// Then: this process's findings, what is bad "at the peer", and what the peer found of both,
  /// "seen from the peer". Clients that are no peers are rejected, as by Listener::accept().
  /// Errors:  timed_out, cancelled  no peer came, or it was not done by the deadline.
  ///          peer_lost, incompatible_peer  as examine_with(), and a peer that was not done after
  ///                             10 minutes: another peer may be served.
  ///          exhausted, system_failed  no descriptor for a peer, or a failing socket.
  ///          stale_handle       the listener was moved from.
  [[nodiscard]] Result<std::vector<Finding>> serve(Deadline deadline);

 private:
  struct State;
  explicit ExaminationListener(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace lend
