// SPDX-License-Identifier: MIT OR Apache-2.0
// An HTTP server over RDMA.
#pragma once

#include <lend/asio/connect.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>

#include <filesystem>

struct Site {
  std::filesystem::path folder;
  boost::asio::ssl::context* tls = nullptr;  // none: without TLS
};

/// Accepts streams and serves each: GET and HEAD of the files in the folder, and a WebSocket that
/// returns what it is sent. Both arguments outlive it; it does not end.
boost::asio::awaitable<void> listen(lend::asio::acceptor& acceptor, Site const& site);
