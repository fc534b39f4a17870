// SPDX-License-Identifier: MIT OR Apache-2.0
// Datagrams between processes: a few senders each ask a receiver, whose address they have as a line
// of text, and it answers each that asks. Nothing is connected, and a datagram may be lost, so a
// sender asks again. One thread each.
#include <lend/channel/datagram_channel.hpp>
#include <lend/lend.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

namespace {

constexpr int senders = 3;
constexpr std::size_t room_bytes = 40 + 4096;  // takes whatever the largest MTU lets through
constexpr std::size_t rooms = 8;
constexpr std::size_t answer_at = rooms * room_bytes;

lend::Result<std::size_t> put(lend::MemoryRegion& memory, std::string_view text) {
  LEND_TRY(bytes, memory.mutable_bytes(answer_at, text.size()));
  std::ranges::copy(std::as_bytes(std::span{text}), bytes.begin());
  return text.size();
}

lend::Result<std::string> text_of(lend::MemoryRegion const& memory,
                                  lend::ReceivedDatagram const& datagram) {
  auto const [offset, length] = datagram.message.range;
  LEND_TRY(bytes, memory.bytes(offset, length));
  return std::string{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}

lend::Result<void> ask(std::string_view address, std::string const& name) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(answer_at + 4096));
  LEND_TRY(channel, lend::datagram_channel_builder(domain).build());
  LEND_TRY(there, lend::Endpoint::from_text(address));
  LEND_TRY(receiver, channel.destination(there));
  LEND_TRY(room, lend::DatagramRoom::in(memory.scatter(0, room_bytes)));
  LEND_TRY(length, put(memory, name));
  for (int tries = 0; tries < 100; ++tries) {
    lend::DatagramScope scope{channel};
    LEND_TRY(pending, scope.post_receive(room));
    LEND_TRYV(channel.send(memory.gather(answer_at, length), receiver));
    auto const answer = pending.wait(lend::within(100ms));
    if (!answer && answer.error() == lend::Errc::timed_out) continue;  // the room comes back here
    if (!answer) return answer.error();
    LEND_TRY(text, text_of(memory, answer.value()));
    if (text == "hello, " + name) return lend::success();
  }
  return lend::Error{lend::Errc::timed_out, "no answer"};
}

/// Whether all senders have ended; counts those that failed.
bool all_have_ended(int& ended, int& failed) {
  int status = 0;
  while (ended<senders&& ::waitpid(-1, &status, WNOHANG)> 0) {
    ++ended;
    failed += status != 0 ? 1 : 0;
  }
  return ended == senders;
}

lend::Result<int> answer_all(int to_senders) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(answer_at + 4096));
  LEND_TRY(channel, lend::datagram_channel_builder(domain).build());
  std::string line = channel.address().to_text();
  line.resize(200);  // as long for each, so that none reads another's
  for (int i = 0; i < senders; ++i)
    if (::write(to_senders, line.data(), line.size()) < 0) return lend::Errc::system_failed;

  lend::DatagramScope scope{channel};
  std::array<std::optional<lend::PendingDatagram>, rooms> pending;
  int ended = 0, failed = 0;
  for (std::size_t i = 0; !all_have_ended(ended, failed); i = (i + 1) % rooms) {
    LEND_TRY(room, lend::DatagramRoom::in(memory.scatter(i * room_bytes, room_bytes)));
    if (!pending[i]) {
      LEND_TRY(posted, scope.post_receive(room));
      pending[i] = std::move(posted);
    }
    LEND_TRY(question, pending[i]->poll());
    if (!question) continue;
    pending[i].reset();
    LEND_TRY(name, text_of(memory, *question));
    LEND_TRY(back, channel.destination(*question));
    LEND_TRY(length, put(memory, "hello, " + name));
    LEND_TRYV(channel.send(memory.gather(answer_at, length), back));
  }
  LEND_TRYV(scope.finish());  // recalls the rooms that no datagram took
  return failed;
}

}  // namespace

int main() {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return 1;
  for (int i = 0; i < senders; ++i) {
    if (::fork() != 0) continue;  // before anything is opened
    ::close(pipe[1]);             // so that the read ends if the parent writes nothing
    std::array<char, 200> line{};
    if (::read(pipe[0], line.data(), line.size()) < 1) ::_exit(1);
    auto const done = ask(line.data(), "sender " + std::to_string(i));
    if (!done) std::cerr << "datagrams, a sender: " << done.error().describe() << '\n';
    ::_exit(done ? 0 : 1);
  }
  auto const failed = answer_all(pipe[1]);
  if (!failed) std::cerr << "datagrams: " << failed.error().describe() << '\n';
  if (!failed || failed.value() != 0) return 1;
  std::cout << senders << " senders have their answers\n";
  return 0;
}
