// SPDX-License-Identifier: MIT OR Apache-2.0
// What a message of 64 bytes costs from one end to the other, in one thread on the soft device: by
// a scope's send and receive, by each kind of transport, and by a stream over each.
// stream_price.py counts instructions with it. Usage: stream_price WAY COUNT
#include "number.hpp"

#include <lend/lend.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/credit_ring.hpp>
#include <lend/transport/read_ring.hpp>
#include <lend/transport/send_receive.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

namespace {

using namespace lend;

constexpr std::size_t message = 64;  // bytes
using Message = std::array<std::byte, message>;

/// Both ends of what carries messages.
struct Ends {
  virtual ~Ends() = default;
  virtual Result<void> carry() noexcept = 0;
};

class Channels final : public Ends {
 public:
  static Result<std::unique_ptr<Ends>> make(ProtectionDomain const& domain) {
    LEND_TRY(memory, domain.allocate(2 * message));
    LEND_TRY(a, channel_builder(domain).build());
    LEND_TRY(b, channel_builder(domain).build());
    auto const endpoint = a.endpoint();
    LEND_TRY(one, std::move(a).handshake(b.endpoint()));
    LEND_TRY(other, std::move(b).handshake(endpoint));
    return std::unique_ptr<Ends>{new Channels{std::move(memory), std::move(one), std::move(other)}};
  }
  Result<void> carry() noexcept override {
    LEND_TRY(arrival, to_.post_receive(memory_.scatter(message, message)));
    LEND_TRY(departure, from_.post_send(memory_.gather(0, message)));
    LEND_TRYV(arrival.wait());
    LEND_TRYV(departure.wait());
    return success();
  }

 private:
  Channels(MemoryRegion memory, Channel one, Channel other)
      : memory_{std::move(memory)}, one_{std::move(one)}, other_{std::move(other)} {}
  MemoryRegion memory_;
  Channel one_, other_;
  PollingScope from_{one_}, to_{other_};
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
  Result<void> carry() noexcept override {
    LEND_TRYV(send_message(ends_.first, out_));
    LEND_TRY(received, receive_message(ends_.second));
    return received.bytes().size() == message ? success() : Result<void>{Errc::disagreement};
  }

 private:
  std::pair<AnyTransport, AnyTransport> ends_;
  Message out_{};
};

class Streams final : public Ends {
 public:
  explicit Streams(std::pair<AnyTransport, AnyTransport> ends)
      : one_{std::move(ends.first)}, other_{std::move(ends.second)} {}
  Result<void> carry() noexcept override {
    LEND_TRYV(one_.write(out_));
    LEND_TRY(taken, other_.read_some(in_));
    return taken.bytes == message ? success() : Result<void>{Errc::disagreement};
  }

 private:
  ByteStream one_, other_;
  Message out_{}, in_{};
};

Result<std::unique_ptr<Ends>> make(std::string_view way, ProtectionDomain const& domain) {
  if (way == "scoped") return Channels::make(domain);
  LEND_TRY(ends, way.ends_with("credit_ring") ? transports<CreditRing>(domain)
                 : way.ends_with("read_ring") ? transports<ReadRing>(domain)
                                              : transports<SendReceive>(domain));
  if (way.starts_with("stream ")) return std::unique_ptr<Ends>{new Streams{std::move(ends)}};
  return std::unique_ptr<Ends>{new Transports{std::move(ends)}};
}

/// stream_price.py finds the run by its name.
extern "C" [[gnu::noinline]] bool lend_bench_run(Ends& ends, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i)
    if (!ends.carry().has_value()) return false;
  return true;
}

Result<void> run(std::string_view way, std::uint64_t count) {
  LEND_TRY(context, open_device(DeviceChoice::soft()));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(ends, make(way, domain));
  for (int warm = 0; warm < 1'000; ++warm) {
    LEND_TRYV(ends->carry());
  }
  return lend_bench_run(*ends, count) ? success() : Result<void>{Errc::system_failed};
}

}  // namespace

int main(int words, char** word) {
  std::uint64_t count = 0;
  if (words != 3 || !bench::parse_number(std::string_view{word[2]}, count)) {
    std::fputs("stream_price WAY COUNT\n", stderr);
    return 2;
  }
  auto const done = run(word[1], count);
  if (!done) std::fprintf(stderr, "stream_price: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
