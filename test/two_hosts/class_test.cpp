// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: every packet of a RoCE connection has the traffic class that its sender's end is to have,
// chosen by itself or by its peer. Method: each host listens on its netdev while both send, and
// READ from each other. It looks at the IP headers of what comes.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "two_hosts.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t several_packets = 10'000;

enum class Carries { messages, requests, answers, acknowledgements };
using Seen = std::map<Carries, std::set<unsigned>>;

/// The packets that come to a netdev. Those that leave it only sockets of ETH_P_ALL get.
/// Source: Linux net/core/dev.c, dev_queue_xmit_nit().
class Capture {
 public:
  Capture() : socket_{::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)} {
    REQUIRE(socket_ >= 0);
    sockaddr_ll netdev{};
    netdev.sll_family = AF_PACKET;
    netdev.sll_protocol = htons(ETH_P_IP);
    netdev.sll_ifindex = static_cast<int>(::if_nametoindex(std::getenv("LEND_TEST_LINK")));
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&netdev), sizeof netdev) == 0);
  }
  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;
  ~Capture() { ::close(socket_); }
  /// The classes of all RoCE packets of connections so far.
  Seen seen() {
    Seen all;
    std::array<unsigned char, 2048> packet;
    for (;;) {
      auto const got = ::recv(socket_, packet.data(), packet.size(), 0);
      if (got < 0) return all;
      auto const udp = (packet[0] & 0xfu) * 4;
      if (got < udp + 20 || packet[9] != IPPROTO_UDP) continue;
      if (packet[udp + 2] != 4791 >> 8 || packet[udp + 3] != (4791 & 0xff)) continue;
      auto const opcode = packet[udp + 8];  // of the BTH, behind UDP's header
      if (opcode > acknowledge) continue;   // of atomics, or of rdma_cm's datagrams
      all[carries(opcode)].insert(packet[1]);
    }
  }

 private:
  // Source: InfiniBand Architecture Specification vol. 1, table 38.
  static constexpr unsigned read_request = 0x0c, acknowledge = 0x11;
  static Carries carries(unsigned opcode) {
    if (opcode < read_request) return Carries::messages;
    if (opcode == read_request) return Carries::requests;
    return opcode < acknowledge ? Carries::answers : Carries::acknowledgements;
  }
  int socket_;
};

/// Each host writes several packets, and READs several.
void talk(HostEnd& end) {
  auto own = must(end.domain.allocate(several_packets));
  auto exposed =
      must(end.domain.unsafe_allocate_exposed(several_packets, RemoteAccess::read_write));
  auto const theirs = swap_regions(exposed);
  PollingScope scope{end.channel};
  auto written = must(scope.post_write({own.gather(0, several_packets), theirs}, within(bound)));
  must(written.wait(within(bound)));
  static_cast<void>(
      must(scope.post_read({own.scatter(0, several_packets), theirs}, within(bound))));
  must(scope.finish());
  REQUIRE(wire().say());
  REQUIRE(wire().hear());
}

}  // namespace

TEST_CASE("packets between two hosts have the traffic class that either end chose", "[two_hosts]") {
  auto const way = GENERATE(Way::endpoints, Way::rdma_cm);
  auto const context = open_test_device();
  if (lacks(context, &DeviceCapabilities::endpoints)) return;  // iWARP refuses a class
  if (!is_possible(way)) return;
  constexpr unsigned of_acceptor = 104, of_connector = 40;  // DSCP 26 and 10
  for (auto const& [acceptor, connector] :
       {std::pair{of_acceptor, 0u}, {0u, of_connector}, {of_acceptor, of_connector}}) {
    CAPTURE(static_cast<int>(way), acceptor, connector);
    bool const accepts = wire().is_peers();
    ChannelOptions options;
    if (auto const own = accepts ? acceptor : connector; own != 0)
      options.queue_pair.connection.traffic_class = static_cast<std::uint8_t>(own);
    auto end = meet(way, options);
    Capture capture;
    talk(end);

    auto const at_acceptor = acceptor != 0 ? acceptor : connector;
    auto const at_connector = connector != 0 ? connector : acceptor;
    auto const expected = std::set{accepts ? at_connector : at_acceptor};
    auto seen = capture.seen();
    for (auto const carries :
         {Carries::messages, Carries::requests, Carries::answers, Carries::acknowledgements}) {
      CAPTURE(static_cast<int>(carries));
      CHECK(seen[carries] == expected);
    }
  }
}
