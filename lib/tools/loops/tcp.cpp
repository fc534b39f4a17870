// SPDX-License-Identifier: MIT OR Apache-2.0
// Blocking sockets with a bound.
#include <tools/loops/tcp.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lend::tools {

namespace {

constexpr timeval patience{10, 0};

Error failure(char const* call) {
  if (errno == EAGAIN) return {Errc::timed_out, std::string{call} + " on loopback took 10 s"};
  return Error::from_errno(call, errno);
}

Result<void> set_up(int fd) {
  int const yes = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0 ||
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
      ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0)
    return failure("setsockopt");
  return success();
}

Result<void> send_all(int fd, std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    auto const sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return failure("send");
    bytes = bytes.subspan(sent < 0 ? 0 : static_cast<std::size_t>(sent));
  }
  return success();
}

/// False: the peer closed its end before the first byte.
Result<bool> receive_all(int fd, std::span<std::byte> bytes) {
  bool has_begun = false;
  while (!bytes.empty()) {
    auto const got = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno != EINTR) return failure("recv");
    if (got == 0 && has_begun) return Error{Errc::peer_lost, "the other process of TCP has ended"};
    if (got == 0) return false;
    has_begun = has_begun || got > 0;
    bytes = bytes.subspan(got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

Result<TcpLoopback> TcpLoopback::open() {
  base::UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd) return failure("socket");
  LEND_TRYV(set_up(fd.get()));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0) return failure("bind");
  if (::listen(fd.get(), 1) != 0) return failure("listen");
  return TcpLoopback{std::move(fd)};
}

Result<void> TcpLoopback::answer() {
  base::UniqueFd const peer{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  if (!peer) return failure("accept");
  LEND_TRYV(set_up(peer.get()));
  std::vector<std::byte> message;
  for (;;) {
    std::array<std::uint64_t, 2> order{};  // bytes and rounds
    LEND_TRY(has_order, receive_all(peer.get(), std::as_writable_bytes(std::span{order})));
    if (!has_order) return success();
    message.resize(order[0]);
    for (std::uint64_t round = 0; round < order[1]; ++round) {
      LEND_TRY(has_come, receive_all(peer.get(), message));
      if (!has_come) return success();
      LEND_TRYV(send_all(peer.get(), message));
    }
  }
}

Result<Durations> TcpLoopback::measure(std::size_t bytes, std::uint64_t rounds) {
  if (!connected_) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    if (::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
      return failure("getsockname");
    base::UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!fd) return failure("socket");
    LEND_TRYV(set_up(fd.get()));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
      return failure("connect");
    connected_ = std::move(fd);
  }
  std::array<std::uint64_t, 2> const order{bytes, rounds};
  LEND_TRYV(send_all(connected_.get(), std::as_bytes(std::span{order})));
  std::vector<std::byte> message(bytes);
  Stamps stamps{rounds};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    stamps.take();
    LEND_TRYV(send_all(connected_.get(), message));
    LEND_TRY(is_there, receive_all(connected_.get(), message));
    if (!is_there) return Error{Errc::peer_lost, "the other process of TCP has ended"};
  }
  stamps.take();
  return stamps.durations(2);
}

}  // namespace lend::tools
