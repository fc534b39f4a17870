// SPDX-License-Identifier: MIT OR Apache-2.0
#include "stream_runs.hpp"

#include "number.hpp"

#include <lend/transport/connect.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace lend::bench {

Result<ByteStream> connect_stream(End const& end, TransportOptions const& options) {
  using namespace std::chrono_literals;
  LEND_TRY(domain, end.device.allocate_protection_domain());
  std::array<char, 64> address{};
  if (!end.near) {
    if (::recv(end.socket, address.data(), address.size(), MSG_WAITALL) != ssize_t(address.size()))
      return Errc::peer_lost;
    LEND_TRY(transport, connect_transport(address.data(), domain, options, within(10s)));
    return ByteStream{std::move(transport)};
  }
  LEND_TRY(listener, TransportListener::open("127.0.0.1:0"));
  std::ranges::copy(listener.address(), address.begin());
  if (::send(end.socket, address.data(), address.size(), MSG_NOSIGNAL) != ssize_t(address.size()))
    return Errc::peer_lost;
  LEND_TRY(transport, listener.accept(domain, options, within(10s)));
  return ByteStream{std::move(transport)};
}

double median_of(std::vector<double>& took) {
  auto const middle = took.begin() + std::ptrdiff_t(took.size() / 2);
  std::ranges::nth_element(took, middle);
  return *middle;
}

int run_streams(std::span<char* const> words, char const* program,
                std::initializer_list<std::string_view> kinds,
                Result<double> (*run)(End const&, StreamRun const&)) {
  std::vector<std::string_view> const plain{words.begin() + 1, words.end()};
  StreamRun asked;
  auto const is_one_of = [](std::string_view word, std::initializer_list<std::string_view> all) {
    return std::ranges::find(all, word) != all.end();
  };
  if (plain.size() < 4 || plain.size() > 5 || !is_one_of(plain[0], kinds) ||
      !is_one_of(plain[1], {"latency", "rate"}) || !parse_number(plain[2], asked.bytes) ||
      !parse_number(plain[3], asked.count) || asked.bytes == 0) {
    std::string all;
    for (auto const kind : kinds) all += (all.empty() ? "" : "|") + std::string{kind};
    std::fprintf(stderr, "%s %s latency|rate BYTES COUNT [DEVICE]\n", program, all.c_str());
    return 2;
  }
  asked.kind = plain[0];
  asked.what = plain[1];
  double figure = 0;
  PairOptions options;
  if (plain.size() == 5) options.device = DeviceChoice::named(std::string{plain[4]});
  if (std::thread::hardware_concurrency() > 1) options.cpus = {0, 1};
  auto const done = run_pair(options, std::as_writable_bytes(std::span{&figure, 1}),
                             [&](End& end) -> Result<void> {
                               LEND_TRY(measured, run(end, asked));
                               figure = measured;
                               return success();
                             });
  if (!done) {
    std::fprintf(stderr, "%s: %s\n", program, done.error().message().c_str());
    return 1;
  }
  std::printf("{\"kind\": \"%s\", \"bytes\": %zu, \"%s\": %.4f}\n", words[1], asked.bytes,
              asked.what == "latency" ? "median_us" : "parts_per_s", figure);
  return 0;
}

}  // namespace lend::bench
