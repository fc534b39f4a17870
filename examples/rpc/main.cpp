// SPDX-License-Identifier: MIT OR Apache-2.0
// Remote calls over messages: many under way, each with a deadline, answered in any order.
//
//   rpc serve 127.0.0.1:0             says on standard output where it listens; serves one client
//   rpc call 127.0.0.1:PORT
#include <lend/lend.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/waiting.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string_view>
#include <utility>

#include "caller.hpp"
#include "server.hpp"

using namespace std::chrono_literals;

static constexpr std::uint32_t calls = 1'000;

/// A server lets its requests go in any order; room in a ring comes back in the order of arrival.
static lend::TransportOptions const options{
    .kind = lend::TransportKind::send_receive, .window = 128, .message_bytes_max = 2'048};

struct Counts {
  std::uint32_t answered = 0, wrong = 0, timed_out = 0, overtaken = 0, last = 0;
};

/// Every 50th asks for more than its deadline leaves, every 7th for some time.
static Caller::Request request(std::uint32_t i) {
  Caller::Request request{.bytes = 100 + i, .content = std::byte(i), .work = 0us, .patience = 60s};
  if (i % 7 == 0) request.work = 20ms;
  if (i % 50 == 0) {
    request.work = 60s;
    request.patience = 50ms;
  }
  return request;
}

static Caller::Done count_into(Counts& counts, std::uint32_t i) {
  return [&counts, i](lend::Result<std::uint32_t> answer) {
    if (!answer) {
      ++counts.timed_out;
      return;
    }
    ++counts.answered;
    counts.wrong += answer.value() == (i % 256) * (100 + i) ? 0u : 1u;
    counts.overtaken += i < counts.last ? 1u : 0u;
    counts.last = i;
  };
}

static lend::Result<void> call(std::string_view address, lend::ProtectionDomain const& domain) {
  LEND_TRY(transport, lend::connect_transport(address, domain, options, lend::within(60s)));
  Caller caller{transport};
  Counts counts;
  for (std::uint32_t i = 1; i <= calls;) {
    LEND_TRY(is_sent, caller.start(request(i), count_into(counts, i)));
    if (is_sent) {
      ++i;
      continue;
    }
    LEND_TRYV(caller.wait());
  }
  while (caller.calls_under_way() > 0) {
    LEND_TRYV(caller.wait());
  }
  std::cout << calls << " calls: " << counts.answered << " answered, " << counts.wrong
            << " of them wrongly; " << counts.timed_out << " timed out; " << counts.overtaken
            << " answers were overtaken\n";
  return finish(transport, lend::within(10s));
}

static lend::Result<void> run(std::string_view what, std::string_view address) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  if (what == "call") return call(address, domain);
  LEND_TRY(listener, lend::TransportListener::open(address));
  std::cout << "listening at " << listener.address() << std::endl;
  LEND_TRY(transport, listener.accept(domain, options, lend::within(60s)));
  return serve(std::move(transport));
}

int main(int count, char** arguments) {
  std::string_view const what = count == 3 ? arguments[1] : "";
  if (what != "serve" && what != "call") {
    std::cerr << "usage: rpc serve|call HOST:PORT\n";
    return 2;
  }
  auto const done = run(what, arguments[2]);
  if (!done) std::cerr << "rpc: " << done.error().message() << '\n';
  return done ? 0 : 1;
}
