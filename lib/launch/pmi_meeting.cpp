// SPDX-License-Identifier: MIT OR Apache-2.0
// The dialogue's bytes.
#include <base/giving_up.hpp>
#include <base/printable.hpp>
#include <launch/pmi_meeting.hpp>
#include <network/wire/frame.hpp>
#include <network/wire/socket.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

namespace lend::launch {

namespace {

constexpr std::string_view pmi_scheme = "pmi:fd=";

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
  seat.desk = seat.rank == 0 ? own_.listens_at : place.desk;
  if (seat.secret.empty()) seat.secret = place.secret;
  if (seat.group.empty()) seat.group = name_of_job(dialogue_.job(), network::group_name_max);
  return seat;
}

Result<void> PmiMeeting::converse(Seat const& seat, Deadline deadline) {
  while (!dialogue_.is_over()) {
    if (dialogue_.wants_place()) {
      LEND_TRY(own, choose_place(dialogue_.job(), dialogue_.is_one_host(), !seat.secret.empty()));
      own_ = std::move(own);
      if (auto const offered = dialogue_.offer(own_.place); !offered)
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

}  // namespace lend::launch
