// SPDX-License-Identifier: MIT OR Apache-2.0
// A lend channel on the device LEND_TEST_DEVICE, connected to a verbs program in C that has nothing
// of lend (verbs_peer.c). One thread.
#pragma once

#include <lend/lend.hpp>

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "support/two_ends.hpp"

extern char** environ;

namespace lend::test {

inline constexpr std::chrono::seconds bound{30};

inline std::string beside_this_program(char const* name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

/// The program, and the socket that it is told by. Killed with its owner.
class VerbsPeer {
 public:
  VerbsPeer(std::string device, std::uint32_t packet_sequence_number, std::string service = "RC") {
    std::string program = beside_this_program("verbs_peer");
    std::string number = std::to_string(packet_sequence_number);
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    socket_ = ends[0];
    timeval const patience{60, 0};  // twice what the peer itself waits
    REQUIRE(::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
    std::array<char*, 5> arguments{program.data(), device.data(), number.data(), service.data(),
                                   nullptr};
    int const result =
        ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    REQUIRE(result == 0);
  }
  VerbsPeer(VerbsPeer const&) = delete;
  VerbsPeer& operator=(VerbsPeer const&) = delete;
  ~VerbsPeer() {
    if (pid_ <= 0) return;
    kill();
    static_cast<void>(end());
  }

  void tell(std::string const& line) const {
    std::string const whole = line + '\n';
    REQUIRE(::send(socket_, whole.data(), whole.size(), MSG_NOSIGNAL) == ssize_t(whole.size()));
  }
  [[nodiscard]] std::string hear() {
    for (;;) {
      if (auto const end = heard_.find('\n'); end != std::string::npos) {
        std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        return line;
      }
      std::array<char, 512> buffer{};
      auto const size = ::recv(socket_, buffer.data(), buffer.size(), 0);
      if (size <= 0) FAIL("the peer says no more");
      heard_.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }
  /// Tells and hears.
  [[nodiscard]] std::string ask(std::string const& line) {
    tell(line);
    return hear();
  }

  void kill() const noexcept { ::kill(pid_, SIGKILL); }
  /// Lets its standard input end; its exit status, or 128 + n if signal n ended it.
  int end() {
    ::close(socket_);
    int status = 0;
    while (::waitpid(std::exchange(pid_, -1), &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string heard_{};
};

/// What both sides fill their memory with, so that each can tell what the other wrote.
inline std::byte pattern(std::size_t i, unsigned seed) {
  return static_cast<std::byte>(seed + i * 31 + (i >> 8) * 7);
}

/// Numbers to follow a word of a command.
inline std::string words(std::initializer_list<std::uint64_t> numbers) {
  std::string text;
  for (auto const number : numbers) text += ' ' + std::to_string(number);
  return text;
}

inline std::string hexadecimal(std::array<std::uint8_t, 16> const& bytes) {
  std::string text;
  for (auto const byte : bytes) {
    std::array<char, 3> two{};
    std::snprintf(two.data(), two.size(), "%02x", unsigned{byte});
    text += two.data();
  }
  return text;
}

/// What the peer says of itself, in the public fields of lend's own values.
struct Introduction {
  Endpoint endpoint{};
  RemoteRegion memory{};
};
inline Introduction introduction_of(VerbsPeer& peer, Endpoint const& ours) {
  std::istringstream line{peer.hear()};
  std::uint32_t number = 0, sequence = 0, key = 0;
  std::uint64_t address = 0, length = 0;
  std::string gid;
  Endpoint theirs;
  line >> number >> sequence >> theirs.lid >> gid >> theirs.mtu_bytes >> address >> length >>
      std::hex >> key;
  REQUIRE(!line.fail());
  REQUIRE(gid.size() == 2 * theirs.gid.size());
  for (std::size_t i = 0; i < theirs.gid.size(); ++i)
    theirs.gid[i] = static_cast<std::uint8_t>(std::stoul(gid.substr(2 * i, 2), nullptr, 16));
  theirs.device_kind = ours.device_kind;
  theirs.link_layer = ours.link_layer;
  theirs.service = ours.service;
  theirs.queue_pair_number = QueuePairNumber::from(number).value();
  theirs.packet_sequence_number = PacketSequenceNumber::from(sequence).value();
  theirs.gid_type = ours.gid_type;  // SoftRoCE has one type
  // As verbs_peer.c has them, the key by lend's default.
  theirs.reads_served = 4;
  theirs.send_depth = theirs.receive_depth = 64;
  theirs.queue_key = ours.queue_key;
  return {theirs, RemoteRegion{address, length, key}};
}

/// "connect QPN PSN LID GID MTU" to `ours`.
inline std::string connect_to(Endpoint const& ours, std::uint32_t mtu_bytes) {
  return "connect" +
         words({ours.queue_pair_number.value(), ours.packet_sequence_number.value(), ours.lid}) +
         ' ' + hexadecimal(ours.gid) + words({mtu_bytes});
}

struct InteropOptions {
  ChannelOptions channel{};
  std::uint32_t peer_sequence_number = 0x12'3456;
  std::uint32_t mtu_bytes = 4096;  ///< at most; the ports' own otherwise
};

/// Both ends, connected. lend's end has `memory`, and `exposed` to the peer.
struct Interop {
  explicit Interop(InteropOptions const& options = {})
      : peer{context.name(), options.peer_sequence_number} {
    PreparedChannel prepared = must(prepare_channel(domain, options.channel));
    Endpoint const ours = prepared.endpoint();
    auto [theirs, its_memory] = introduction_of(peer, ours);
    remote = its_memory;
    theirs.mtu_bytes = std::min({theirs.mtu_bytes, ours.mtu_bytes, options.mtu_bytes});
    REQUIRE(peer.ask(connect_to(ours, theirs.mtu_bytes)) == "ok");
    channel.emplace(must(std::move(prepared).handshake(theirs)));
  }

  /// " to=ADDRESS key=RKEY" of a place in `exposed`.
  [[nodiscard]] std::string exposed_at(std::size_t offset, std::uint32_t key_change = 0) const {
    auto const region = must(exposed.remote());
    std::ostringstream text;
    text << " to=" << region.address() + offset << " key=" << std::hex
         << (region.key() ^ key_change);
    return text.str();
  }

  static constexpr std::size_t memory_bytes = std::size_t{8} << 20;

  Context context = open_test_device();
  ProtectionDomain domain = must(context.allocate_protection_domain());
  MemoryRegion memory = must(domain.allocate(memory_bytes));
  MemoryRegion exposed =
      must(domain.unsafe_allocate_exposed(memory_bytes, RemoteAccess::read_write));
  VerbsPeer peer;
  RemoteRegion remote;  ///< the peer's memory
  std::optional<Channel> channel{};
};

}  // namespace lend::test
