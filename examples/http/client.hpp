// SPDX-License-Identifier: MIT OR Apache-2.0
// An HTTP client over RDMA.
#pragma once

#include <lend/verbs/protection_domain.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>

#include <string>
#include <vector>

struct Server {
  std::string host, port;
  boost::asio::ssl::context* tls = nullptr;  // none: without TLS
};

/// Gets the file at `target`, as `file`. These throw what fails.
boost::asio::awaitable<void> fetch(Server server, lend::ProtectionDomain domain, std::string target,
                                   std::string file);

/// Sends the texts over a WebSocket, and prints what comes back.
boost::asio::awaitable<void> echo(Server server, lend::ProtectionDomain domain,
                                  std::vector<std::string> texts);
