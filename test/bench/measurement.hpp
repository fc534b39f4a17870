// SPDX-License-Identifier: MIT OR Apache-2.0
// What one run of `latency` or `bandwidth` measures, and its pair of processes. One thread.
#pragma once

#include "pair.hpp"

#include <lend/channel/unsafe.hpp>

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

constexpr std::size_t incoming = pair_bytes / 2;  ///< where receives land

/// DEVICE send|write|read WAY BYTES COUNT [--json] [--cores one|two|any] [--own-memory]
struct Measurement {
  std::string device{};  ///< soft, tcp (two sockets, no device), or a verbs device's name
  std::string_view operation{}, via{};
  std::size_t bytes = 0;
  std::uint64_t count = 0;  ///< of rounds, or of messages
  bool json = false;
  /// `one`: both ends on CPU 0, giving way to each other; `two`: on 0 and 1; `any`: not bound.
  std::string_view cores = "two";
  bool own_memory = false;  ///< as PairOptions has it

  /// Nothing if the words are not such a command.
  [[nodiscard]] static std::optional<Measurement> parse(std::span<char* const> words,
                                                        std::initializer_list<char const*> ways);
  /// `"device": …, "bytes": 8`, for the head of a line of JSON.
  [[nodiscard]] std::string json_head() const;

  /// Messages that may be under way at once, each in bytes of its own: 1 MiB of them, that caches
  /// hold; from 4 to 128.
  [[nodiscard]] std::uint32_t receives_ahead() const;
  [[nodiscard]] std::size_t lane(std::uint64_t message) const {
    return incoming + message % receives_ahead() * bytes;
  }

  /// run_pair() on that device and those CPUs; inline up to perftest's own limits.
  [[nodiscard]] Result<void> run(std::span<std::byte> figures,
                                 std::function<Result<void>(End&)> const& body) const;
};

/// What main() of `program` does: its exit status, after it said what is wrong. `counted` is what
/// COUNT counts.
[[nodiscard]] int measure_by_command(std::span<char* const> words, char const* program,
                                     std::initializer_list<char const*> ways, char const* counted,
                                     Result<void> (*run)(Measurement const&));

/// Scoped and unsafe posting, as one.
class Poster {
 public:
  Poster(Channel& channel, std::string_view via) : channel_{channel}, unsafe_{via == "unsafe"} {
    if (!unsafe_) scope_.emplace(channel);
  }
  Result<PendingWork> receive(Receive const& work) {
    return unsafe_ ? unsafe_post_receive(channel_, work) : scope_->post_receive(work);
  }
  Result<PendingWork> send(Send const& work) {
    return unsafe_ ? unsafe_post_send(channel_, work) : scope_->post_send(work);
  }
  Result<PendingWork> write(Write const& work) {
    return unsafe_ ? unsafe_post_write(channel_, work) : scope_->post_write(work);
  }
  Result<PendingWork> read(Read const& work) {
    return unsafe_ ? unsafe_post_read(channel_, work) : scope_->post_read(work);
  }
  Result<void> post() { return success(); }  // nothing is kept back
  Result<void> finish() { return unsafe_ ? success() : scope_->finish(); }

 private:
  Channel& channel_;
  bool unsafe_;
  std::optional<PollingScope> scope_{};
};

/// The same by a batch: many requests in one call of the device, few of them with a completion.
class BatchPoster {
 public:
  BatchPoster(Channel& channel, std::string_view /*via*/)
      : scope_{channel}, batch_{scope_.batch()} {}
  Result<PendingWork> receive(Receive const& work) { return batch_.add_receive(work); }
  Result<PendingWork> send(Send const& work) { return batch_.add_send(work); }
  Result<PendingWork> write(Write const& work) { return batch_.add_write(work); }
  Result<PendingWork> read(Read const& work) { return batch_.add_read(work); }
  Result<void> post() { return batch_.post(); }
  Result<void> finish() {
    LEND_TRYV(post());
    return scope_.finish();
  }

 private:
  PollingScope scope_;
  Batch batch_;
};

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
