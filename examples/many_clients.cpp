// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread serves many clients of several processes. Their messages arrive in one pool of
// receives, and are sent back from there without a copy. Every other process is killed in the
// middle; new ones take the places of those that went. The server's memory does not grow with them.
//
//   many_clients [CLIENTS-OF-A-PROCESS]
#include <lend/lend.hpp>

#include <malloc.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

constexpr std::size_t processes_in_all = 20, places = 10;
constexpr std::size_t words = 5, word_bytes = 64;
constexpr std::size_t pieces = 64;  // receives of the server, for all clients together

/// Sends this end's endpoint over the socket and takes the peer's.
static lend::Result<lend::Endpoint> exchange(int socket, lend::Endpoint const& own) {
  auto const bytes = own.encode();
  std::array<std::byte, lend::Endpoint::encoded_size> theirs{};
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) != ssize_t(bytes.size()) ||
      ::recv(socket, theirs.data(), theirs.size(), MSG_WAITALL) != ssize_t(theirs.size()))
    return lend::Error{lend::Errc::peer_lost, "the other process has ended"};
  return lend::Endpoint::decode(theirs);
}

/// What a client process does: its clients speak in turn. Its socket is its standard input.
static lend::Result<void> be_clients(std::size_t clients_each) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(2 * word_bytes));
  std::vector<lend::Channel> channels;
  for (std::size_t i = 0; i < clients_each; ++i) {
    LEND_TRY(
        prepared,
        lend::channel_builder().protection_domain(domain).send_depth(2).receive_depth(2).build());
    LEND_TRY(peer, exchange(STDIN_FILENO, prepared.endpoint()));
    LEND_TRY(channel, std::move(prepared).handshake(peer));
    channels.push_back(std::move(channel));
  }
  for (std::size_t i = 0; i < words * clients_each; ++i) {
    lend::PollingScope scope{channels[i % clients_each]};
    LEND_TRY(echo, scope.post_receive(memory.scatter(word_bytes, word_bytes)));
    LEND_TRYV(scope.post_send(memory.gather(0, word_bytes)));
    LEND_TRYV(echo.wait(lend::within(30s)));  // until all others are connected, too
    LEND_TRYV(scope.finish());
  }
  return lend::success();
}

