// SPDX-License-Identifier: MIT OR Apache-2.0
// listen() and connect(): the exchange joined to a prepared channel.
#include <lend/network/connect.hpp>

#include <network/acceptor.hpp>
#include <network/exchange.hpp>

#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

namespace lend {
namespace {

Result<void> check_prepared(PreparedChannel const& prepared) {
  if (!prepared.is_used_up()) return success();
  return Error{Errc::stale_handle, "the prepared channel was used before; build another"};
}

Result<std::vector<network::SocketAddress>> candidates_at(std::string_view address, bool connects) {
  if (network::is_local_address(address)) {
    LEND_TRY(local, network::parse_local_address(address));
    return std::vector{local};
  }
  LEND_TRY(parsed, network::parse_address(address));
  if (connects && parsed.port == 0)
    return Error{Errc::invalid_argument,
                 "port 0 in \"" + std::string{address} + "\": name the port the peer listens on"};
  return resolve(parsed);
}

/// The file of a local listening socket; removed when the listener ends, but not by a forked child,
/// whose parent listens on.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(network::SocketAddress const& address)
      : path_{address.is_local() ? address.to_text().substr(5) : std::string{}} {
    if (path_.starts_with('@')) path_.clear();  // has no file
  }
  SocketFile(SocketFile&& other) noexcept
      : path_{std::exchange(other.path_, {})}, owner_{other.owner_} {}
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile() {
    if (!path_.empty() && ::getpid() == owner_) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  pid_t owner_ = ::getpid();
};

/// The last step of both sides: connects this end, and waits for the peer's status.
Result<Channel> finish_exchange(network::Peer const& peer, PreparedChannel prepared,
                                Deadline deadline) {
  auto const& socket = peer.socket;
  auto channel = std::move(prepared).handshake(peer.greeting.endpoint);
  bool const misfits = !channel && channel.error() == Errc::incompatible_peer;
  network::Status ours{network::StatusCode::ready, {}};
  if (!channel)
    ours = {misfits ? network::StatusCode::incompatible : network::StatusCode::failed,
            channel.error().message()};
  auto const theirs = network::exchange_status(peer, ours, deadline);
  // The endpoint of a process that died looks stale; that it died is the cause.
  if (misfits && !theirs && theirs.error() == Errc::peer_lost)
    return Error{Errc::peer_lost,
                 theirs.error().message() +
                     ". Its endpoint does not fit either: " + channel.error().message()};
  if (misfits)
    return Error{Errc::incompatible_peer,
                 network::about_peer(socket.address, "does not fit: " + channel.error().message())};
  if (!channel) return channel;
  if (!theirs) return theirs.error();
  if (theirs.value().code == network::StatusCode::ready) return channel;
  bool const rejected = theirs.value().code == network::StatusCode::incompatible;
  return Error{
      rejected ? Errc::incompatible_peer : Errc::peer_lost,
      network::about_peer(socket.address, "could not connect its end: " + theirs.value().text)};
}

}  // namespace

struct Listener::State {
  SocketFile file;
  network::Acceptor acceptor;
};

Listener::Listener(std::unique_ptr<State> state) noexcept : state_{std::move(state)} {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::open(std::string_view address, ExchangeOptions options) {
  auto made = network::Secret::of(options.secret);
  ::explicit_bzero(options.secret.data(), options.secret.size());
  LEND_TRY(secret, std::move(made));
  LEND_TRY(candidates, candidates_at(address, false));
  LEND_TRY(listening, network::open_listening(candidates));
  SocketFile file{candidates.front()};
  return Listener{std::make_unique<State>(
      State{std::move(file), network::Acceptor{std::move(listening), {}, std::move(secret)}})};
}

std::string const& Listener::address() const noexcept {
  if (!state_) stop("a Listener was used after it had been moved from");
  return state_->acceptor.address();
}

Result<Channel> Listener::accept(PreparedChannel prepared, Deadline deadline) {
  if (!state_) return Error{Errc::stale_handle, "this Listener was moved from"};
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(peer, state_->acceptor.accept({prepared.endpoint()}, deadline));
  return finish_exchange(peer, std::move(prepared), deadline);
}

Result<Channel> listen(std::string_view address, PreparedChannel prepared, Deadline deadline,
                       ExchangeOptions const& options) {
  LEND_TRY(listener, Listener::open(address, options));
  return listener.accept(std::move(prepared), deadline);
}

Result<Channel> connect(std::string_view address, PreparedChannel prepared, Deadline deadline,
                        ExchangeOptions const& options) {
  LEND_TRY(secret, network::Secret::of(options.secret));
  LEND_TRYV(check_prepared(prepared));
  LEND_TRY(candidates, candidates_at(address, true));
  LEND_TRY(socket, network::connect_with_retry(std::string{address}, candidates, deadline));
  if (auto const user = network::check_user(socket.fd.get()); !user)
    return Error{user.error().code(), network::about_peer(socket.address, user.error().message())};
  LEND_TRY(peer,
           network::greet_listener(std::move(socket), {prepared.endpoint()}, deadline, secret));
  return finish_exchange(peer, std::move(prepared), deadline);
}

}  // namespace lend
