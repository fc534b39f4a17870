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
#include <lend/network/connecting.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
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
    auto& parts = *parts_;
    auto name = to_look_up(parts);
    if (!name) return await(self, name.error());
    if (name.value().empty()) return connect(self, {parts.address});
    parts.name = std::move(name).value();
    look_up(self);
  }
  /// Looked up.
  template <class Self>
  void operator()(Self& self, error_code failed, Resolver::results_type const& found) {
    if (is_cancelled(self)) return end(self, Error{Errc::cancelled});
    auto& parts = *parts_;
    if (parts.deadline.has_passed()) return end(self, not_known(failed));
    if (!failed) {
      std::vector<std::string> addresses;
      for (auto const& each : found) addresses.push_back(text_of(each.endpoint()));
      return connect(self, addresses);
    }
    if (failed.category() == boost::asio::error::get_system_category())
      return end(self, Error::from_errno("looking up " + parts.name, failed.value()));
    if (auto lack = lack_of_descriptors()) return end(self, *std::move(lack));
    parts.failed = failed;
    parts.timer.expires_at((std::min)(parts.deadline.at(), within(parts.pause).at()));
    parts.pause = (std::min)(2 * parts.pause, pause_longest);
    parts.timer.async_wait(std::move(self));
  }
  /// A pause is over, by cancellation too.
  template <class Self>
  void operator()(Self& self, error_code) {
    if (is_cancelled(self)) return end(self, Error{Errc::cancelled});
    if (parts_->deadline.has_passed()) return end(self, not_known(parts_->failed));
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
    std::string name{};  // empty: there is none to look up
    error_code failed{};
  };

  /// Errors:  what needs no look-up to be wrong.
  [[nodiscard]] static Result<std::string> to_look_up(Parts const& parts) {
    LEND_TRYV(check_alone(parts.options.transport));
    return host_to_look_up(parts.address);
  }
  [[nodiscard]] std::string about_name() const {
    return "the host of " + parts_->address + " was not known: ";
  }
  [[nodiscard]] Error not_known(error_code failed) const {
    auto const reason = failed ? failed.message() : "the look-up took longer";
    return {Errc::timed_out, about_name() + reason + ", until the deadline"};
  }

  /// For want of descriptors the C library reports that the name is not known.
  [[nodiscard]] std::optional<Error> lack_of_descriptors() const {
    using boost::asio::ip::udp;
    error_code failed;
    udp::socket{parts_->executor}.open(udp::v4(), failed);
    if (!failed) return std::nullopt;
    auto error = Error::from_errno("looking up " + parts_->name, failed.value());
    return error == Errc::exhausted ? std::optional{std::move(error)} : std::nullopt;
  }

  [[nodiscard]] static std::string text_of(boost::asio::ip::tcp::endpoint const& endpoint) {
    auto const host = endpoint.address().to_string();
    return (endpoint.address().is_v6() ? '[' + host + ']' : host) + ':' +
           std::to_string(endpoint.port());
  }

  template <class Self>
  void look_up(Self& self) {
    auto& parts = *parts_;
    auto const port = parts.address.substr(parts.address.rfind(':') + 1);
    parts.resolver.async_resolve(parts.name, port, Resolver::numeric_service, std::move(self));
  }
  template <class Self>
  void connect(Self& self, std::vector<std::string> const& addresses) {
    auto const& options = parts_->options;
    await(self, TransportConnecting::begin(addresses, parts_->domain, that_sleep(options.transport),
                                           parts_->deadline, options.exchange));
  }
  /// Its end; an error is posted, too.
  template <class Self>
  void await(Self& self, Result<TransportConnecting> connecting) {
    auto const executor = parts_->executor;
    auto core = std::make_shared<Core>(executor, std::move(connecting));
    MakingInitiation<Core, As, Executor>{std::move(core), As{executor}, executor}(std::move(self));
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
