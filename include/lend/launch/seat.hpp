// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of the processes that meet this one is. A value; any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <cstdint>
#include <string>

namespace lend {

/// A process's place among the ranks of a group, and where they meet.
struct LEND_EXPORT Seat {
  std::uint32_t rank = 0, size = 1;
  /// Where the ranks meet, the same at all of them: "host:port", "unix:PATH" or "unix:@NAME", as
  /// Listener::open() takes it. Rank 0 listens at all addresses of the host, and on every interface
  /// if those are of the loopback device and the host is neither a number nor localhost; it may
  /// have "[::]:port" instead. Or "pmi:fd=N": by PMI-1 at that descriptor rank 0 tells the others
  /// within join(), once in a process; or "pmix:", by PMIx likewise. A single rank needs none.
  std::string desk{};
  /// The name of the group, the same at all ranks: 64 bytes at most. It keeps apart those of two
  /// jobs that take the same address.
  std::string group{};
  /// As ExchangeOptions::secret. Needed where the desk has a port: who reaches that can sit.
  std::string secret{};
  /// Another process has a Desk at that address. Otherwise rank 0 serves one while it joins, and
  /// the address is one of its host.
  bool desk_is_served = false;

  /// What the launcher left in the environment; the guide's page on groups lists the variables.
  /// Errors:  not_found         no launcher left anything; the message says what was looked for.
  ///          invalid_argument  what is there is incomplete or no number; or of several launchers,
  ///                            and no ancestor of this process shows which is the innermost.
  ///          unsupported       a launcher to be asked by PMI or PMIx, and a program that has MPI,
  ///                            which asks it, too: use `group/mpi.hpp`, or set LEND_DESK. An MPI
  ///                            that is linked statically is not seen. Or a launcher that leaves
  ///                            the number of ranks to PMIx, and no libpmix.so.2.
  ///          peer_lost, system_failed, incompatible_peer  such a launcher's PMIx fails.
  ///          denied            a launcher left something, and this program has privileges that its
  ///                            user lacks (AT_SECURE: set-user-ID, file capabilities): no
  ///                            environment counts for it.
  ///          denied, system_failed  the file of the secret: others may read it, or this process
  ///                            may not.
  /// Threads: as getenv(3).
  [[nodiscard]] static Result<Seat> from_environment();
};

}  // namespace lend
