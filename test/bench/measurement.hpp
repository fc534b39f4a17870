// SPDX-License-Identifier: MIT OR Apache-2.0
// What one run of `latency` or `bandwidth` measures, and its pair of processes. One thread.
#pragma once

#include "pair.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lend::bench {

/// DEVICE send|write|read WAY BYTES COUNT [--json] [--cores one|two|any] [--own-memory]
struct Measurement : tools::Load {
  std::string device{};  ///< soft, tcp (two sockets, no device), or a verbs device's name
  bool json = false;
  /// `one`: both ends on CPU 0, giving way to each other; `two`: on 0 and 1; `any`: not bound.
  std::string_view cores = "two";
  bool own_memory = false;  ///< as PairOptions has it

  /// Nothing if the words are not such a command.
  [[nodiscard]] static std::optional<Measurement> parse(std::span<char* const> words,
                                                        std::initializer_list<char const*> ways);
  /// `"device": …, "bytes": 8`, for the head of a line of JSON.
  [[nodiscard]] std::string json_head() const;

  /// run_pair() on that device and those CPUs; inline up to perftest's own limits.
  [[nodiscard]] Result<void> run(std::span<std::byte> figures,
                                 std::function<Result<void>(End&)> const& body) const;
};

/// What main() of `program` does: its exit status, after it said what is wrong. `counted` is what
/// COUNT counts.
[[nodiscard]] int measure_by_command(std::span<char* const> words, char const* program,
                                     std::initializer_list<char const*> ways, char const* counted,
                                     Result<void> (*run)(Measurement const&));

/// The twin of two processes without RDMA.
class Socket {
 public:
  /// TCP over loopback, each message sent at once.
  [[nodiscard]] static Result<Socket> connect(End const& end);
  /// AF_UNIX: the socket between the two ends, which do not meet() while it is in use.
  [[nodiscard]] static Result<Socket> of_pair(End const& end);
  Socket(Socket&& other) noexcept : fd_{std::exchange(other.fd_, -1)}, waits_{other.waits_} {}
  Socket& operator=(Socket&&) = delete;
  ~Socket();
  [[nodiscard]] Result<void> send(std::span<std::byte const> bytes) const;
  /// Spins where the peer has a CPU of its own.
  [[nodiscard]] Result<void> receive(std::span<std::byte> bytes) const;
  /// At least one byte.
  [[nodiscard]] Result<std::size_t> receive_some(std::span<std::byte> bytes) const;
  [[nodiscard]] static Result<void> finish() { return success(); }
  /// The caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  Socket(int fd, bool waits) : fd_{fd}, waits_{waits} {}
  int fd_;
  bool waits_;
};

}  // namespace lend::bench
