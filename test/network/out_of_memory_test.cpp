// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a call that connects and finds no memory throws std::bad_alloc or returns an error, never
// ends the process, and the next call is as good as the first. Method: every allocation of the call
// fails once. The other side is played by hand: it has sent all that it will ever send.
#include <lend/network/connect.hpp>

#include "network/raw_peers.hpp"
#include "support/each_failure.hpp"

using namespace lend;
using namespace lend::test;

namespace {

struct Station {
  Context context = must(open_device(DeviceChoice::soft()));
  ProtectionDomain domain = must(context.allocate_protection_domain());

  [[nodiscard]] PreparedChannel prepared() const { return must(prepare_channel(domain, {})); }
};

/// How the other side behaves.
enum class Other { good, misfit, failing, vanishing, foreign, secretive, absent };

/// All that it sends, with the endpoint of `prepared`.
Bytes bytes_from(Other other, PreparedChannel const& prepared, bool connects) {
  if (other == Other::absent) return {};
  if (other == Other::foreign) return bytes_of("GET / HTTP/1.1\r\n\r\n");
  auto endpoint = prepared.endpoint();
  if (other == Other::misfit) endpoint.device_kind = DeviceKind::card;
  if (other == Other::secretive) return secret_hello();
  // Longer than what a string keeps in itself, as the texts of statuses below.
  auto bytes = introduction({endpoint, std::string(40, 'n')});
  auto const add = [&](network::StatusCode code) {
    bytes =
        joined(std::move(bytes), bytes_of(encode(network::Status{code, std::string(100, 't')})));
  };
  if (connects) add(network::StatusCode::agreed);
  if (other != Other::vanishing)
    add(other == Other::failing ? network::StatusCode::failed : network::StatusCode::ready);
  return bytes;
}

/// A deadline for a call that such a side lets succeed or fail, or that has to wait for more.
Deadline deadline_for(Other other) {
  bool const waits = other == Other::foreign || other == Other::secretive || other == Other::absent;
  return waits ? within(2ms) : within(patience);
}

/// A listener that plays `other` to each connection until it is destroyed.
class Server {
 public:
  explicit Server(Bytes bytes) : serving_{[this, bytes = std::move(bytes)] { serve(bytes); }} {}
  Server(Server const&) = delete;
  Server& operator=(Server const&) = delete;
  ~Server() {
    ::shutdown(listening_.fd.get(), SHUT_RDWR);
    serving_.join();
  }
  [[nodiscard]] std::string const& address() const noexcept { return listening_.address; }

 private:
  void serve(Bytes const& bytes) {
    std::vector<network::Socket> served;
    for (;;) {
      pollfd waiting{listening_.fd.get(), POLLIN, 0};
      if (!must(network::wait_for({&waiting, 1}, within(patience)))) return;
      auto taken = network::take_connection(listening_.fd.get());
      if (!taken) return;
      if (!taken.value().fd) continue;
      say(taken.value(), bytes);
      ::shutdown(taken.value().fd.get(), SHUT_WR);
      served.push_back(std::move(taken).value());
    }
  }

  network::Socket listening_ = loopback_listener();
  std::thread serving_;
};

}  // namespace

TEST_CASE("a listener that finds no memory accepts the next peer", "[network]") {
  auto const other = GENERATE(Other::good, Other::misfit, Other::failing, Other::vanishing,
                              Other::foreign, Other::secretive, Other::absent);
  CAPTURE(static_cast<int>(other));
  Station const here;
  Station const there;
  for_each_failure(1, [&](std::uint64_t allowed) {
    auto listener = must(Listener::open("127.0.0.1:0"));
    auto const come = [&](Other kind, PreparedChannel const& prepared) {
      auto socket = dial(listener.address());
      say(socket, bytes_from(kind, prepared, true));
      return socket;
    };
    auto const first = there.prepared();
    auto const first_socket = come(other, first);
    if (other != Other::absent) ::shutdown(first_socket.fd.get(), SHUT_WR);
    auto prepared = here.prepared();
    auto const deadline = deadline_for(other);
    bool const needed_more =
        starved(allowed, [&] { return listener.accept(std::move(prepared), deadline); });

    auto const second = there.prepared();
    auto const second_socket = come(Other::good, second);
    // What an unlucky call left behind may cost further ones.
    bool is_in = false;
    for (int calls = 0; !is_in && calls < 3; ++calls)
      is_in = listener.accept(here.prepared(), within(patience)).has_value();
    CHECK(is_in);
    return needed_more;
  });
}

TEST_CASE("a connecting side that finds no memory throws or returns an error", "[network]") {
  auto const other = GENERATE(Other::good, Other::misfit, Other::failing, Other::vanishing,
                              Other::foreign, Other::secretive, Other::absent);
  CAPTURE(static_cast<int>(other));
  Station const here;
  Station const there;
  auto const peer = there.prepared();
  for_each_failure(1, [&](std::uint64_t allowed) {
    Server const server{bytes_from(other, peer, false)};
    auto prepared = here.prepared();
    auto const deadline = deadline_for(other);
    return starved(allowed,
                   [&] { return connect(server.address(), std::move(prepared), deadline); });
  });
}

TEST_CASE("a wait for a listener that finds no memory throws or returns an error", "[network]") {
  Station const here;
  auto const gone = loopback_listener().address;
  for_each_failure(1, [&](std::uint64_t allowed) {
    auto prepared = here.prepared();
    return starved(allowed, [&] { return connect(gone, std::move(prepared), within(2ms)); });
  });
}

TEST_CASE("a listener opens without memory, throws or returns an error", "[network]") {
  auto const address = GENERATE("127.0.0.1:0", "nonsense", "192.0.2.1:0");
  for_each_failure(1, [&](std::uint64_t allowed) {
    return starved(allowed, [&] { return Listener::open(address); });
  });
}
