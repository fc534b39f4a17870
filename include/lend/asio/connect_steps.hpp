// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of a connect as one operation of Boost.Asio's: a name is looked up until it is known,
// and then its addresses are tried in turn. For `connect.hpp` and `channels.hpp`.
#pragma once

#include <lend/asio/error.hpp>
#include <lend/asio/making_core.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>
#include <lend/network/connect.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <boost/version.hpp>

#if BOOST_VERSION >= 107700
#include <boost/asio/cancellation_state.hpp>
#endif

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lend::asio {

struct ConnectOptions {
  TransportOptions transport{};
  ExchangeOptions exchange{};
  std::chrono::nanoseconds patience = std::chrono::seconds{30};  ///< from the call on
};

namespace implementation {

/// Not adaptive, under which a transport may have no descriptor to sleep on.
[[nodiscard]] inline TransportOptions that_sleep(TransportOptions options) noexcept {
  if (options.wait == Wait::adaptive) options.wait = Wait::event;
  return options;
}

[[nodiscard]] inline Result<void> check_alone(TransportOptions const& options) {
  if (options.wait_set == nullptr && options.pool == nullptr) return success();
  return Error{Errc::invalid_argument,
               "Boost.Asio's streams and messages sleep on a descriptor of their own, and those of "
               "a WaitSet or MessagePool on the set's: leave TransportOptions::wait_set and pool "
               "null"};
}
[[nodiscard]] inline Result<void> check_stream(TransportOptions const& options) {
  if (options.lent_bytes_max == 0) return success();
  return Error{Errc::invalid_argument,
               "a stream reads no lent messages: leave TransportOptions::lent_bytes_max 0, or "
               "accept messages"};
}

/// For a handler's values: a `Connection`, made of a `Held`, which is made of a transport.
template <class Connection, class Held, class Executor>
class AsConnection {
 public:
  explicit AsConnection(Executor const& executor) noexcept : executor_{executor} {}
  template <class Made>
  [[nodiscard]] auto operator()(boost::system::error_code code, Made made,
                                std::optional<Error> why) const {
    if (made) return std::tuple{code, Connection{executor_, Held{transport_of(std::move(*made))}}};
    return std::tuple{code, Connection{executor_, *std::move(why)}};
  }

 private:
  [[nodiscard]] static AnyTransport transport_of(AnyTransport made) noexcept { return made; }
  [[nodiscard]] static AnyTransport transport_of(Accepted<AnyTransport> accepted) noexcept {
    return std::move(accepted.made);
  }
  Executor executor_;
};

template <class Connection, class Held>
class ConnectSteps {
  using Executor = boost::asio::any_io_executor;
  using Resolver = boost::asio::ip::tcp::resolver;
  using error_code = boost::system::error_code;
  using Core = MakingCore<TransportConnecting>;
  using As = AsConnection<Connection, Held, Executor>;

 public:
  ConnectSteps(Executor const& executor, std::string address, ProtectionDomain domain,
               ConnectOptions options)
      : parts_{std::make_unique<Parts>(executor, std::move(address), std::move(domain),
                                       std::move(options))} {}

  template <class Self>
  void operator()(Self& self) {
#if BOOST_VERSION >= 107700
    self.reset_cancellation_state(boost::asio::enable_total_cancellation());
#endif
    find_name();
    parts_->name.empty() ? connect(self, {parts_->address}) : look_up(self);
  }
  /// Looked up.
  template <class Self>
  void operator()(Self& self, error_code failed, Resolver::results_type const& found) {
    if (is_cancelled(self)) return end(self, Error{Errc::cancelled});
    if (!failed) {
      std::vector<std::string> addresses;
      for (auto const& each : found) addresses.push_back(text_of(each.endpoint()));
      return connect(self, addresses);
    }
    bool const may_be_known_later = failed == boost::asio::error::host_not_found ||
                                    failed == boost::asio::error::host_not_found_try_again ||
                                    failed == boost::asio::error::no_data;
    auto& parts = *parts_;
    auto const about = "the host of " + parts.address + " was not known";
    if (!may_be_known_later)
      return end(self, Error{Errc::system_failed, about + ": " + failed.message()});
    if (parts.deadline.has_passed())
      return end(self,
                 Error{Errc::timed_out, about + " before the deadline (" + failed.message() + ")"});
    parts.timer.expires_at((std::min)(parts.deadline.at(), within(parts.pause).at()));
    parts.pause = (std::min)(2 * parts.pause, pause_longest);
    parts.timer.async_wait(std::move(self));
  }
  /// A pause is over, by cancellation too.
  template <class Self>
  void operator()(Self& self, error_code) {
    if (is_cancelled(self)) return end(self, Error{Errc::cancelled});
    look_up(self);
  }
  template <class Self>
  void operator()(Self& self, error_code code, Connection connection) {
    self.complete(code, std::move(connection));
  }

 private:
  using Milliseconds = std::chrono::milliseconds;
  // As connect() of a name.
  static constexpr Milliseconds pause_shortest{100}, pause_longest{2'000};

  struct Parts {
    Parts(Executor const& own_executor, std::string own_address, ProtectionDomain own_domain,
          ConnectOptions own_options)
        : executor{own_executor},
          address{std::move(own_address)},
          domain{std::move(own_domain)},
          options{std::move(own_options)},
          deadline{within(options.patience)},
          resolver{executor},
          timer{executor} {}
    Executor executor;
    std::string address;
    ProtectionDomain domain;
    ConnectOptions options;
    Deadline deadline;
    Resolver resolver;
    boost::asio::steady_timer timer;
    Milliseconds pause = pause_shortest;
    std::string name{}, port{};  // empty: the address is a number, or none that a resolver knows
  };

  [[nodiscard]] static std::string text_of(boost::asio::ip::tcp::endpoint const& endpoint) {
    auto const host = endpoint.address().to_string();
    return (endpoint.address().is_v6() ? '[' + host + ']' : host) + ':' +
           std::to_string(endpoint.port());
  }

  /// If the address has a name.
  void find_name() {
    auto const& address = parts_->address;
    auto const colon = address.rfind(':');
    if (colon == address.npos || address.starts_with("unix:") || address.starts_with('[')) return;
    auto host = address.substr(0, colon);
    auto port = address.substr(colon + 1);
    error_code is_name;
    boost::asio::ip::make_address(host, is_name);
    bool const has_port = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
    if (!is_name || !has_port || host.empty() || host.find(':') != host.npos) return;
    parts_->name = std::move(host);
    parts_->port = std::move(port);
  }
  template <class Self>
  void look_up(Self& self) {
    auto& parts = *parts_;
    parts.resolver.async_resolve(parts.name, parts.port, Resolver::numeric_service,
                                 std::move(self));
  }
  template <class Self>
  void connect(Self& self, std::vector<std::string> const& addresses) {
    auto& parts = *parts_;
    auto const executor = parts.executor;
    auto core = std::make_shared<Core>(executor, begun(parts, addresses));
    MakingInitiation<Core, As, Executor>{std::move(core), As{executor}, executor}(std::move(self));
  }
  [[nodiscard]] static Result<TransportConnecting> begun(
      Parts const& parts, std::vector<std::string> const& addresses) {
    auto const& options = parts.options;
    LEND_TRYV(check_alone(options.transport));
    return TransportConnecting::begin(addresses, parts.domain, that_sleep(options.transport),
                                      parts.deadline, options.exchange);
  }
  template <class Self>
  void end(Self& self, Error const& why) {
    self.complete(code_of(why), Connection{parts_->executor, why});
  }
  template <class Self>
  [[nodiscard]] static bool is_cancelled([[maybe_unused]] Self const& self) noexcept {
#if BOOST_VERSION >= 107700
    return self.cancelled() != boost::asio::cancellation_type::none;
#else
    return false;
#endif
  }

  std::unique_ptr<Parts> parts_;
};

template <class Connection, class Held, class Token>
auto connect(boost::asio::any_io_executor const& executor, std::string address,
             ProtectionDomain domain, ConnectOptions options, Token& token) {
  return boost::asio::async_compose<Token, void(boost::system::error_code, Connection)>(
      ConnectSteps<Connection, Held>{executor, std::move(address), std::move(domain),
                                     std::move(options)},
      token, executor);
}

}  // namespace implementation

}  // namespace lend::asio
