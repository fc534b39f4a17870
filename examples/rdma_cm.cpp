// SPDX-License-Identifier: MIT OR Apache-2.0
// Two processes that rdma_cm connects, which is the only way on iWARP and needs no TCP port: one
// answers the other's message.
//
//   rdma_cm listen 10.0.0.1:0        says where it listens; the address chooses the device
//   rdma_cm connect 10.0.0.1:PORT    LEND_DEVICE=siw0 for an iWARP device
//
// One thread each.
#include <lend/cm/connector.hpp>
#include <lend/cm/listener.hpp>
#include <lend/lend.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;
constexpr std::size_t room = 64;

lend::Result<void> answer(std::string_view address) {
  LEND_TRY(listener, lend::CmListener::open(address));
  std::cout << "listening at " << listener.address() << std::endl;
  LEND_TRY(request, listener.next(lend::within(patience)));

  LEND_TRY(device, lend::open_device(lend::DeviceChoice::named(request.device(), request.port())));
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(2 * room));
  LEND_TRY(prepared, lend::channel_builder(domain).build());
  // Before the peer may send: on iWARP a message without a receive ends the connection.
  LEND_TRY(question, prepared.post_receive(memory.scatter(0, room)));
  LEND_TRY(last, prepared.post_receive(memory.scatter(room, room)));
  LEND_TRY(connected,
           std::move(request).accept(prepared.take_queue_pair(), lend::within(patience)));
  LEND_TRY(channel, std::move(prepared).adopt(std::move(connected.queue_pair)));

  LEND_TRY(message, question.wait(lend::within(patience)));
  LEND_TRYV(channel.send(memory.gather(0, message.bytes), lend::within(patience)));
  auto const end = last.wait(lend::within(patience));
  if (!end && end.error() != lend::Errc::peer_lost) return end.error();
  std::cout << "answered over " << device.name() << ", and the peer has left\n";
  return lend::success();
}

lend::Result<void> ask(std::string_view address, std::string_view words) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(2 * room));
  LEND_TRY(prepared, lend::channel_builder(domain).build());
  LEND_TRY(pending, prepared.post_receive(memory.scatter(room, room)));
  LEND_TRY(connected,
           lend::cm_connect(address, prepared.take_queue_pair(), lend::within(patience)));
  LEND_TRY(channel, std::move(prepared).adopt(std::move(connected.queue_pair)));

  LEND_TRY(draft, memory.mutable_bytes(0, words.size()));
  std::ranges::copy(std::as_bytes(std::span{words}), draft.begin());
  // On iWARP the side that connected sends first.
  LEND_TRYV(channel.send(memory.gather(0, words.size()), lend::within(patience)));
  LEND_TRY(message, pending.wait(lend::within(patience)));
  LEND_TRY(came, memory.bytes(room, message.bytes));
  std::string const text{reinterpret_cast<char const*>(came.data()), came.size()};
  std::cout << connected.peer.address << " answers \"" << text << "\" over " << device.name()
            << '\n';
  return lend::success();  // the end of the channel disconnects
}

}  // namespace

int main(int count, char** arguments) {
  std::string_view const how = count == 3 ? arguments[1] : "";
  if (how != "listen" && how != "connect") {
    std::cerr << "usage: rdma_cm listen|connect HOST:PORT\n";
    return 2;
  }
  auto const done = how == "listen" ? answer(arguments[2]) : ask(arguments[2], "hello");
  if (!done) std::cerr << "rdma_cm: " << done.error().describe() << '\n';
  return done ? 0 : 1;
}
