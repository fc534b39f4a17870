// SPDX-License-Identifier: MIT OR Apache-2.0
// How the two hosts meet, by each way there is, and what they tell each other over TCP. One thread.
#include "two_hosts.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>
#include <time.h>
#include <lend/network/connect.hpp>

#include <cstdlib>
#include <cstring>

namespace lend::test {

namespace {

std::string said(char const* name) {
  char const* const value = std::getenv(name);
  if (value == nullptr) FAIL(name << " is not set: two_hosts.hpp says what it is");
  return value;
}

sockaddr_in control_address() {
  auto const text = said("LEND_TEST_CONTROL");
  auto const colon = text.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1))));
  REQUIRE(::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) == 1);
  return address;
}

int accept_one(sockaddr_in const& address) {
  int const listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int const on = 1;
  REQUIRE(::setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  REQUIRE(::bind(listening, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listening, 1) == 0);
  int const fd = ::accept(listening, nullptr, nullptr);
  ::close(listening);
  return fd;
}

int connect_one(sockaddr_in const& address) {
  for (auto const deadline = within(bound); !deadline.has_passed();) {
    int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<sockaddr const*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    timespec const pause{0, 50'000'000};  // the other host may still be starting
    ::nanosleep(&pause, nullptr);
  }
  return -1;
}

Wire make_wire() {
  bool const listens = said("LEND_TEST_LISTENS") == "1";
  auto const address = control_address();
  int const fd = listens ? accept_one(address) : connect_one(address);
  REQUIRE(fd >= 0);
  // A peer that failed says no more.
  timeval const limit{std::chrono::seconds{2 * bound}.count(), 0};
  REQUIRE(::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  int const on = 1;
  REQUIRE(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  return {fd, listens};
}

Channel meet_by_network(PreparedChannel prepared) {
  if (!wire().is_peers())
    return must(connect(wire().take_text(), std::move(prepared), within(bound)));
  auto listener = must(Listener::open(said("LEND_TEST_ADDRESS") + ":0"));
  REQUIRE(wire().put_text(listener.address()));
  return must(listener.accept(std::move(prepared), within(bound)));
}

}  // namespace

Wire const& wire() {
  static Wire const only = make_wire();
  return only;
}

bool is_possible(Way way) {
  auto const context = open_test_device();
  return way == Way::rdma_cm ? !lacks(context, &DeviceCapabilities::rdma_cm)
                             : context.capabilities().endpoints;
}

HostEnd meet(Way way, ChannelOptions const& options) {
  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  PreparedChannel prepared = must(prepare_channel(domain, options));
  Channel channel = way == Way::rdma_cm ? meet_by_cm(wire(), std::move(prepared))
                                        : meet_by_network(std::move(prepared));
  REQUIRE(wire().say());
  REQUIRE(wire().hear());
  return {context, domain, std::move(channel)};
}

RemoteRegion swap_regions(MemoryRegion const& mine) {
  REQUIRE(wire().put(must(mine.remote()).encode()));
  std::array<std::byte, RemoteRegion::encoded_size> told{};
  REQUIRE(wire().take(told));
  return must(RemoteRegion::decode(told));
}

void fill(MemoryRegion& memory, std::size_t offset, std::size_t length, std::uint32_t number) {
  auto const bytes = must(memory.mutable_bytes(offset, length));
  for (std::size_t i = 0; i < length; ++i)
    bytes[i] = static_cast<std::byte>((number * 2654435761u + i * 31u) >> 7);
}

std::uint64_t checksum(MemoryRegion const& memory, std::size_t offset, std::size_t length) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (std::byte const byte : must(memory.bytes(offset, length)))
    sum = (sum ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  return sum;
}

void put_number(MemoryRegion& memory, std::size_t offset, std::uint64_t number) {
  std::memcpy(must(memory.mutable_bytes(offset, sizeof number)).data(), &number, sizeof number);
}

std::uint64_t number_at(MemoryRegion const& memory, std::size_t offset) {
  std::uint64_t number = 0;
  std::memcpy(&number, must(memory.bytes(offset, sizeof number)).data(), sizeof number);
  return number;
}

}  // namespace lend::test
