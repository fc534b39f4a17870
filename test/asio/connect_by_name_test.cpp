// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: async_connect() by name is Asio's look-up and then a connect, keeps its patience, and ends
// with the io_context at whichever step it is. Method: names that are known, or that no server
// knows, and addresses without a listener.
#include <lend/asio/connect.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "asio/streams.hpp"
#include "support/few_descriptors.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("peers connect by a host's name", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  net::io_context io;
  asio::acceptor acceptor{io.get_executor(), must(TransportListener::open("127.0.0.1:0")),
                          domain_of_test()};
  auto const port = acceptor.address().substr(acceptor.address().rfind(':'));
  std::optional<asio::stream> near, far;
  acceptor.async_accept([&](error_code, asio::stream made) { near = std::move(made); });
  asio::async_connect(io.get_executor(), "localhost" + port, domain_of_test(),
                      [&](error_code, asio::stream made) { far = std::move(made); });
  run_until(io, [&] { return near && far; });
  CHECK((near->is_open() && far->is_open()));
}

namespace {

constexpr char const* unknown_host = "no-such-host.invalid:1";

/// What a connect to an address without a listener ends with.
Error end_of_connect(std::string const& address, asio::ConnectOptions const& options = {}) {
  net::io_context io;
  std::optional<Error> why;
  asio::async_connect(io.get_executor(), address, domain_of_test(), options,
                      [&](error_code code, asio::stream const& stream) {
                        why = stream.last_error();
                        CHECK(code == asio::code_of(why.value()));
                      });
  CHECK_FALSE(why);  // never inside the call
  run(io);
  return why.value();
}

}  // namespace

TEST_CASE("a name that is not known is looked up until the deadline", "[asio]") {
  asio::ConnectOptions options;
  options.patience = 250ms;
  auto const began = std::chrono::steady_clock::now();
  auto const why = end_of_connect(unknown_host, options);
  CHECK(std::chrono::steady_clock::now() - began >= 250ms);
  CHECK(why == Errc::timed_out);
  CHECK(why.message().find(std::string{unknown_host} + " was not known") != std::string::npos);
}

TEST_CASE("a look-up without descriptors is no name that is not known", "[asio]") {
  net::io_context io;
  auto const domain = domain_of_test();
  std::optional<Error> why;
  net::ip::tcp::resolver const resolver{io};  // these open descriptors for the io_context
  net::steady_timer const timer{io};
  FewDescriptors const none;
  asio::async_connect(io.get_executor(), unknown_host, domain,
                      [&](error_code, asio::stream const& stream) { why = stream.last_error(); });
  run(io);
  CHECK(why.value() == Errc::exhausted);
}

TEST_CASE("an address with a name is refused where one with a number is", "[asio]") {
  for (auto const* address : {"localhost:99999", "localhost:0", "localhost", "*:80", "ho st:80"})
    CHECK(end_of_connect(address) == Errc::invalid_argument);
  auto set = must(WaitSet::create(open_test_device()));
  asio::ConnectOptions of_set;
  of_set.transport.wait_set = &set;
  CHECK(end_of_connect(unknown_host, of_set) == Errc::invalid_argument);
}

TEST_CASE("an io_context that goes ends connects, at whichever step they are", "[asio]") {
  if (lacks(open_test_device(), &DeviceCapabilities::endpoints)) return;
  auto const owned = std::make_shared<int>(0);
  auto const address = GENERATE(as<std::string>{}, unknown_host, "127.0.0.1:1");
  auto const time = GENERATE(0ms, 20ms);
  {
    net::io_context io;
    asio::async_connect(io.get_executor(), address, domain_of_test(),
                        [owned](error_code, asio::stream const&) { FAIL("called"); });
    io.run_for(time);
    CHECK(owned.use_count() > 1);
  }
  CHECK(owned.use_count() == 1);
}
