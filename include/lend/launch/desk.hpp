// SPDX-License-Identifier: MIT OR Apache-2.0
// Where the ranks of a group meet. One thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lend {

namespace launch {
class DeskState;
}  // namespace launch

struct DeskOptions {
  std::string group{};   ///< as Seat::group
  std::string secret{};  ///< as Seat::secret
};

/// Gives each rank of a group the endpoints of the others, over one socket a rank.
///
/// Group::join() has one inside where rank 0 serves it, and `lend-run` has one. A launcher of your
/// own has one too. It needs no device.
///
/// A rank sits at the desk and hands in its endpoints. When all sit, each gets those that are for
/// it, connects, and says that it is ready; when all are, all may go. A rank that hangs up before
/// gives its seat to one that was started again. If the endpoints had been handed out, the others
/// prepare again with it. Once one has been let go, nothing is taken back.
///
/// A client that is no rank of this group is rejected with the reason (another size, group, secret,
/// or a rank that sits already) and delays no other. At most 1,024 clients are held before they
/// sit, for 2 s each.
class LEND_EXPORT Desk {
 public:
  /// Listens at all addresses of a host's name, and on every interface if these are those of the
  /// loopback device and the host is neither a number nor localhost: take a secret.
  /// Errors:  as Listener::open(), and invalid_argument  a name of more than 64 bytes.
  [[nodiscard]] static Result<Desk> open(std::string_view address, DeskOptions options = {});
  Desk(Desk&&) noexcept;
  Desk& operator=(Desk&&) noexcept;
  /// Ends a meeting that is under way: the ranks that sit learn which are missing.
  ~Desk();

  /// Its address, with the chosen port.
  [[nodiscard]] std::string const& address() const noexcept;

  /// Serves one meeting, until all ranks may go. May be called again for another meeting.
  /// Shape:   1 to 65,536 ranks, one descriptor each.
  /// Errors:  timed_out, cancelled  names the missing ranks, as do the errors of those that sit.
  ///          invalid_argument      no such size.
  ///          exhausted, system_failed  no descriptor for a rank, or a failing socket.
  [[nodiscard]] Result<void> serve(std::uint32_t size, Deadline deadline);

  /// The same in an event loop: begin, then poll() whenever descriptor() is readable.
  /// Errors:  invalid_argument  no such size, or a meeting is under way.
  [[nodiscard]] Result<void> begin(std::uint32_t size, Deadline deadline);
  /// Readable when poll() has something to do, also because time is over.
  [[nodiscard]] int descriptor() const noexcept;
  /// As far as it goes without waiting. True: all may go, and the meeting is over.
  /// Errors:  those of serve(); the meeting is over.
  [[nodiscard]] Result<bool> poll();

 private:
  explicit Desk(std::unique_ptr<launch::DeskState> state) noexcept;
  [[nodiscard]] launch::DeskState& state() const noexcept;  // stops where it was moved from
  std::unique_ptr<launch::DeskState> state_;
};

}  // namespace lend
