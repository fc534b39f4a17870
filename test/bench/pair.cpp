// SPDX-License-Identifier: MIT OR Apache-2.0
// Forking, pinning and connecting, over a socket between the two. One thread each.
#include "pair.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

namespace lend::bench {
namespace {

Result<void> say(int socket, std::span<std::byte const> bytes) {
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == ssize_t(bytes.size()))
    return success();
  return Error::from_errno("send", errno);
}

Result<void> hear(int socket, std::span<std::byte> bytes) {
  if (recv(socket, bytes.data(), bytes.size(), MSG_WAITALL) == ssize_t(bytes.size()))
    return success();
  return Error{Errc::peer_lost, "the other process has ended"};
}

template <std::size_t Size>
Result<std::array<std::byte, Size>> trade(int socket, std::array<std::byte, Size> const& ours) {
  std::array<std::byte, Size> theirs;
  LEND_TRYV(say(socket, ours));
  LEND_TRYV(hear(socket, theirs));
  return theirs;
}

Result<void> pin_to(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(std::size_t(cpu), &only);
  if (sched_setaffinity(0, sizeof only, &only) == 0) return success();
  return Error::from_errno("sched_setaffinity to CPU " + std::to_string(cpu), errno);
}

Result<void> run_end(bool near, PairOptions const& options, int socket,
                     std::function<Result<void>(End&)> const& body) {
  auto const& cpus = options.cpus;
  int const cpu = cpus[near ? 0 : 1];
  if (cpu >= 0) {
    LEND_TRYV(pin_to(cpu));
  }
  LEND_TRY(device, open_device(options.device));
  LEND_TRY(domain, device.allocate_protection_domain());
  using tools::end_bytes;
  std::vector<std::byte> own(options.own_memory ? 2 * end_bytes : 0);  // outlives the regions
  auto const halves = std::span{own};
  // SAFETY: nobody minds what the bytes are.
  LEND_TRY(memory, options.own_memory ? domain.register_memory(halves.first(end_bytes))
                                      : domain.allocate(end_bytes));
  LEND_TRY(exposed,
           options.own_memory
               ? domain.unsafe_register_exposed(halves.last(end_bytes), RemoteAccess::read_write)
               : domain.unsafe_allocate_exposed(tools::end_bytes, RemoteAccess::read_write));
  LEND_TRY(prepared, prepare_channel(domain, options.channel));
  LEND_TRY(endpoint_bytes, trade(socket, prepared.endpoint().encode()));
  LEND_TRY(endpoint, Endpoint::decode(endpoint_bytes));
  LEND_TRY(queue_pair, prepared.take_queue_pair().connect(endpoint));
  ibv_qp* const raw = queue_pair.native();
  LEND_TRY(channel, std::move(prepared).adopt(std::move(queue_pair)));
  LEND_TRY(ours, exposed.remote());
  LEND_TRY(theirs, trade(socket, ours.encode()));
  LEND_TRY(remote, RemoteRegion::decode(theirs));
  bool const one_core = cpu >= 0 && cpus[0] == cpus[1];
  auto const meet = [socket]() -> Result<void> {
    LEND_TRYV(lend::without_value(trade(socket, std::array{std::byte{1}})));
    return success();
  };
  End end{{near, one_core, std::move(memory), std::move(exposed), std::move(channel), remote, meet},
          socket,
          device,
          raw};
  LEND_TRYV(body(end));
  return end.meet();  // neither goes while the other may still need it
}

}  // namespace

Result<void> run_pair(PairOptions const& options, std::span<std::byte> figures,
                      std::function<Result<void>(End&)> const& body) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return Error::from_errno("socketpair", errno);
  void* const shared =
      mmap(nullptr, figures.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Error::from_errno("mmap", errno);

  std::fflush(nullptr);  // else each child would print what is still unwritten
  std::array<pid_t, 2> children{};
  for (std::size_t side = 0; side < 2; ++side) {
    children[side] = fork();
    if (children[side] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(sockets[1 - side]);
    auto const done = run_end(side == 0, options, sockets[side], body);
    if (!done) std::fprintf(stderr, "%s\n", done.error().message().c_str());
    if (side == 0) std::memcpy(shared, figures.data(), figures.size());
    _exit(done ? 0 : 1);
  }
  close(sockets[0]);
  close(sockets[1]);
  bool failed = false;
  for (pid_t const child : children) {
    int status = 1;
    if (child > 0) waitpid(child, &status, 0);
    failed = failed || status != 0;
  }
  std::memcpy(figures.data(), shared, figures.size());
  munmap(shared, figures.size());
  if (failed) return Error{Errc::system_failed, "one of the two processes failed"};
  return success();
}

}  // namespace lend::bench