/// What this process has of malloc().
static std::size_t heap_bytes() {
  auto const heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

/// The server's end of one client.
struct Client {
  lend::Channel channel;
  std::size_t place;  // of its process
};

class Server {
 public:
  Server(lend::ProtectionDomain const& domain, lend::WaitSet& set, lend::ReceivePool& pool,
         std::size_t clients_each)
      : domain_{domain}, set_{set}, pool_{pool}, scope_{set}, clients_each_{clients_each} {}

  lend::Result<void> run() {
    std::array<lend::Ready, 64> room;
    while (gone_ < processes_in_all) {
      for (std::size_t place = 0; place < places && started_ < processes_in_all; ++place) {
        if (processes_[place] != 0) continue;
        LEND_TRYV(start(place));
      }
      LEND_TRY(ready, set_.wait(room, lend::within(30s)));
      while (auto const message = pool_.next()) send_back(*message);
      for (lend::Ready const& one : ready)
        if (one.what == lend::Ready::What::broken) lose(one.tag);
    }
    std::cout << "served " << started_ * clients_each_ << " clients of " << started_
              << " processes, at most " << most_ << " at a time, with " << pieces << " receives; "
              << killed_ << " processes were killed\n"
              << "the heap had at most " << heap_at_first_ / 1024 << " KiB with the first "
              << places << " processes, " << heap_later_ / 1024
              << " KiB with those that followed\n";
    return scope_.finish();
  }

 private:
  /// Starts a process and connects its clients.
  lend::Result<void> start(std::size_t place) {
    std::array<int, 2> sockets{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
      return lend::Errc::exhausted;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, sockets[1], STDIN_FILENO);
    char name[] = "many_clients", role[] = "client";
    std::string clients = std::to_string(clients_each_);
    std::array<char*, 4> arguments{name, role, clients.data(), nullptr};
    int const failed = ::posix_spawn(&processes_[place], "/proc/self/exe", &actions, nullptr,
                                     arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(sockets[1]);
    echoes_[place] = 0;
    is_to_die_[place] = ++started_ % 2 == 0;
    lend::Result<void> connected =
        failed == 0 ? connect(place, sockets[0]) : lend::Result<void>{lend::Errc::exhausted};
    ::close(sockets[0]);
    return connected;
  }

  lend::Result<void> connect(std::size_t place, int socket) {
    for (std::size_t i = 0; i < clients_each_; ++i) {
      // A number for each connection: a late message of a client that went is not its successor's.
      std::uint64_t const tag = ++connections_;
      LEND_TRY(prepared, lend::channel_builder()
                             .protection_domain(domain_)
                             .wait_set(set_, tag)
                             .receive_pool(pool_)
                             .send_depth(4)      // a client waits for each echo
                             .keep_alive(500ms)  // finds out that an idle client is gone
                             .ack_timeout(20ms)
                             .ack_retries(5)
                             .build());
      LEND_TRY(peer, exchange(socket, prepared.endpoint()));
      LEND_TRY(channel, std::move(prepared).handshake(peer));
      clients_.emplace(tag, Client{std::move(channel), place});
      ++clients_of_[place];
    }
    most_ = std::max(most_, clients_.size());
    std::size_t& heap = started_ <= places ? heap_at_first_ : heap_later_;
    heap = std::max(heap, heap_bytes());
    return lend::success();
  }

  /// If the client is gone, the set says so.
  void send_back(lend::Message const& message) {
    auto const found = clients_.find(message.tag());
    if (found == clients_.end()) return;
    auto const scope = scope_.on(found->second.channel);
    if (!scope || !scope.value()->post_send(message.gather())) return;
    std::size_t const place = found->second.place;
    if (++echoes_[place] == clients_each_ * words / 2 && is_to_die_[place]) {
      ::kill(processes_[place], SIGKILL);
      ++killed_;
    }
  }

  /// The last client of a process to go leaves its place to another process.
  void lose(std::uint64_t tag) {
    auto const found = clients_.find(tag);
    if (found == clients_.end()) return;
    std::size_t const place = found->second.place;
    clients_.erase(found);
    if (--clients_of_[place] > 0) return;
    ::waitpid(std::exchange(processes_[place], 0), nullptr, 0);
    ++gone_;
  }

  lend::ProtectionDomain const& domain_;
  lend::WaitSet& set_;
  lend::ReceivePool& pool_;
  lend::SetScope scope_;
  std::size_t const clients_each_;
  std::unordered_map<std::uint64_t, Client> clients_{};  // by tag
  std::array<std::size_t, places> clients_of_{};
  std::array<pid_t, places> processes_{};
  std::array<std::size_t, places> echoes_{};
  std::array<bool, places> is_to_die_{};
  std::uint64_t connections_ = 0;
  std::size_t started_ = 0, gone_ = 0, killed_ = 0, most_ = 0;
  std::size_t heap_at_first_ = 0, heap_later_ = 0;
};

static lend::Result<void> serve_clients(std::size_t clients_each) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(pieces * word_bytes));
  LEND_TRY(set, lend::WaitSet::create(device));
  LEND_TRY(pool, lend::ReceivePool::create(set, memory.chunks(word_bytes)));
  Server server{domain, set, pool, clients_each};
  return server.run();
}

int main(int argc, char** argv) {
  bool const is_client = argc == 3 && std::string_view{argv[1]} == "client";
  std::size_t const clients_each = argc > 1 ? std::strtoull(argv[argc - 1], nullptr, 10) : 100;
  auto const result = is_client ? be_clients(clients_each) : serve_clients(clients_each);
  if (!result) std::cerr << "many_clients: " << result.error().describe() << '\n';
  return result ? 0 : 1;
}
