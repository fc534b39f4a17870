// SPDX-License-Identifier: MIT OR Apache-2.0
// A 2-D stencil on four processes: each exchanges the edges of its part with its neighbours, every
// step, by one scope over all of them. Each compares its part with a serial run, bit by bit.
#include <lend/lend.hpp>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iostream>
#include <span>
#include <vector>

using namespace std::chrono_literals;

constexpr std::size_t ranks_across = 2, ranks_down = 2;
constexpr std::size_t cells = 64;  // of a part, in each direction
constexpr std::size_t steps = 200;
constexpr std::size_t edge_bytes = cells * sizeof(double);

/// Where the edges lie in the memory that is sent from and received into: two for each neighbour.
constexpr std::size_t own_at(std::size_t neighbour) {
  return 2 * neighbour * edge_bytes;
}
constexpr std::size_t theirs_at(std::size_t neighbour) {
  return own_at(neighbour) + edge_bytes;
}

/// Cells in rows, with one more on each side: zero, or a neighbour's.
class Grid {
 public:
  Grid(std::size_t width, std::size_t height)
      : width_{width}, height_{height}, values_((width + 2) * (height + 2)) {}

  /// From -1 to the width, and to the height.
  double& at(std::ptrdiff_t x, std::ptrdiff_t y) {
    return values_[std::size_t(y + 1) * (width_ + 2) + std::size_t(x + 1)];
  }
  /// Each cell becomes the mean of its four neighbours.
  void step() {
    Grid next{*this};
    for (std::ptrdiff_t y = 0; y < std::ptrdiff_t(height_); ++y)
      for (std::ptrdiff_t x = 0; x < std::ptrdiff_t(width_); ++x)
        next.at(x, y) = 0.25 * (at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1));
    values_ = std::move(next.values_);
  }

 private:
  std::size_t width_, height_;
  std::vector<double> values_;
};

static double first_value(std::size_t x, std::size_t y) {
  return double((x * 7 + y * 13) % 101);
}

/// One edge of this part: where the neighbour's cells go, and a socket to that process.
struct Edge {
  std::ptrdiff_t x, y;  // one of them is -1 or 1: the direction
  int socket;

  /// Cell i of the own edge, or of the neighbour's beyond it.
  double& cell(Grid& part, std::size_t i, bool is_beyond) const {
    auto const along = std::ptrdiff_t(i), last = std::ptrdiff_t(cells) - 1;
    auto const across = (x + y < 0) ? (is_beyond ? -1 : 0) : (is_beyond ? last + 1 : last);
    return x != 0 ? part.at(across, along) : part.at(along, across);
  }
};

/// Sends this end's endpoint over the socket and takes the neighbour's.
static lend::Result<lend::Endpoint> exchange(int socket, lend::Endpoint const& own) {
  auto const bytes = own.encode();
  std::array<std::byte, lend::Endpoint::encoded_size> theirs{};
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) != ssize_t(bytes.size()) ||
      ::recv(socket, theirs.data(), theirs.size(), MSG_WAITALL) != ssize_t(theirs.size()))
    return lend::Error{lend::Errc::peer_lost, "the neighbour has ended"};
  return lend::Endpoint::decode(theirs);
}

