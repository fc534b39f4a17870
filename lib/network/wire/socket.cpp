// SPDX-License-Identifier: MIT OR Apache-2.0
// The TCP calls. Every socket is non-blocking and closed on exec.
#include <base/giving_up.hpp>
#include <network/wire/socket.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>

namespace lend::network {

std::string words_for(int errno_value) {
  return std::generic_category().message(errno_value);
}

bool may_pass(int errno_value) {
  switch (errno_value) {
    case ENOENT:  // the file of a local socket
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:  // also: out of ephemeral ports for the moment
    case EAGAIN: return true;
    default: return false;
  }
}

namespace {

using namespace std::chrono_literals;

// How long the kernel waits for the first byte of a connection before it shows it nevertheless.
constexpr int silence_seconds = 1;
// Of all ranks of a job that wait for one name, each asks its server so often.
constexpr Deadline::Clock::duration look_up_shortest = 100ms;
constexpr Deadline::Clock::duration look_up_longest = 2s;

/// Why none of some candidates was reached.
class Refusals {
 public:
  explicit Refusals(bool of_several) noexcept : of_several_{of_several} {}

  void add(SocketAddress const& candidate, int errno_value) {
    if (!text_.empty()) text_ += ", ";
    if (of_several_) text_ += candidate.to_text() + ": ";
    text_ += words_for(errno_value);
  }
  [[nodiscard]] std::string const& text() const noexcept { return text_; }

 private:
  bool of_several_;
  std::string text_;
};

void set_option(int fd, int level, int option, int value = 1) {
  // Options make things better where they exist; a socket without them still works.
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

Result<base::UniqueFd> new_socket(SocketAddress const& address) {
  int const type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  base::UniqueFd fd{
      ::socket(address.storage.ss_family, type, address.is_local() ? 0 : IPPROTO_TCP)};
  if (!fd) return Error::from_errno("socket for " + address.to_text(), errno);
  return fd;
}

char const* hint_in_use(SocketAddress const& address) {
  if (!address.is_local()) return "choose another port, or 0 for any";
  return "choose another name, or remove the file if its listener was killed";
}

/// At what bind(2) takes `address` for.
Result<Socket> listen_exactly_at(SocketAddress const& address) {
  LEND_TRY(fd, new_socket(address));
  // Whatever net.ipv6.bindv6only says. Source: ipv6(7).
  if (address.is_any()) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR);
  // The connecting side sends first. Until it does, the kernel keeps the connection to itself.
  // Source: tcp(7), TCP_DEFER_ACCEPT.
  set_option(fd.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, silence_seconds);
  if (::bind(fd.get(), address.native(), address.length) != 0) {
    int const why = errno;
    if (why == EADDRNOTAVAIL)
      return Error{Errc::not_found, address.to_text() +
                                        " is not an address of this host; listen on one it has, "
                                        "or on 0.0.0.0 or [::] for all"};
    return Error::from_errno("bind to " + address.to_text(), why,
                             why == EADDRINUSE ? hint_in_use(address) : "");
  }
  if (::listen(fd.get(), SOMAXCONN) != 0)
    return Error::from_errno("listen on " + address.to_text(), errno);
  SocketAddress bound;
  if (::getsockname(fd.get(), bound.native(), &bound.length) != 0)
    return Error::from_errno("getsockname for " + address.to_text(), errno);
  return Socket{std::move(fd), bound.to_text()};
}

/// Whether an address is none of this host's, or of a family that its kernel lacks, or link-local
/// without an interface, which a name may have. Source: ipv6(7), EINVAL.
bool is_foreign(Error const& error) {
  return error == Errc::not_found || error == Errc::unsupported || error.os_error() == EINVAL;
}

Result<Socket> listen_at(SocketAddress const& address) {
  auto listening = listen_exactly_at(address);
  if (listening || !address.is_any() || !is_foreign(listening.error())) return listening;
  SocketAddress of_ipv4;
  of_ipv4.length = sizeof(sockaddr_in);
  of_ipv4.storage.ss_family = AF_INET;
  of_ipv4.set_port(address.port());
  return listen_exactly_at(of_ipv4);
}

/// One attempt at one candidate. Errors have the errno.
Result<Socket> attempt(SocketAddress const& candidate, Deadline deadline) {
  LEND_TRY(socket, begin_attempt(candidate));
  pollfd waiting{socket.fd.get(), POLLOUT, 0};
  LEND_TRY(ready, wait_for({&waiting, 1}, deadline));
  int const why = ready ? outcome_of_attempt(socket.fd.get()) : ETIMEDOUT;
  if (why != 0) return Error::from_errno("connect to " + candidate.to_text(), why);
  return socket;
}

/// One attempt at each. An empty socket: `refusals` has why none accepted, which may pass.
/// Errors:  of the first, where no time mends that of any.
Result<Socket> attempt_each(std::span<SocketAddress const> candidates, Deadline deadline,
                            std::string& refusals) {
  Refusals all{candidates.size() > 1};
  std::optional<Error> hopeless;
  bool has_hope = false;
  for (auto left = candidates; !left.empty(); left = left.subspan(1)) {
    auto const& candidate = left.front();
    auto const own = within(attempt_longest(left.size(), deadline));
    auto socket = attempt(candidate, sooner(deadline, own));
    if (socket) return socket;
    auto const& why = socket.error();
    all.add(candidate, why.os_error());
    if (may_pass(why.os_error()))
      has_hope = true;  // EAGAIN is exhausted elsewhere
    else if (why == Errc::exhausted)
      return why;
    else if (!hopeless)
      hopeless = why;
    if (deadline.has_passed()) {
      has_hope = has_hope || left.size() > 1;
      break;
    }
  }
  if (hopeless && !has_hope) return *hopeless;
  refusals = all.text();
  return Socket{};
}

/// Gives the port of a listener to those that want one of the system's choice.
Result<void> take_port(int listening, std::span<SocketAddress> candidates) {
  SocketAddress bound;
  if (::getsockname(listening, bound.native(), &bound.length) != 0)
    return Error::from_errno("getsockname", errno);
  for (auto& one : candidates)
    if (!one.is_local() && one.port() == 0) one.set_port(bound.port());
  return success();
}

}  // namespace

Result<void> check_user(int fd) {
  int family = 0;
  socklen_t size = sizeof family;
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0)
    return Error::from_errno("getsockopt SO_DOMAIN", errno);
  if (family != AF_UNIX) return success();
  ucred other{};
  size = sizeof other;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) != 0)
    return Error::from_errno("getsockopt SO_PEERCRED", errno);
  if (other.uid == ::geteuid()) return success();
  return Error{Errc::denied, "is of user " + std::to_string(other.uid) + ", this side of user " +
                                 std::to_string(::geteuid())};
}

