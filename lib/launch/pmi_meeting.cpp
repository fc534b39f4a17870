// SPDX-License-Identifier: MIT OR Apache-2.0
// The dialogue's bytes, and the place that rank 0 chooses.
#include <base/giving_up.hpp>
#include <base/host_name.hpp>
#include <base/printable.hpp>
#include <launch/pmi_meeting.hpp>
#include <network/wire/frame.hpp>
#include <network/wire/secret.hpp>
#include <network/wire/socket.hpp>

#include <netinet/in.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

namespace lend::launch {

namespace {

constexpr std::string_view pmi_scheme = "pmi:fd=";

struct Reserved {
  base::UniqueFd fd;
  std::uint16_t port = 0;
};

Result<Reserved> reserve_port_of(sa_family_t family) {
  base::UniqueFd fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd) return Error::from_errno("socket", errno);
  int const yes = 1, no = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (family == AF_INET6) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  network::SocketAddress any;
  any.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  any.storage.ss_family = family;
  if (::bind(fd.get(), any.native(), any.length) != 0)
    return Error::from_errno("bind to any port", errno);
  if (::getsockname(fd.get(), any.native(), &any.length) != 0)
    return Error::from_errno("getsockname", errno);
  return Reserved{std::move(fd), any.port()};
}

/// A socket of both families that does not listen, so that others with SO_REUSEADDR may bind to its
/// port.
/// Source: socket(7), SO_REUSEADDR.
Result<Reserved> reserve_port() {
  auto reserved = reserve_port_of(AF_INET6);
  // A kernel without IPv6 has no such sockets, or no such address.
  bool const has_no_ipv6 = !reserved && (reserved.error().os_error() == EAFNOSUPPORT ||
                                         reserved.error().os_error() == EADDRNOTAVAIL);
  return has_no_ipv6 ? reserve_port_of(AF_INET) : std::move(reserved);
}

Result<std::string> own_host_name() {
  std::array<char, base::host_length_max + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    return Error::from_errno("gethostname", errno);
  std::string host{name.data()};
  if (host.empty() || !base::has_host_characters(host) || host.find(':') != std::string::npos)
    return Error{Errc::unsupported, "this host is called \"" + base::shown(host) +
                                        "\", by which no other can reach it; set LEND_DESK"};
  return host;
}

/// 32 random bytes in hexadecimal digits.
/// Errors:  unsupported  lend was built without libsodium.
Result<std::string> new_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Error::from_errno("getrandom", errno);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string secret;
  for (auto const byte : bytes) {
    secret += digits[byte / 16u];
    secret += digits[byte % 16u];
  }
  auto const taken = network::Secret::of(secret);
  if (!taken && taken.error() == Errc::unsupported)
    return Error{Errc::unsupported,
                 "ranks on several hosts meet at a port, where a secret keeps others out, and this "
                 "lend was built without libsodium: build it with, or set LEND_DESK"};
  if (!taken) return taken.error();
  return secret;
}

/// The end of `job` that tells jobs apart, with characters that names may have.
std::string name_of_job(std::string job, std::size_t most) {
  std::ranges::replace_if(
      job, [](char c) { return c <= ' ' || c > '~' || c == ',' || c == '/'; }, '_');
  return job.substr(job.size() - std::min(job.size(), most));
}

}  // namespace

std::string pmi_desk(int descriptor) {
  return std::string{pmi_scheme} + std::to_string(descriptor);
}

std::optional<int> pmi_descriptor(std::string_view desk) noexcept {
  if (!desk.starts_with(pmi_scheme)) return std::nullopt;
  desk.remove_prefix(pmi_scheme.size());
  int descriptor = -1;
  auto const [end, error] = std::from_chars(desk.data(), desk.data() + desk.size(), descriptor);
  if (error != std::errc{} || end != desk.data() + desk.size() || descriptor < 0)
    return std::nullopt;
  return descriptor;
}

Result<Seat> PmiMeeting::find(Seat seat, Deadline deadline) {
  if (failure_) return *failure_;
  if (auto const over = converse(seat, deadline); !over) {
    if (!base::is_given_up(over.error())) failure_ = over.error();
    return over.error();
  }
  auto const& place = dialogue_.place();
  seat.desk = seat.rank == 0 ? own_address_ : place.desk;
  if (seat.secret.empty()) seat.secret = place.secret;
  if (seat.group.empty()) seat.group = name_of_job(dialogue_.job(), network::group_name_max);
  return seat;
}

