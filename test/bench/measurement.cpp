// SPDX-License-Identifier: MIT OR Apache-2.0
// What the words of the command line ask for, and the two processes that do it. One thread each.
#include "measurement.hpp"

#include "number.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

namespace lend::bench {
namespace {

// Source: perftest src/perftest_parameters.h, DEF_INLINE_SEND_RC_UC_XRC and DEF_INLINE_WRITE.
constexpr std::uint32_t inline_send = 236, inline_write = 220;

}  // namespace

std::optional<Measurement> Measurement::parse(std::span<char* const> words,
                                              std::initializer_list<char const*> ways) {
  Measurement asked;
  std::vector<std::string_view> plain;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string_view const word{words[i]};
    auto const next = i + 1 < words.size() ? std::string_view{words[i + 1]} : std::string_view{};
    if (word == "--json") {
      asked.json = true;
    } else if (word == "--own-memory") {
      asked.own_memory = true;
    } else if (word == "--cores" && (next == "one" || next == "two" || next == "any")) {
      asked.cores = next;
      ++i;
    } else {
      plain.push_back(word);
    }
  }
  auto const is_one_of = [](std::string_view text, std::initializer_list<char const*> all) {
    return std::ranges::find(all, text) != all.end();
  };
  auto const number = [](std::string_view text, auto& value) {
    return parse_number(text, value) && value > 0;
  };
  if (plain.size() != 5 || !is_one_of(plain[1], {"send", "write", "read"}) ||
      !is_one_of(plain[2], ways) || !number(plain[3], asked.bytes) ||
      !number(plain[4], asked.count) || asked.bytes > tools::small_bytes_max)
    return {};
  asked.device = plain[0];
  asked.operation = plain[1];
  asked.via = plain[2];
  if (asked.device == "tcp" && (asked.operation != "send" || asked.via != "raw")) return {};
  return asked;
}

std::string Measurement::json_head() const {
  auto const text = [](std::string_view value) { return "\"" + std::string{value} + "\""; };
  return "\"device\": " + text(device) + ", \"operation\": " + text(operation) +
         ", \"via\": " + text(via) + ", \"cores\": " + text(cores) +
         ", \"memory\": " + text(own_memory ? "own" : "allocated") +
         ", \"bytes\": " + std::to_string(bytes) + ", \"count\": " + std::to_string(count);
}

Result<void> Measurement::run(std::span<std::byte> figures,
                              std::function<Result<void>(End&)> const& body) const {
  PairOptions pair;
  bool const one_core = cores == "one";
  if (cores != "any") pair.cpus = {0, one_core ? 0 : 1};
  pair.device =
      device == "soft" || device == "tcp" ? DeviceChoice::soft() : DeviceChoice::named(device);
  pair.own_memory = own_memory;
  // On one core who spins keeps the other from answering.
  pair.channel.wait = one_core ? Wait::adaptive : Wait::spin;
  pair.channel.queue_pair.inline_bytes = operation == "send"    ? inline_send
                                         : operation == "write" ? inline_write
                                                                : 0;
  return run_pair(pair, figures, body);
}

int measure_by_command(std::span<char* const> words, char const* program,
                       std::initializer_list<char const*> ways, char const* counted,
                       Result<void> (*run)(Measurement const&)) {
  auto const asked = Measurement::parse(words, ways);
  if (!asked) {
    std::string all;
    for (auto const* const way : ways) all += (all.empty() ? "" : "|") + std::string{way};
    std::fprintf(
        stderr,
        "%s DEVICE send|write|read %s BYTES %s [--json] [--cores one|two|any] [--own-memory]\n",
        program, all.c_str(), counted);
    return 2;
  }
  auto const done = run(*asked);
  if (!done) std::fprintf(stderr, "%s: %s\n", program, done.error().message().c_str());
  return done ? 0 : 1;
}

// ---- the twin without RDMA ----

Result<Socket> Socket::connect(End const& end) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  Socket socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), end.one_core};
  bool ok = socket.fd_ >= 0;
  if (end.near) {
    ok = ok && ::bind(socket.fd_, raw, length) == 0 && ::listen(socket.fd_, 1) == 0 &&
         getsockname(socket.fd_, raw, &length) == 0 && write(end.socket, &address.sin_port, 2) == 2;
    int const accepted = ok ? accept4(socket.fd_, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    if (accepted >= 0) ::close(std::exchange(socket.fd_, accepted));
    ok = accepted >= 0;
  } else {
    ok = ok && ::read(end.socket, &address.sin_port, 2) == 2 &&
         ::connect(socket.fd_, raw, length) == 0;
  }
  int const at_once = 1;
  ok = ok && setsockopt(socket.fd_, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once) == 0;
  if (!ok) return Error::from_errno("a TCP connection over loopback", errno);
  return socket;
}

Result<Socket> Socket::of_pair(End const& end) {
  Socket socket{::fcntl(end.socket, F_DUPFD_CLOEXEC, 0), end.one_core};
  if (socket.fd_ < 0) return Error::from_errno("fcntl", errno);
  return socket;
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> Socket::send(std::span<std::byte const> bytes) const {
  while (!bytes.empty()) {
    auto const sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return Error::from_errno("send", errno);
    bytes = bytes.subspan(std::size_t(sent));
  }
  return success();
}

Result<std::size_t> Socket::receive_some(std::span<std::byte> bytes) const {
  for (;;) {
    auto const got = ::recv(fd_, bytes.data(), bytes.size(), waits_ ? 0 : MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) continue;
    if (got < 0) return Error::from_errno("recv", errno);
    if (got == 0) return Error{Errc::peer_lost, "the other process has ended"};
    return std::size_t(got);
  }
}

Result<void> Socket::receive(std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    LEND_TRY(got, receive_some(bytes));
    bytes = bytes.subspan(got);
  }
  return success();
}

}  // namespace lend::bench