Deadline::Clock::duration attempt_longest(std::size_t left, Deadline deadline) {
  if (left == 1) return 10s;
  return std::min<Deadline::Clock::duration>(
      deadline.left() / static_cast<Deadline::Clock::rep>(left), 2s);
}

Result<Socket> begin_attempt(SocketAddress const& address) {
  LEND_TRY(fd, new_socket(address));
  set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY);
  // An interrupted connect goes on in the background like one that has just begun.
  if (::connect(fd.get(), address.native(), address.length) != 0 && errno != EINPROGRESS &&
      errno != EINTR)
    return Error::from_errno("connect to " + address.to_text(), errno);
  return Socket{std::move(fd), address.to_text()};
}

int outcome_of_attempt(int fd) {
  int why = 0;
  socklen_t size = sizeof why;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0) return errno;
  if (why != 0) return why;
  return is_connected_to_itself(fd) ? ECONNREFUSED : 0;
}

bool is_connected_to_itself(int fd) {
  SocketAddress near_end;
  SocketAddress far_end;
  if (::getsockname(fd, near_end.native(), &near_end.length) != 0) return false;
  if (::getpeername(fd, far_end.native(), &far_end.length) != 0) return false;
  return near_end.length == far_end.length &&
         std::memcmp(&near_end.storage, &far_end.storage, near_end.length) == 0;
}

bool has_hung_up(int fd) {
  pollfd polled{fd, POLLRDHUP, 0};
  return ::poll(&polled, 1, 0) > 0;
}