Result<void> PmiMeeting::converse(Seat const& seat, Deadline deadline) {
  while (!dialogue_.is_over()) {
    if (dialogue_.wants_place()) {
      LEND_TRY(place, choose(seat));
      if (auto const offered = dialogue_.offer(std::move(place)); !offered)
        return about_launcher(offered.error().code(), offered.error().message());
    }
    if (!std::exchange(has_asked_, true)) unsent_ = dialogue_.question() + "\n";
    LEND_TRYV(send_question(deadline));
    LEND_TRY(answer, receive_answer(deadline));
    has_asked_ = false;
    if (auto const taken = dialogue_.take(answer); !taken)
      return about_launcher(taken.error().code(), taken.error().message());
  }
  return success();
}

Result<PmiPlace> PmiMeeting::choose(Seat const& seat) {
  if (dialogue_.is_one_host()) {
    // A name of 107 bytes fits. Source: unix(7).
    own_address_ =
        "unix:@lend-" + std::to_string(::geteuid()) + "-" + name_of_job(dialogue_.job(), 80);
    return PmiPlace{own_address_, {}};
  }
  LEND_TRY(host, own_host_name());
  LEND_TRY(reserved, reserve_port());
  reserved_ = std::move(reserved.fd);
  auto const port = ":" + std::to_string(reserved.port);
  own_address_ = "[::]" + port;
  PmiPlace place{host + port, {}};
  if (!seat.secret.empty()) return place;
  LEND_TRY(secret, new_secret());
  place.secret = std::move(secret);
  return place;
}

Result<void> PmiMeeting::send_question(Deadline deadline) {
  while (!unsent_.empty()) {
    auto const sent =
        ::send(descriptor_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      unsent_.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      LEND_TRYV(wait(POLLOUT, deadline));
    } else if (errno == EPIPE) {
      return about_launcher(Errc::peer_lost,
                            "has closed it: it has ended, or another program of this task asked it "
                            "before, which only the first can");
    } else if (errno != EINTR) {
      return about_launcher(Errc::system_failed,
                            "takes no question: " + std::generic_category().message(errno));
    }
  }
  return success();
}

Result<std::string> PmiMeeting::receive_answer(Deadline deadline) {
  for (;;) {
    if (auto const end = received_.find('\n'); end != std::string::npos) {
      auto answer = received_.substr(0, end);
      received_.erase(0, end + 1);
      return answer;
    }
    if (received_.size() > PmiLine::bytes_max)
      return about_launcher(Errc::incompatible_peer, "sent a line of more than 4096 bytes");
    std::array<char, 1024> bytes;
    auto const got = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(bytes.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return about_launcher(Errc::peer_lost, "closed it instead of an answer to \"" +
                                                 base::shown(dialogue_.question()) + "\"");
    } else if (errno == EAGAIN) {
      LEND_TRYV(wait(POLLIN, deadline));
    } else if (errno != EINTR) {
      return about_launcher(errno == ECONNRESET ? Errc::peer_lost : Errc::system_failed,
                            "gives no answer: " + std::generic_category().message(errno));
    }
  }
}

Result<void> PmiMeeting::wait(short events, Deadline deadline) const {
  pollfd polled{descriptor_, events, 0};
  LEND_TRY(ready, network::wait_for({&polled, 1}, deadline));
  if (ready) return success();
  return base::gave_up(deadline,
                       "the launcher at PMI_FD, " + std::to_string(descriptor_) +
                           ", did not answer \"" + base::shown(dialogue_.question()) + "\"",
                       "; it answers barrier_in when all ranks have asked: start all, and call "
                       "again");
}

Error PmiMeeting::about_launcher(Errc code, std::string const& clause) const {
  return {code, "the launcher at PMI_FD, " + std::to_string(descriptor_) + ", " + clause +
                    "; start by a launcher that speaks PMI-1 on a descriptor which nothing else "
                    "of this process uses, or set LEND_DESK"};
}

Result<Seat> find_desk(Seat const& seat, Deadline deadline) {
  auto const descriptor = pmi_descriptor(seat.desk);
  if (!descriptor) return seat;
  static std::mutex mutex;
  static std::map<int, PmiMeeting> meetings;
  std::unique_lock const lock{mutex, std::try_to_lock};
  if (!lock)
    return Error{Errc::invalid_argument,
                 "another thread of this process asks the launcher where "
                 "the ranks meet; one thread joins by " +
                     seat.desk};
  return meetings.try_emplace(*descriptor, *descriptor, seat.rank)
      .first->second.find(seat, deadline);
}

}  // namespace lend::launch
