// SPDX-License-Identifier: MIT OR Apache-2.0
// A second process for a test, forked before any device is open, with a socket to the first.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <lend/lend.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "support/catch.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

/// A stream socket to the other process.
class Wire {
 public:
  Wire(int fd, bool is_peers) noexcept : fd_{fd}, is_peers_{is_peers} {}
  Wire(Wire&& other) noexcept : fd_{std::exchange(other.fd_, -1)}, is_peers_{other.is_peers_} {}
  Wire& operator=(Wire&&) = delete;
  ~Wire() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// False once the other side is gone.
  bool put(std::span<std::byte const> bytes) const {
    while (!bytes.empty()) {
      auto const n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }
  bool take(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      auto const n = ::recv(fd_, bytes.data(), bytes.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// Whether this is the end of the process that was forked.
  [[nodiscard]] bool is_peers() const noexcept { return is_peers_; }
  /// One short line of text.
  bool put_text(std::string const& text) const {
    std::array<char, 64> line{};
    text.copy(line.data(), line.size() - 1);
    return put(std::as_bytes(std::span{line}));
  }
  [[nodiscard]] std::string take_text() const {
    std::array<char, 64> line{};
    return take(std::as_writable_bytes(std::span{line})) ? std::string{line.data()} : std::string{};
  }
  /// Says one byte, or waits for one: a meeting point.
  bool say() const {
    std::array<std::byte, 1> const one{};
    return put(one);
  }
  bool hear() const {
    std::array<std::byte, 1> one{};
    return take(one);
  }

 private:
  int fd_;
  bool is_peers_;
};

/// One value, as it lies in memory: both sides are one program.
template <class T>
requires std::is_trivially_copyable_v<T>
bool tell(Wire const& wire, T const& told) {
  return wire.put(std::as_bytes(std::span{&told, 1}));
}
template <class T>
requires std::is_trivially_copyable_v<T>
bool hear(Wire const& wire, T& told) {
  return wire.take(std::as_writable_bytes(std::span{&told, 1}));
}

/// Runs `body(Wire const&)` in a child; its int is the child's exit status. Killed with its owner.
class PeerProcess {
 public:
  template <class Body>
  explicit PeerProcess(Body body) : PeerProcess{std::move(body), socket_pair()} {}
  PeerProcess(PeerProcess const&) = delete;
  PeerProcess& operator=(PeerProcess const&) = delete;
  ~PeerProcess() {
    if (pid_ > 0) {
      kill();
      static_cast<void>(exit_status());
    }
  }

  [[nodiscard]] Wire const& wire() const noexcept { return wire_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void kill() const noexcept { ::kill(pid_, SIGKILL); }
  /// Waits; 128 + n if signal n ended it.
  int exit_status() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  using Ends = std::array<int, 2>;
  static Ends socket_pair() {
    Ends ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    return ends;
  }
  template <class Body>
  PeerProcess(Body body, Ends ends) : wire_{ends[0], false}, pid_{::fork()} {
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(ends[0]);
      ::_exit(run(std::move(body), ends[1]));
    }
    ::close(ends[1]);
  }
  template <class Body>
  static int run(Body body, int fd) noexcept {
    try {
      Wire const wire{fd, true};
      return body(wire);
    } catch (...) {  // a failed check in the child; Catch has printed what it was
      std::fflush(nullptr);
      return 99;
    }
  }

  Wire wire_;
  pid_t pid_;
};

/// The forked process accepts and the first one connects, so that is who may send first on iWARP.
/// The forked one listens once the first one is about to connect: how long it waits has a bound.
inline Channel meet_by_cm(Wire const& wire, PreparedChannel prepared) {
  REQUIRE((wire.is_peers() ? wire.hear() : wire.say()));
  auto const tell = [&](std::string const& address) { REQUIRE(wire.put_text(address)); };
  auto connected = wire.is_peers() ? accept_by_cm(prepared.take_queue_pair(), tell)
                                   : connect_by_cm(wire.take_text(), prepared.take_queue_pair());
  return must(std::move(prepared).adopt(std::move(connected)));
}

/// By endpoints that go over the wire.
inline Channel meet_by_endpoints(Wire const& wire, PreparedChannel prepared) {
  auto const mine = prepared.endpoint().encode();
  std::array<std::byte, Endpoint::encoded_size> theirs{};
  REQUIRE(wire.put(mine));
  REQUIRE(wire.take(theirs));
  return must(std::move(prepared).handshake(must(Endpoint::decode(theirs))));
}

/// One process's end of a channel with all that it stands on.
struct OneEnd {
  Context context;
  ProtectionDomain domain;
  Channel channel;
};

/// Both processes call this; each gets its end of one channel.
inline Channel connected_over(Wire const& wire, Context const& context, PreparedChannel prepared) {
  Channel channel = context.capabilities().endpoints ? meet_by_endpoints(wire, std::move(prepared))
                                                     : meet_by_cm(wire, std::move(prepared));
  REQUIRE(wire.say());
  REQUIRE(wire.hear());
  return channel;
}

inline OneEnd one_end(Wire const& wire, ChannelOptions const& options = {}) {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  PreparedChannel prepared = must(prepare_channel(domain, options));
  Channel channel = connected_over(wire, context, std::move(prepared));
  return {context, domain, std::move(channel)};
}

}  // namespace lend::test