Result<bool> wait_for(std::span<pollfd> descriptors, Deadline deadline) {
  for (;;) {
    int const ready =
        ::poll(descriptors.data(), descriptors.size(), base::poll_milliseconds(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Error::from_errno("poll", errno);
    if (deadline.has_passed()) return false;
  }
}

Result<void> sleep_on(std::span<int const> descriptors, Deadline deadline) {
  std::vector<pollfd> polled;
  for (int const descriptor : descriptors) polled.push_back({descriptor, POLLIN, 0});
  LEND_TRYV(without_value(wait_for(polled, deadline)));
  return success();
}

Result<Socket> open_listening(std::span<SocketAddress const> candidates) {
  LEND_ASSERT(!candidates.empty());
  auto first = listen_at(candidates.front());
  if (first) return first;
  for (auto const& candidate : candidates.subspan(1)) {
    auto next = listen_at(candidate);
    if (next) return next;
  }
  return first;
}

Result<std::vector<Socket>> open_all_listening(std::vector<SocketAddress> candidates) {
  LEND_ASSERT(!candidates.empty());
  std::vector<Socket> all;
  std::optional<Error> first_error;
  for (auto at = candidates.begin(); at != candidates.end(); ++at) {
    bool const is_repeated = std::any_of(candidates.begin(), at, [&](SocketAddress const& one) {
      return one.to_text() == at->to_text();
    });
    if (is_repeated) continue;
    auto listening = listen_at(*at);
    if (listening) {
      all.push_back(std::move(listening).value());
      LEND_TRYV(take_port(all.back().fd.get(), candidates));
    } else if (!is_foreign(listening.error())) {
      return listening.error();
    } else if (!first_error) {
      first_error = listening.error();
    }
  }
  if (all.empty()) return *first_error;
  return all;
}

Result<Socket> take_connection(int listening) {
  for (;;) {
    SocketAddress peer;
    base::UniqueFd fd{
        ::accept4(listening, peer.native(), &peer.length, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (fd) {
      set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY);
      return Socket{std::move(fd), peer.to_text()};
    }
    int const why = errno;
    if (why == EAGAIN) return Socket{};
    // Linux hands errors of the connection that was waiting to accept(2): that one is gone, the
    // next may be fine. Source: accept(2), "Error handling".
    bool const only_this_one = why == EINTR || why == ECONNABORTED || why == EPROTO ||
                               why == ENETDOWN || why == ENOPROTOOPT || why == EHOSTDOWN ||
                               why == ENONET || why == EHOSTUNREACH || why == EOPNOTSUPP ||
                               why == ENETUNREACH || why == EPERM;
    if (only_this_one) continue;
    auto const error = Error::from_errno("accept", why);
    return error == Errc::exhausted ? error : Error::from_errno(Errc::system_failed, "accept", why);
  }
}

Result<std::vector<SocketAddress>> find_candidates(std::string const& name, LookUp const& look_up,
                                                   Deadline deadline) {
  for (auto pause = look_up_shortest;; pause = std::min(2 * pause, look_up_longest)) {
    auto found = look_up();
    bool const is_first = pause == look_up_shortest;
    if (found || found.error() != Errc::not_found || (is_first && deadline.has_passed()))
      return found;
    LEND_TRYV(without_value(wait_for({}, sooner(deadline, within(pause)))));
    if (deadline.has_passed())
      return base::gave_up(deadline, name + " was not known", " (" + found.error().message() + ")");
  }
}

Result<Socket> connect_with_retry(std::string const& name, LookUp const& look_up,
                                  Deadline deadline) {
  std::vector<SocketAddress> candidates;
  auto back_off = back_off_shortest;
  auto pause = look_up_shortest;
  auto look_up_at = Deadline::Clock::time_point::min();
  std::string unknown;  // the resolver's words
  for (;;) {
    if (Deadline::Clock::now() >= look_up_at) {
      auto found = look_up();
      if (!found && found.error() != Errc::not_found) return found.error();
      unknown = found ? "" : found.error().message();
      if (found) candidates = std::move(found).value();
      look_up_at = Deadline::Clock::now() + pause;
      pause = std::min(2 * pause, look_up_longest);
    }
    std::string refusals;
    if (!candidates.empty()) {
      LEND_TRY(socket, attempt_each(candidates, deadline, refusals));
      if (socket.fd) return socket;
    }
    if (!unknown.empty()) refusals += (refusals.empty() ? "" : "; ") + unknown;
    auto const next = candidates.empty() ? until(look_up_at) : within(back_off);
    LEND_TRYV(without_value(wait_for({}, sooner(deadline, next))));
    if (deadline.has_passed())
      return base::gave_up(deadline, "no peer listened at " + name,
                           " (" + refusals + "); start the listening side or wait longer");
    back_off = std::min<std::chrono::milliseconds>(2 * back_off, back_off_longest);
  }
}

}  // namespace lend::network
