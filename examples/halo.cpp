// SPDX-License-Identifier: MIT OR Apache-2.0
// A 2-D stencil whose rows are shared out to ranks: each exchanges the rows at its borders with the
// ranks above and below, every step, and compares its part with a serial run, bit by bit:
//
//   lend-run -n 4 halo
#include <lend/group.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <span>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr std::size_t rows = 48;     // of a part, with one more above and one below
constexpr std::size_t row = 64 + 2;  // cells, of which the first and the last stay zero
constexpr std::size_t steps = 200;

/// The first values of a part, whose rows begin with row `top` of the whole.
void fill(std::span<double> cells, std::size_t top) {
  std::ranges::fill(cells, 0.0);
  for (std::size_t y = 1; y <= cells.size() / row - 2; ++y)
    for (std::size_t x = 1; x < row - 1; ++x)
      cells[y * row + x] = static_cast<double>((x * 7 + (top + y) * 13) % 101);
}

/// Each cell becomes the mean of its four neighbours.
void step(std::span<double> cells) {
  std::vector<double> const old(cells.begin(), cells.end());
  for (std::size_t y = 1; y <= cells.size() / row - 2; ++y)
    for (std::size_t i = y * row + 1; i < y * row + row - 1; ++i)
      cells[i] = 0.25 * (old[i - 1] + old[i + 1] + old[i - row] + old[i + row]);
}

/// Whether the rows of a part are those of a serial run.
bool are_right(std::span<double const> cells, std::size_t top, std::size_t all_rows) {
  std::vector<double> whole(row * (all_rows + 2));
  fill(whole, 0);
  for (std::size_t i = 0; i < steps; ++i) step(whole);
  return std::ranges::equal(cells.subspan(row, row * rows),
                            std::span{whole}.subspan(row * (top + 1), row * rows));
}

lend::Result<void> run() {
  LEND_TRY(seat, lend::Seat::from_environment());
  LEND_TRY(context, lend::open_device());
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(group, lend::Group::join(domain, seat, lend::within(60s)));
  auto const rank = group.rank(), size = group.size();
  auto const above = rank == 0 ? lend::no_rank : rank - 1;
  auto const below = rank + 1 == size ? lend::no_rank : rank + 1;
  // excerpt exchange
  LEND_TRY(peers, lend::Peers::connect(group, std::array{above, below}, lend::within(60s)));
  LEND_TRY(cells, domain.allocate<double>(row * (rows + 2)));
  lend::Exchange halo{peers};
  halo.receive(above, cells.scatter(0, row)).send(above, cells.gather(row, row));
  halo.receive(below, cells.scatter((rows + 1) * row, row));
  halo.send(below, cells.gather(rows * row, row));
  // end of excerpt

  LEND_TRY(first, cells.mutable_values());
  fill(first, rank * rows);
  for (std::size_t i = 0; i < steps; ++i) {
    LEND_TRYV(halo.run(lend::within(10s)));
    LEND_TRY(values, cells.mutable_values());
    step(values);
  }
  LEND_TRYV(halo.finish());

  LEND_TRY(last, cells.values());
  std::uint32_t const is_right = are_right(last, rank * rows, size * rows) ? 1 : 0;
  LEND_TRY(right, group.allreduce(lend::sum<std::uint32_t>, is_right, lend::within(60s)));
  if (rank == 0)
    std::cout << right << " of " << size << " ranks have the cells of a serial run after " << steps
              << " steps" << std::endl;
  if (right != size) return lend::Error{lend::Errc::disagreement, "a cell is wrong"};
  return group.barrier(lend::within(60s));
}

}  // namespace

int main() {
  auto const done = run();
  if (done) return 0;
  std::cerr << done.error().describe() << std::endl;
  return 1;
}
