// SPDX-License-Identifier: MIT OR Apache-2.0
// lend beside MPI in one program. One thread.
//   mpirun -n RANKS beside_mpi halo|exchange|ahead|ring DOUBLES ROUNDS
//
// halo: each rank exchanges a row with both neighbours; a round posts its receives, sends and
// waits, as one would write it first. exchange: the same by persistent requests and by an Exchange.
// ahead: each round posts the receives of the next one. ring: one message goes round all ranks. MPI
// and lend take turns, in blocks of rounds, so that both see
// the same load; rank 0 prints the medians of the blocks as a line of JSON. Fails where the two
// do not compute the same.
#include "number.hpp"

#include <sys/resource.h>
#include <lend/group.hpp>
#include <lend/group/mpi.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace lend;

namespace {

enum Side { left, right };
constexpr int blocks = 9;

struct Ranks {
  int own = 0;
  int all = 0;

  [[nodiscard]] int beside(int side) const {
    return side == left ? (own + all - 1) % all : (own + 1) % all;
  }
};

/// Five rows: this rank's, then two from each neighbour, which rounds use in turn.
struct Rows {
  double* first = nullptr;
  std::size_t doubles = 0;

  [[nodiscard]] static std::size_t place(int side, std::size_t turn) {
    return 1 + 2 * static_cast<std::size_t>(side) + turn;
  }
  [[nodiscard]] std::span<double> at(std::size_t row) const {
    return {first + row * doubles, doubles};
  }
  void begin(int rank) const {
    for (std::size_t i = 0; i < doubles; ++i) at(0)[i] = rank + static_cast<double>(i) / 7;
  }
  void smooth(std::size_t turn) const {
    auto const from_left = at(place(left, turn));
    auto const from_right = at(place(right, turn));
    for (std::size_t i = 0; i < doubles; ++i)
      at(0)[i] = at(0)[i] / 2 + (from_left[i] + from_right[i]) / 4;
  }
};

class OverMpi {
 public:
  OverMpi(Ranks ranks, std::size_t doubles)
      : ranks_{ranks}, memory_(5 * doubles), rows{memory_.data(), doubles} {}

  Result<void> halo(std::size_t turn) {
    for (int const side : {left, right}) receive(side, turn);
    for (int const side : {left, right}) send(side);
    return finish(turn);
  }
  Result<void> begin_exchange() {
    if (std::exchange(is_described_, true)) return success();
    for (int const side : {left, right}) {
      MPI_Recv_init(rows.at(Rows::place(side, 0)).data(), count(), MPI_DOUBLE, ranks_.beside(side),
                    1 - side, MPI_COMM_WORLD, &persistent_[side]);
      MPI_Send_init(rows.first, count(), MPI_DOUBLE, ranks_.beside(side), side, MPI_COMM_WORLD,
                    &persistent_[2 + side]);
    }
    return success();
  }
  Result<void> exchange() {
    MPI_Startall(4, persistent_);
    MPI_Waitall(4, persistent_, MPI_STATUSES_IGNORE);
    return success();
  }
  Result<void> begin_ahead() {
    for (int const side : {left, right}) receive(side, 0);
    return success();
  }
  Result<void> ahead(std::size_t turn, bool is_last) {
    if (!is_last)
      for (int const side : {left, right}) receive(side, 1 - turn);
    for (int const side : {left, right}) send(side);
    return finish(turn);
  }
  Result<void> ring() {
    auto const receive_it = [this] {
      MPI_Recv(rows.at(1).data(), count(), MPI_DOUBLE, ranks_.beside(left), right, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    };
    if (ranks_.own != 0) receive_it();
    MPI_Send(rows.first, count(), MPI_DOUBLE, ranks_.beside(right), right, MPI_COMM_WORLD);
    if (ranks_.own == 0) receive_it();
    return success();
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(rows.doubles); }
  // The tag is the side on which the sender has the receiver.
  void receive(int side, std::size_t turn) {
    MPI_Irecv(rows.at(Rows::place(side, turn)).data(), count(), MPI_DOUBLE, ranks_.beside(side),
              1 - side, MPI_COMM_WORLD, &receives_[turn][side]);
  }
  void send(int side) {
    MPI_Isend(rows.first, count(), MPI_DOUBLE, ranks_.beside(side), side, MPI_COMM_WORLD,
              &sends_[side]);
  }
  Result<void> finish(std::size_t turn) {
    MPI_Waitall(2, receives_[turn], MPI_STATUSES_IGNORE);
    MPI_Waitall(2, sends_, MPI_STATUSES_IGNORE);
    return success();
  }

  Ranks ranks_;
  std::vector<double> memory_;
  MPI_Request receives_[2][2]{};
  MPI_Request sends_[2]{};
  MPI_Request persistent_[4]{};
  bool is_described_ = false;  // by these

 public:
  Rows rows;
};

class OverLend {
 public:
  static Result<std::unique_ptr<OverLend>> create(Ranks ranks, std::size_t doubles) {
    LEND_TRY(device, open_device());
    LEND_TRY(domain, device.allocate_protection_domain());
    LEND_TRY(memory, domain.allocate(5 * doubles * sizeof(double)));
    LEND_TRY(to_left, channel_builder().protection_domain(domain).build());
    LEND_TRY(to_right, channel_builder().protection_domain(domain).build());
    // What goes to the left is the peer of the left rank's right channel.
    LEND_TRY(left_peer, exchange(to_right, ranks, right));
    LEND_TRY(right_peer, exchange(to_left, ranks, left));
    LEND_TRY(on_left, std::move(to_left).handshake(left_peer));
    LEND_TRY(on_right, std::move(to_right).handshake(right_peer));
    MPI_Barrier(MPI_COMM_WORLD);
    LEND_TRY(bytes, memory.mutable_bytes());
    Rows const rows{reinterpret_cast<double*>(bytes.data()), doubles};
    return std::unique_ptr<OverLend>{new OverLend{ranks, rows, domain, std::move(memory),
                                                  std::move(on_left), std::move(on_right)}};
  }

