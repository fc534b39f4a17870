// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: two processes of one user meet at a local socket without a secret; nobody else does.
// Method: threads, and a process that becomes another user where this one may.
#include <lend/network/connect.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "network/raw_peers.hpp"
#include "network/station.hpp"
#include "support/peer_process.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// A path of this process's own, in a folder that exists.
std::string free_path() {
  auto const path = std::filesystem::temp_directory_path() /
                    ("lend-local-test-" + std::to_string(::getpid()) + ".socket");
  std::filesystem::remove(path);
  return path;
}
std::string abstract_name() {
  return "unix:@lend-local-test-" + std::to_string(::getpid());
}

constexpr uid_t other_user = 65534;

}  // namespace

TEST_CASE("two sides of one user connect at a local socket, which leaves no file", "[network]") {
  Station station;
  if (lacks(station.context, &DeviceCapabilities::endpoints)) return;
  auto const path = free_path();
  auto const address = GENERATE_COPY("unix:" + path, abstract_name());
  std::optional<Result<Channel>> far;
  {
    // It starts first and waits for the name to be there.
    std::thread connecting{[&] { far = connect(address, station.prepared(), within(patience)); }};
    auto listener = must(Listener::open(address));
    CHECK(listener.address() == address);
    CHECK(std::filesystem::exists(path) == (address == "unix:" + path));
    auto near = listener.accept(station.prepared(), within(patience));
    connecting.join();
    CHECK(must(std::move(near)).peer() == must(std::move(*far)).endpoint());
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a forked child that ends a listener leaves its socket to the parent", "[network]") {
  auto const path = free_path();
  auto listener = must(Listener::open("unix:" + path));
  PeerProcess child{[&listener](Wire const&) {
    { auto const ended = std::move(listener); }
    return 0;
  }};
  CHECK(child.exit_status() == 0);
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("a local socket refuses a process of another user, and is refused by one", "[network]") {
  Station station;
  if (::geteuid() != 0) {
    WARN("skipped: only root can become another user");
    return;
  }
  auto const address = abstract_name();
  auto acceptor = must(network::Acceptor::open(
      must(network::open_listening(std::array{must(network::parse_local_address(address))}))));
  PeerProcess stranger{[&address](Wire const& wire) {
    if (::setresuid(other_user, other_user, other_user) != 0 || !wire.say()) return 2;
    auto const listener = network::connect_with_retry(
        address, always({must(network::parse_local_address(address))}), within(patience));
    if (!listener) return 3;
    bool const is_refused = network::check_user(listener.value().fd.get()).has_error();
    say(listener.value(), good_greeting());
    auto const status = must(frame_in(hear(listener.value())).status());
    return is_refused && status.code == network::StatusCode::foreign ? 0 : 1;
  }};

  if (!stranger.wire().hear()) {
    WARN("skipped: this root may not become another user");
    return;
  }
  std::string complaint;
  while (complaint.find("is of user 65534, this side of user 0") == std::string::npos)
    complaint = error_of(acceptor.accept(greeting_with(1), within(20ms))).message();

  CHECK(stranger.exit_status() == 0);
}

TEST_CASE("a local name that is taken is refused, and stays its owner's", "[network]") {
  auto const path = free_path();
  std::ofstream{path} << "a file";

  auto const error = error_of(Listener::open("unix:" + path));

  CHECK_THAT(error.message(), Catch::Contains(path) && Catch::Contains("remove the file"));
  CHECK(std::filesystem::file_size(path) == 6);
  std::filesystem::remove(path);
}

TEST_CASE("what is no local address is refused with a reason", "[network]") {
  auto const why = [](std::string const& text) {
    auto const error = error_of(Listener::open(text));
    CHECK(error == Errc::invalid_argument);
    return error.message();
  };

  CHECK_THAT(why("unix:"), Catch::Contains("has no path"));
  CHECK_THAT(why("unix:@"), Catch::Contains("has no path"));
  CHECK_THAT(why("unix:/" + std::string(107, 'x')), Catch::Contains("too long a path"));
  CHECK_THAT(why(std::string("unix:/a\0b", 9)), Catch::Contains("zero byte"));
}
