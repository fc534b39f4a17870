// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: in processes that have closed the descriptors 0 to 2, nothing that lend opens gets these
// numbers, so that what others print there changes no memory and breaks no connection. Method: two
// such processes go through all rooms that open something, and after each step print 8 KiB to each
// number, which must be refused; then they exchange messages.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <lend/doctor/examine.hpp>
#include <lend/group.hpp>
#include <lend/stream/byte_stream.hpp>
#include <lend/transport/connect.hpp>
#include <lend/transport/memory.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

using namespace lend;
using namespace std::chrono_literals;

namespace {

int report = -1;  // of standard error, with another number
std::string const name = "unix:@lend-closed-" + std::to_string(::getpid());
Deadline deadline = Deadline::never();

Result<void> check_numbers(char const* step) {
  std::vector<char> const log(8192, 'x');
  for (int number = 0; number <= STDERR_FILENO; ++number)
    if (::write(number, log.data(), log.size()) >= 0 || errno != EBADF) {
      std::array<char, 64> file{};
      (void)!::readlink(("/proc/self/fd/" + std::to_string(number)).c_str(), file.data(), 63);
      return Error{Errc::system_failed, std::string{step} + " opened descriptor " +
                                            std::to_string(number) + ": " + file.data()};
    }
  return success();
}

/// One of two ends that say 200 bytes to each other.
Result<void> talk(Channel& channel, ProtectionDomain const& domain) {
  LEND_TRY(memory, domain.allocate(4096));
  LEND_TRYV(check_numbers("allocate()"));
  PollingScope scope{channel};
  LEND_TRY(word, scope.post_receive(memory.scatter(2048, 2048)));
  LEND_TRYV(scope.post_send(memory.gather(0, 200)));
  LEND_TRY(got, word.wait(deadline));
  LEND_TRY(bytes, memory.bytes(2048, 200));
  if (got.bytes != 200 || std::ranges::any_of(bytes, [](auto byte) { return byte != std::byte{}; }))
    return Error{Errc::disagreement, "the message was changed"};
  return scope.finish();
}

Result<void> channels(bool listens, Context const& context, ProtectionDomain const& domain) {
  LEND_TRY(events, DeviceEvents::of(context));
  static_cast<void>(events);
  LEND_TRYV(check_numbers("DeviceEvents"));
  LEND_TRY(set, WaitSet::create(context, Wait::event));
  static_cast<void>(set);
  LEND_TRYV(check_numbers("WaitSet"));
  LEND_TRY(prepared, channel_builder().protection_domain(domain).wait(Wait::event).build());
  LEND_TRYV(check_numbers("a channel that records"));
  Result<Channel> channel = Error{Errc::not_found, "none"};
  if (listens) {
    LEND_TRY(listener, Listener::open(name));
    LEND_TRYV(check_numbers("Listener"));
    channel = listener.accept(std::move(prepared), deadline);
  } else {
    channel = connect(name, std::move(prepared), deadline);
  }
  LEND_TRY(connected, std::move(channel));
  LEND_TRYV(check_numbers("connect()"));
  LEND_TRYV(talk(connected, domain));
  LEND_TRYV(check_numbers("a channel"));
  return success();
}

Result<void> transports(bool listens, ProtectionDomain const& domain, TransportOptions options) {
  auto const address = name + "-transport";
  Result<AnyTransport> made = Error{Errc::not_found, "none"};
  if (listens) {
    LEND_TRY(listener, TransportListener::open(address));
    made = listener.accept(domain, options, deadline);
  } else {
    made = connect_transport(address, domain, options, deadline);
  }
  LEND_TRY(transport, std::move(made));
  LEND_TRYV(check_numbers("a transport"));
  ByteStream stream{std::move(transport)};
  LEND_TRYV(without_value(stream.descriptor()));
  std::array<std::byte, 200> ours{}, theirs{};
  LEND_TRYV(without_value(stream.write(ours, deadline)));
  LEND_TRYV(without_value(stream.read_some(theirs, deadline)));
  LEND_TRYV(check_numbers("a stream"));
  return stream.finish(deadline);
}

Result<void> all(std::uint32_t rank) {
  LEND_TRY(context, open_device());
  LEND_TRYV(check_numbers("open_device()"));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRYV(channels(rank == 0, context, domain));
  for (auto const kind :
       {TransportKind::send_receive, TransportKind::credit_ring, TransportKind::read_ring}) {
    TransportOptions options;
    options.kind = kind;
    LEND_TRYV(transports(rank == 0, domain, options));
  }
  LEND_TRY(in_memory, memory_transports());
  LEND_TRYV(without_value(in_memory.first.descriptor()));
  LEND_TRYV(check_numbers("memory_transports()"));
  Seat const seat{.rank = rank, .size = 2, .desk = name + "-desk"};
  LEND_TRY(group, Group::join(domain, seat, deadline));
  LEND_TRYV(check_numbers("Group::join()"));
  LEND_TRY(sum, group.allreduce(lend::sum<int>, 1, deadline));
  LEND_TRYV(without_value(group.rejoin(seat, deadline)));
  LEND_TRYV(check_numbers("Group::rejoin()"));
  LEND_TRYV(without_value(Listener::open("localhost:0")));
  static_cast<void>(examine());
  LEND_TRYV(check_numbers("examine()"));
  if (sum != 2) return Error{Errc::disagreement, "the sum is wrong"};
  return success();
}

}  // namespace

int main() {
  ::alarm(100);
  char folder[] = "/tmp/lend-closed-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  ::setenv("LEND_RECORD", folder, 1);
  report = ::fcntl(STDERR_FILENO, F_DUPFD, 20);
  deadline = within(60s);
  for (int number = 0; number <= STDERR_FILENO; ++number) ::close(number);
  pid_t const peer = ::fork();
  auto const done = all(peer == 0 ? 1 : 0);
  if (!done) ::dprintf(report, "rank %d: %s\n", peer == 0, done.error().message().c_str());
  if (peer == 0) return done ? 0 : 1;
  int status = 0;
  bool const is_well = ::waitpid(peer, &status, 0) == peer && status == 0 && done;
  bool const has_recorded = std::filesystem::remove_all(folder) > 1;
  if (!has_recorded) ::dprintf(report, "no channel has recorded\n");
  return is_well && has_recorded ? 0 : 1;
}