  Result<void> halo(std::size_t turn) {
    PollingScope on_left{channels_[left]};
    PollingScope on_right{channels_[right]};
    LEND_TRY(from_left, on_left.post_receive(row_for(left, turn)));
    LEND_TRY(from_right, on_right.post_receive(row_for(right, turn)));
    LEND_TRYV(on_left.post_send(own_row()));
    LEND_TRYV(on_right.post_send(own_row()));
    LEND_TRYV(from_left.wait());
    LEND_TRYV(from_right.wait());
    LEND_TRYV(on_left.finish());
    return on_right.finish();
  }
  Result<void> begin_exchange() {
    if (exchange_) return success();
    LEND_TRY(group, join_over(MPI_COMM_WORLD, domain_, Deadline::never()));
    group_.emplace(std::move(group));
    auto const to_left = static_cast<std::uint32_t>(ranks_.beside(left));
    auto const to_right = static_cast<std::uint32_t>(ranks_.beside(right));
    LEND_TRY(peers,
             Peers::connect(*group_, std::array{to_left, to_left == to_right ? no_rank : to_right},
                            Deadline::never()));
    peers_.emplace(std::move(peers));
    exchange_.emplace(*peers_);
    // What goes to the left comes from the right.
    exchange_->send(to_left, own_row()).receive(to_right, row_for(right, 0));
    exchange_->send(to_right, own_row()).receive(to_left, row_for(left, 0));
    return success();
  }
  Result<void> exchange() { return exchange_->run(); }
  Result<void> begin_ahead() {
    for (int const side : {left, right}) {
      receiving_[side].emplace(channels_[side]);
      LEND_TRY(pending, receiving_[side]->post_receive(row_for(side, 0)));
      pending_[0][side].emplace(std::move(pending));
    }
    return success();
  }
  Result<void> ahead(std::size_t turn, bool is_last) {
    PollingScope on_left{channels_[left]};
    PollingScope on_right{channels_[right]};
    for (int const side : {left, right}) {
      if (is_last) break;
      LEND_TRY(pending, receiving_[side]->post_receive(row_for(side, 1 - turn)));
      pending_[1 - turn][side].emplace(std::move(pending));
    }
    LEND_TRYV(on_left.post_send(own_row()));
    LEND_TRYV(on_right.post_send(own_row()));
    for (auto& pending : pending_[turn]) {
      LEND_TRYV(pending->wait());
    }
    LEND_TRYV(on_left.finish());
    return on_right.finish();
  }
  Result<void> ring() {
    auto const receive_it = [this]() -> Result<void> {
      LEND_TRYV(channels_[left].receive(row_for(left, 0)));
      return success();
    };
    if (ranks_.own != 0) {
      LEND_TRYV(receive_it());
    }
    LEND_TRYV(channels_[right].send(own_row()));
    return ranks_.own == 0 ? receive_it() : success();
  }

 private:
  OverLend(Ranks ranks, Rows of, ProtectionDomain domain, MemoryRegion memory, Channel on_left,
           Channel on_right)
      : ranks_{ranks},
        domain_{std::move(domain)},
        memory_{std::move(memory)},
        channels_{std::move(on_left), std::move(on_right)},
        rows{of} {}

