// SPDX-License-Identifier: MIT OR Apache-2.0
// What a message of 64 bytes costs from one end to the other, in one thread on the soft device: by
// a scope's send and receive, by each kind of transport, and by a stream over each; one at a time,
// or AT_ONCE sent before they are received. stream_price.py counts instructions with it.
// Usage: stream_price WAY COUNT [AT_ONCE]
#include "number.hpp"

#include <lend/lend.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace {

using namespace lend;

constexpr std::size_t message = 64;  // bytes
constexpr std::size_t at_once_max = 16;
using Message = std::array<std::byte, message>;

/// Both ends of what carries messages.
struct Ends {
  virtual ~Ends() = default;
  /// By these the price of each end is told apart.
  virtual Result<void> send(std::uint64_t count) noexcept = 0;
  virtual Result<void> receive(std::uint64_t count) noexcept = 0;
};

class Channels final : public Ends {
 public:
  static Result<std::unique_ptr<Ends>> make(ProtectionDomain const& domain) {
    LEND_TRY(memory, domain.allocate((1 + at_once_max) * message));
    LEND_TRY(a, channel_builder(domain).build());
    LEND_TRY(b, channel_builder(domain).build());
    auto const endpoint = a.endpoint();
    LEND_TRY(one, std::move(a).handshake(b.endpoint()));
    LEND_TRY(other, std::move(b).handshake(endpoint));
    auto channels = std::unique_ptr<Channels>{
        new Channels{std::move(memory), std::move(one), std::move(other)}};
    for (std::uint64_t slot = 0; slot < at_once_max; ++slot) {
      LEND_TRYV(channels->expect(slot));
    }
    return std::unique_ptr<Ends>{std::move(channels)};
  }
  Result<void> send(std::uint64_t count) noexcept override {
    std::array<std::optional<PendingWork>, at_once_max> departures;
    for (std::uint64_t i = 0; i < count; ++i) {
      LEND_TRY(departure, from_.post_send(memory_.gather(0, message)));
      departures[i] = std::move(departure);
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      LEND_TRYV(departures[i]->wait());
    }
    return success();
  }
  Result<void> receive(std::uint64_t count) noexcept override {
    for (; count > 0; --count, next_ = (next_ + 1) % at_once_max) {
      LEND_TRYV(arrivals_[next_]->wait());
      LEND_TRYV(expect(next_));
    }
    return success();
  }

 private:
  Channels(MemoryRegion memory, Channel one, Channel other)
      : memory_{std::move(memory)}, one_{std::move(one)}, other_{std::move(other)} {
    to_.drain_within(std::chrono::nanoseconds{0});  // nothing comes for the last receives
  }
  Result<void> expect(std::uint64_t slot) noexcept {
    LEND_TRY(arrival, to_.post_receive(memory_.scatter((1 + slot) * message, message)));
    arrivals_[slot] = std::move(arrival);
    return success();
  }

  MemoryRegion memory_;
  Channel one_, other_;
  PollingScope from_{one_}, to_{other_};
  std::array<std::optional<PendingWork>, at_once_max> arrivals_{};
  std::uint64_t next_ = 0;  // of these
};

template <class Kind>
Result<std::pair<AnyTransport, AnyTransport>> transports(ProtectionDomain const& domain) {
  LEND_TRY(a, Kind::prepare(domain));
  LEND_TRY(b, Kind::prepare(domain));
  auto const endpoint = a.endpoint();
  auto const terms = a.terms();
  LEND_TRY(one, std::move(a).handshake(b.endpoint(), b.terms()));
  LEND_TRY(other, std::move(b).handshake(endpoint, terms));
  return std::pair{AnyTransport{std::move(one)}, AnyTransport{std::move(other)}};
}

class Transports final : public Ends {
 public:
  explicit Transports(std::pair<AnyTransport, AnyTransport> ends) : ends_{std::move(ends)} {}
  Result<void> send(std::uint64_t count) noexcept override {
    for (; count > 0; --count) {
      LEND_TRYV(send_message(ends_.first, out_));
    }
    return success();
  }
  Result<void> receive(std::uint64_t count) noexcept override {
    for (; count > 0; --count) {
      LEND_TRY(received, receive_message(ends_.second));
      if (received.bytes().size() != message) return Errc::disagreement;
    }
    return success();
  }

 private:
  std::pair<AnyTransport, AnyTransport> ends_;
  Message out_{};
};

class Streams final : public Ends {
 public:
  explicit Streams(std::pair<AnyTransport, AnyTransport> ends)
      : one_{std::move(ends.first)}, other_{std::move(ends.second)} {}
  Result<void> send(std::uint64_t count) noexcept override {
    for (; count > 0; --count) {
      LEND_TRYV(lend::without_value(one_.write(out_)));
    }
    return success();
  }
  Result<void> receive(std::uint64_t count) noexcept override {
    for (auto left = count * message; left > 0;) {
      LEND_TRY(taken, other_.read_some(std::span{in_}.first(left)));
      left -= taken.bytes;
    }
    return success();
  }

 private:
  ByteStream one_, other_;
  Message out_{};
  std::array<std::byte, at_once_max * message> in_{};
};

Result<std::unique_ptr<Ends>> make(std::string_view way, ProtectionDomain const& domain) {
  if (way == "scoped") return Channels::make(domain);
  LEND_TRY(ends, way.ends_with("credit_ring") ? transports<CreditRing>(domain)
                 : way.ends_with("read_ring") ? transports<ReadRing>(domain)
                                              : transports<SendReceive>(domain));
  if (way.starts_with("stream ")) return std::unique_ptr<Ends>{new Streams{std::move(ends)}};
  return std::unique_ptr<Ends>{new Transports{std::move(ends)}};
}

// stream_price.py finds both ends' part by its name.
extern "C" [[gnu::noinline]] bool lend_bench_send(Ends& ends, std::uint64_t count) {
  return ends.send(count).has_value();
}
extern "C" [[gnu::noinline]] bool lend_bench_receive(Ends& ends, std::uint64_t count) {
  return ends.receive(count).has_value();
}

Result<void> run(std::string_view way, std::uint64_t count, std::uint64_t at_once) {
  LEND_TRY(context, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(ends, make(way, domain));
  for (std::uint64_t i = 0; i < count; i += at_once)
    if (!lend_bench_send(*ends, at_once) || !lend_bench_receive(*ends, at_once))
      return Errc::system_failed;
  return success();
}

}  // namespace

int main(int words, char** word) {
  std::uint64_t count = 0, at_once = 1;
  if (words < 3 || words > 4 || !bench::parse_number(std::string_view{word[2]}, count) ||
      (words == 4 && !bench::parse_number(std::string_view{word[3]}, at_once)) || at_once == 0 ||
      at_once > at_once_max || count % at_once != 0) {
    std::fputs("stream_price WAY COUNT [AT_ONCE, at most 16, and a divisor]\n", stderr);
    return 2;
  }
  auto const done = run(word[1], count, at_once);
  if (!done) std::fprintf(stderr, "stream_price: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