/// Runs the steps on one part, whose first cell is (left, top) of the whole.
static lend::Result<Grid> run(std::size_t left, std::size_t top, std::span<Edge const> edges) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(set, lend::WaitSet::create(device));
  auto const count = std::uint32_t(edges.size());
  LEND_TRY(prepared, lend::PreparedMultiChannel::prepare(domain, set, count));
  std::vector<lend::Endpoint> theirs;
  for (std::uint32_t i = 0; i < count; ++i) {
    LEND_TRY(endpoint, exchange(edges[i].socket, prepared[i].endpoint()));
    theirs.push_back(endpoint);
  }
  LEND_TRY(neighbours, std::move(prepared).handshake(theirs));

  // An edge to send and one to receive for each neighbour: columns do not lie in one piece.
  LEND_TRY(memory, domain.allocate(own_at(count)));
  std::vector<lend::PeerSend> sends;
  std::vector<lend::PeerReceive> receives;
  for (std::uint32_t i = 0; i < count; ++i) {
    sends.push_back({i, memory.gather(own_at(i), edge_bytes)});
    receives.push_back({i, memory.scatter(theirs_at(i), edge_bytes)});
  }

  Grid part{cells, cells};
  for (std::size_t y = 0; y < cells; ++y)
    for (std::size_t x = 0; x < cells; ++x)
      part.at(std::ptrdiff_t(x), std::ptrdiff_t(y)) = first_value(left + x, top + y);

  std::vector<lend::PendingWork> work;
  std::array<double, cells> values{};
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < cells; ++j) values[j] = edges[i].cell(part, j, false);
      LEND_TRY(bytes, memory.mutable_bytes(own_at(i), edge_bytes));
      std::memcpy(bytes.data(), values.data(), edge_bytes);
    }
    lend::MultiScope scope{neighbours};
    work.clear();
    LEND_TRYV(scope.post_gather_receive(receives, work));
    LEND_TRYV(scope.post_scatter_send(sends, work));
    LEND_TRYV(lend::wait_all(work, lend::within(10s)));
    LEND_TRYV(scope.finish());
    for (std::uint32_t i = 0; i < count; ++i) {
      LEND_TRY(bytes, memory.bytes(theirs_at(i), edge_bytes));
      std::memcpy(values.data(), bytes.data(), edge_bytes);
      for (std::size_t j = 0; j < cells; ++j) edges[i].cell(part, j, true) = values[j];
    }
    part.step();
  }
  return part;
}

/// Whether the part is that of a serial run.
static bool is_right(Grid& part, std::size_t left, std::size_t top) {
  Grid whole{ranks_across * cells, ranks_down * cells};
  for (std::size_t y = 0; y < ranks_down * cells; ++y)
    for (std::size_t x = 0; x < ranks_across * cells; ++x)
      whole.at(std::ptrdiff_t(x), std::ptrdiff_t(y)) = first_value(x, y);
  for (std::size_t step = 0; step < steps; ++step) whole.step();
  for (std::ptrdiff_t y = 0; y < std::ptrdiff_t(cells); ++y)
    for (std::ptrdiff_t x = 0; x < std::ptrdiff_t(cells); ++x)
      if (part.at(x, y) != whole.at(std::ptrdiff_t(left) + x, std::ptrdiff_t(top) + y))
        return false;
  return true;
}

int main() {
  // A socket for each pair of neighbours, before the processes part.
  std::array<std::vector<Edge>, ranks_across * ranks_down> edges;
  auto const join = [&edges](std::size_t one, std::size_t other, std::ptrdiff_t x,
                             std::ptrdiff_t y) {
    std::array<int, 2> sockets{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) return false;
    edges[one].push_back({x, y, sockets[0]});
    edges[other].push_back({-x, -y, sockets[1]});
    return true;
  };
  bool is_joined = true;
  for (std::size_t rank = 0; rank < edges.size(); ++rank) {
    if (rank % ranks_across + 1 < ranks_across) is_joined &= join(rank, rank + 1, 1, 0);
    if (rank / ranks_across + 1 < ranks_down) is_joined &= join(rank, rank + ranks_across, 0, 1);
  }
  if (!is_joined) {
    std::cerr << "halo: no sockets\n";
    return 1;
  }

  auto const close_others = [&edges](std::size_t own) {
    for (std::size_t rank = 0; rank < edges.size(); ++rank)
      for (Edge const& edge : edges[rank])
        if (rank != own) ::close(edge.socket);
  };
  std::vector<pid_t> processes;
  for (std::size_t rank = 0; rank < edges.size(); ++rank) {
    pid_t const process = ::fork();  // nothing of lend is open yet
    if (process != 0) {
      processes.push_back(process);
      continue;
    }
    close_others(rank);  // so that a neighbour that ends hangs up
    std::size_t const left = rank % ranks_across * cells, top = rank / ranks_across * cells;
    auto part = run(left, top, edges[rank]);
    if (!part) std::cerr << "rank " << rank << ": " << part.error().describe() << '\n';
    return part && is_right(part.value(), left, top) ? 0 : 1;
  }
  close_others(edges.size());
  std::size_t right = 0;
  for (pid_t const process : processes) {
    int status = 0;
    right += ::waitpid(process, &status, 0) == process && status == 0;
  }
  std::cout << right << " of " << processes.size()
            << " processes have the cells of a serial run after " << steps << " steps\n";
  return right == processes.size() ? 0 : 1;
}
