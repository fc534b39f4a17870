// SPDX-License-Identifier: MIT OR Apache-2.0
// As netcat: what comes in here goes out at the peer, both ways, until both have ended.
//
//   pipe listen 127.0.0.1:0 <file        says on standard error where it listens
//   pipe connect 127.0.0.1:PORT >copy
//
// One loop over poll(2): standard input, and the descriptor of the stream.
#include <lend/lend.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/connect.hpp>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;

static lend::Result<lend::ByteStream> open_stream(std::string_view how, std::string_view address) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  auto const deadline = lend::within(60s);
  // excerpt open
  if (how == "connect") {
    LEND_TRY(transport, lend::connect_transport(address, domain, {}, deadline));
    return lend::ByteStream{std::move(transport)};
  }
  LEND_TRY(listener, lend::TransportListener::open(address));
  std::cerr << "listening at " << listener.address() << std::endl;
  LEND_TRY(transport, listener.accept(domain, {}, deadline));
  return lend::ByteStream{std::move(transport)};
  // end of excerpt
}

/// Writes all that has come, from where it lies.
static lend::Result<void> show(lend::ByteStream& stream) {
  for (;;) {
    // excerpt show
    LEND_TRY(bytes, stream.try_peek());
    if (bytes.empty()) return lend::success();
    auto const written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return lend::Error::from_errno("write", errno);
    stream.consume(static_cast<std::size_t>(written));
    // end of excerpt
  }
}

/// Reads into the draft, and sends that. False at the end of the input.
static lend::Result<bool> pass_on(lend::Draft draft) {
  auto const room = draft.bytes();
  auto const got = ::read(STDIN_FILENO, room.data(), room.size());
  if (got < 0 && errno == EINTR) return true;
  if (got < 0) return lend::Error::from_errno("read", errno);
  if (got == 0) return false;
  LEND_TRYV(std::move(draft).send(static_cast<std::size_t>(got)));
  return true;
}

static lend::Result<void> run(lend::ByteStream& stream) {
  lend::Draft draft;
  for (bool is_reading = true; is_reading || !stream.is_at_end();) {
    LEND_TRYV(show(stream));
    if (is_reading && !draft) {
      LEND_TRY(room, stream.try_draft(1, stream.limits().send_bytes_max));
      draft = std::move(room);
    }
    LEND_TRY(has_changed, stream.poll());
    if (has_changed) continue;
    LEND_TRY(may_sleep, stream.arm());
    LEND_TRY(descriptor, stream.descriptor());
    // Without room the input waits.
    std::array<pollfd, 2> waiting{pollfd{descriptor, POLLIN, 0},
                                  pollfd{draft ? STDIN_FILENO : -1, POLLIN, 0}};
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(stream.look_again().left());
    auto const timeout = std::min<std::chrono::milliseconds>(left, 1min);
    ::poll(waiting.data(), waiting.size(), may_sleep ? static_cast<int>(timeout.count()) : 0);
    if (waiting[1].revents == 0) continue;
    LEND_TRY(goes_on, pass_on(std::exchange(draft, {})));
    is_reading = goes_on;
    if (!is_reading) {
      LEND_TRYV(stream.finish_writing());
    }
  }
  return stream.finish(lend::within(60s));
}

int main(int count, char** arguments) {
  std::string_view const how = count == 3 ? arguments[1] : "";
  if (how != "listen" && how != "connect") {
    std::cerr << "usage: pipe listen|connect HOST:PORT\n";
    return 2;
  }
  auto stream = open_stream(how, arguments[2]);
  auto const done = stream ? run(stream.value()) : lend::Result<void>{stream.error()};
  if (!done) std::cerr << "pipe: " << done.error().message() << '\n';
  return done ? 0 : 1;
}