  /// Sends this endpoint to a side, and answers the one that comes from the other side.
  static Result<Endpoint> exchange(PreparedChannel const& mine, Ranks ranks, int to) {
    auto const bytes = mine.endpoint().encode();
    auto theirs = bytes;
    int const size = static_cast<int>(bytes.size());
    MPI_Sendrecv(bytes.data(), size, MPI_BYTE, ranks.beside(to), to, theirs.data(), size, MPI_BYTE,
                 ranks.beside(1 - to), to, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return Endpoint::decode(theirs);
  }
  [[nodiscard]] std::size_t row_bytes() const { return rows.doubles * sizeof(double); }
  [[nodiscard]] GatherElement own_row() const { return memory_.gather(0, row_bytes()); }
  [[nodiscard]] ScatterElement row_for(int side, std::size_t turn) {
    return memory_.scatter(Rows::place(side, turn) * row_bytes(), row_bytes());
  }

  Ranks ranks_;
  ProtectionDomain domain_;
  MemoryRegion memory_;
  Channel channels_[2];
  std::optional<PollingScope> receiving_[2]{};
  std::optional<PendingWork> pending_[2][2]{};
  std::optional<Group> group_{};
  std::optional<Peers> peers_{};
  std::optional<Exchange> exchange_{};

 public:
  Rows rows;
};

/// A block of rounds. Microseconds a round.
template <class Way>
Result<double> run(Way& way, std::string_view what, int rounds) {
  if (what == "exchange") {
    LEND_TRYV(way.begin_exchange());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  auto const begin = std::chrono::steady_clock::now();
  if (what == "ahead") {
    LEND_TRYV(way.begin_ahead());
  }
  for (int round = 0; round < rounds; ++round) {
    auto const turn = static_cast<std::size_t>(round % 2);
    if (what == "ring") {
      LEND_TRYV(way.ring());
      continue;
    }
    if (what == "exchange") {
      LEND_TRYV(way.exchange());
      way.rows.smooth(0);
      continue;
    }
    LEND_TRYV(what == "halo" ? way.halo(turn) : way.ahead(turn, round + 1 == rounds));
    way.rows.smooth(turn);
  }
  std::chrono::duration<double, std::micro> const took = std::chrono::steady_clock::now() - begin;
  return took.count() / rounds;
}

long switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

template <class T>
T median(std::vector<T> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Result<void> measure(Ranks ranks, std::string_view what, std::size_t doubles, int rounds) {
  OverMpi over_mpi{ranks, doubles};
  LEND_TRY(over_lend, OverLend::create(ranks, doubles));
  std::vector<double> mpi, lend, ratios, mpi_switches, lend_switches;
  over_mpi.rows.begin(ranks.own);
  over_lend->rows.begin(ranks.own);
  for (int block = 0; block < blocks; ++block) {
    long const before = switches();
    LEND_TRY(by_mpi, run(over_mpi, what, rounds));
    long const between = switches();
    LEND_TRY(by_lend, run(*over_lend, what, rounds));
    long const after = switches();
    if (!std::ranges::equal(over_mpi.rows.at(0), over_lend->rows.at(0)))
      return Error{Errc::work_failed, "MPI and lend computed different rows"};
    mpi.push_back(by_mpi);
    lend.push_back(by_lend);
    ratios.push_back(by_mpi / by_lend);
    mpi_switches.push_back(static_cast<double>(between - before) / rounds);
    lend_switches.push_back(static_cast<double>(after - between) / rounds);
  }
  if (ranks.own == 0)
    std::printf(
        "{\"what\": \"%s\", \"ranks\": %d, \"doubles\": %zu, \"mpi_us\": %.3f, \"lend_us\": %.3f, "
        "\"ratio\": %.3f, \"mpi_switches\": %.2f, \"lend_switches\": %.2f}\n",
        std::string{what}.c_str(), ranks.all, doubles, median(mpi), median(lend), median(ratios),
        median(mpi_switches), median(lend_switches));
  MPI_Barrier(MPI_COMM_WORLD);  // nobody closes a channel before all are done
  return success();
}

}  // namespace

int main(int argument_count, char** arguments) {
  std::span const words{arguments, static_cast<std::size_t>(argument_count)};
  std::size_t doubles = 0;
  int rounds = 0;
  std::string_view const what = words.size() == 4 ? words[1] : "";
  if ((what != "halo" && what != "exchange" && what != "ahead" && what != "ring") ||
      !bench::parse_number(words[2], doubles) || !bench::parse_number(words[3], rounds) ||
      doubles == 0 || rounds <= 0) {
    std::fputs("usage: mpirun -n RANKS beside_mpi halo|exchange|ahead|ring DOUBLES ROUNDS\n",
               stderr);
    return 2;
  }
  MPI_Init(&argument_count, &arguments);
  Ranks ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &ranks.own);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks.all);
  auto const measured = measure(ranks, what, doubles, rounds);
  if (measured.has_error()) {
    std::fprintf(stderr, "rank %d: %s\n", ranks.own, measured.error().describe().c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
