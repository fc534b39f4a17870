// SPDX-License-Identifier: MIT OR Apache-2.0
// HTTP, WebSocket and TLS over RDMA: Boost.Beast and OpenSSL on lend's streams.
//
//   http serve 127.0.0.1:0 FOLDER            says on standard output where it listens
//   http fetch 127.0.0.1:PORT /FILE COPY
//   http echo 127.0.0.1:PORT TEXT...         over a WebSocket
//
// TLS: the server takes --tls CERTIFICATE KEY, clients --tls CERTIFICATE, which they trust.
// Programs that know only TCP reach the server through examples/proxy.
#include <lend/lend.hpp>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client.hpp"
#include "server.hpp"

namespace net = boost::asio;
using Words = std::vector<std::string>;

/// What follows --tls, of which there must be so many; the words are without it then.
static std::optional<Words> take_tls(Words& words, std::size_t count) {
  auto const at = std::find(words.begin(), words.end(), "--tls");
  if (at == words.end()) return std::nullopt;
  Words files{at + 1, words.end()};
  words.erase(at, words.end());
  if (files.size() != count)
    throw std::runtime_error{"--tls takes CERTIFICATE KEY to serve, CERTIFICATE else"};
  return files;
}

static net::ssl::context server_tls(Words const& files) {
  net::ssl::context tls{net::ssl::context::tls_server};
  tls.use_certificate_chain_file(files[0]);
  tls.use_private_key_file(files[1], net::ssl::context::pem);
  return tls;
}

static net::ssl::context client_tls(Words const& files) {
  net::ssl::context tls{net::ssl::context::tls_client};
  tls.load_verify_file(files[0]);
  tls.set_verify_mode(net::ssl::verify_peer);
  return tls;
}

/// What the coroutine throws comes out of io.run().
static void rethrow(std::exception_ptr thrown) {
  if (thrown) std::rethrow_exception(thrown);
}

static lend::Result<void> serve(Words words, lend::ProtectionDomain const& domain) {
  auto const files = take_tls(words, 2);
  auto tls = files ? std::optional{server_tls(*files)} : std::nullopt;
  Site const site{words.at(2), tls ? &*tls : nullptr};
  net::io_context io{1};
  LEND_TRY(listener, lend::TransportListener::open(words.at(1)));
  lend::asio::acceptor acceptor{io.get_executor(), std::move(listener), domain};
  std::cout << "listening at " << acceptor.address() << std::endl;
  net::co_spawn(io, listen(acceptor, site), rethrow);
  io.run();
  return lend::success();
}

static lend::Result<void> ask(Words words, lend::ProtectionDomain const& domain) {
  auto const files = take_tls(words, 1);
  auto tls = files ? std::optional{client_tls(*files)} : std::nullopt;
  auto const colon = words.at(1).rfind(':');
  if (colon == std::string::npos) throw std::runtime_error{"not HOST:PORT"};
  Server const server{words[1].substr(0, colon), words[1].substr(colon + 1), tls ? &*tls : nullptr};
  net::io_context io{1};
  if (words[0] == "fetch")
    net::co_spawn(io, fetch(server, domain, words.at(2), words.at(3)), rethrow);
  else
    net::co_spawn(io, echo(server, domain, {words.begin() + 2, words.end()}), rethrow);
  io.run();
  return lend::success();
}

static lend::Result<void> run(Words const& words) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  return words.at(0) == "serve" ? serve(words, domain) : ask(words, domain);
}

int main(int count, char** arguments) try {
  Words const words{arguments + 1, arguments + count};
  auto const is = [&](char const* name, std::size_t least) {
    return words.size() >= least && words[0] == name;
  };
  if (!is("serve", 3) && !is("fetch", 4) && !is("echo", 3)) {
    std::cerr << "usage: http serve HOST:PORT FOLDER [--tls CERTIFICATE KEY]\n"
                 "       http fetch HOST:PORT /FILE COPY [--tls CERTIFICATE]\n"
                 "       http echo HOST:PORT TEXT... [--tls CERTIFICATE]\n";
    return 2;
  }
  auto const done = run(words);
  if (!done) std::cerr << "http: " << done.error().message() << '\n';
  return done ? 0 : 1;
} catch (std::exception const& error) {
  std::cerr << "http: " << error.what() << '\n';
  return 1;
}
