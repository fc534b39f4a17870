// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the halos of two HPC programs, a cube with 26 neighbours and the rows of a sparse matrix,
// are few lines, and each step has the values of a serial program. Method: ranks as threads;
// integers, so that sums are exact.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"

#include <lend/group.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

using namespace lend;
using namespace lend::test;

namespace {

// ---- what a program writes to communicate ----

/// The ghost layer of a cube of edge^3 cells, in a cube of cubes that joins its opposite faces.
class CubeHalo {
 public:
  CubeHalo(Peers& peers, Values& cells, std::size_t edge, std::uint32_t cubes, std::uint32_t rank)
      : halo_{peers} {
    for (int direction = 0; direction < 27; ++direction) {
      if (direction == 13) continue;  // to itself
      std::array const way{direction / 9 - 1, direction / 3 % 3 - 1, direction % 3 - 1};
      Blocks::Index edge_cells, ghosts, size;
      for (std::size_t i = 0; i < 3; ++i) {
        size[i] = way[i] == 0 ? edge : 1;
        edge_cells[i] = way[i] > 0 ? edge : 1;
        ghosts[i] = way[i] > 0 ? 0 : way[i] < 0 ? edge + 1 : 1;  // from the opposite way
      }
      Blocks::Index const extents{edge + 2, edge + 2, edge + 2};
      halo_.send(neighbour(rank, cubes, way, 1),
                 cells.gather(Blocks::box(extents, edge_cells, size)));
      halo_.receive(neighbour(rank, cubes, way, -1),
                    cells.scatter(Blocks::box(extents, ghosts, size)));
    }
  }
  [[nodiscard]] Result<void> fill(Deadline deadline) { return halo_.run(deadline); }

 private:
  static std::uint32_t neighbour(std::uint32_t rank, std::uint32_t cubes,
                                 std::array<int, 3> const& way, int sign) {
    auto const on_axis = [&](std::uint32_t at, int step) {
      return (at + cubes + static_cast<std::uint32_t>(sign * step)) % cubes;
    };
    return (on_axis(rank / cubes / cubes, way[0]) * cubes + on_axis(rank / cubes % cubes, way[1])) *
               cubes +
           on_axis(rank % cubes, way[2]);
  }

  Exchange halo_;
};

/// Of rows of a matrix: their columns, each the number of a row anywhere, and their factors.
struct Matrix {
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> rows;
};

/// The values that the rows of a rank need of other ranks, behind its own ones.
class MatrixHalo {
 public:
  /// `rows` of each rank; columns of `own` become places in values().
  [[nodiscard]] Result<void> connect(Group& group, ProtectionDomain const& domain, Peers& peers,
                                     std::uint32_t rows, Matrix& own, Deadline deadline) {
    auto const first = group.rank() * rows;
    std::map<std::uint32_t, std::uint32_t> places;  // of ghosts, in the order of their owners
    for (auto const& row : own.rows)
      for (auto const& [column, factor] : row)
        if (column / rows != group.rank()) places.emplace(column, 0);
    std::vector<std::uint32_t> wanted;
    std::vector<std::uint32_t> from(group.size()), to(group.size());
    for (auto& [column, place] : places) {
      place = rows + static_cast<std::uint32_t>(wanted.size());
      wanted.push_back(column % rows);
      ++from[column / rows];
    }
    for (auto& row : own.rows)
      for (auto& [column, factor] : row)
        column = column / rows == group.rank() ? column - first : places.at(column);
    LEND_TRYV(group.all_to_all(from, to, deadline));
    std::vector<std::uint32_t> asked(std::accumulate(to.begin(), to.end(), std::size_t{0}));
    LEND_TRYV(group.all_to_allv(wanted, from, asked, to, deadline));
    LEND_TRY(values, domain.allocate<std::int64_t>(rows + wanted.size()));
    values_.emplace(std::move(values));
    halo_.emplace(peers);
    std::span<std::uint32_t const> rest{asked};
    std::size_t ghost = rows;
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
      if (to[rank] > 0) halo_->send(rank, values_->gather(rest.first(to[rank])));
      if (from[rank] > 0) halo_->receive(rank, values_->scatter(ghost, from[rank]));
      rest = rest.subspan(to[rank]);
      ghost += from[rank];
    }
    return success();
  }
  [[nodiscard]] Values& values() { return *values_; }
  [[nodiscard]] Result<void> fill(Deadline deadline) { return halo_->run(deadline); }

 private:
  std::optional<Values> values_{};
  std::optional<Exchange> halo_{};
};

// ---- the programs ----

constexpr std::int64_t modulus = 1'000'003;

/// Each cell becomes the sum of itself and its 26 neighbours; `cell` has one by its indices.
template <class Cell>
std::int64_t sum_around(Cell const& cell, std::size_t i, std::size_t j, std::size_t k) {
  std::int64_t sum = 0;
  for (std::size_t x = i - 1; x <= i + 1; ++x)
    for (std::size_t y = j - 1; y <= j + 1; ++y)
      for (std::size_t z = k - 1; z <= k + 1; ++z) sum += cell(x, y, z);
  return sum % modulus;
}

template <class Body>
void for_cube(std::size_t edge, Body const& body) {
  for (std::size_t i = 1; i <= edge; ++i)
    for (std::size_t j = 1; j <= edge; ++j)
      for (std::size_t k = 1; k <= edge; ++k) body(i, j, k);
}

/// A cube of edge^3 cells after so many steps, without ghosts.
std::vector<std::int64_t> serial_cube(std::size_t edge, int steps) {
  std::vector<std::int64_t> cells(edge * edge * edge);
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<std::int64_t>(i);
  for (int step = 0; step < steps; ++step) {
    auto const before = cells;
    auto const cell = [&](std::size_t i, std::size_t j, std::size_t k) {
      return before[((i - 1 + edge) % edge * edge + (j - 1 + edge) % edge) * edge +
                    (k - 1 + edge) % edge];
    };
    for_cube(edge, [&](std::size_t i, std::size_t j, std::size_t k) {
      cells[((i - 1) * edge + j - 1) * edge + k - 1] = sum_around(cell, i, j, k);
    });
  }
  return cells;
}

Matrix random_matrix(std::uint32_t size) {
  std::mt19937 random{42};
  Matrix matrix{std::vector(size, std::vector<std::pair<std::uint32_t, std::int64_t>>(5))};
  for (auto& row : matrix.rows)
    for (auto& [column, factor] : row) {
      column = static_cast<std::uint32_t>(random() % size);
      factor = static_cast<std::int64_t>(random() % 100);
    }
  return matrix;
}

std::vector<std::int64_t> times(Matrix const& matrix, std::span<std::int64_t const> values) {
  std::vector<std::int64_t> result;
  for (auto const& row : matrix.rows) {
    std::int64_t sum = 0;
    for (auto const& [column, factor] : row) sum += factor * values[column];
    result.push_back(sum % modulus);
  }
  return result;
}

}  // namespace

TEST_CASE("a cube exchanges its faces, edges and corners with 26 neighbours", "[group]") {
  if (connects_slowly()) return;
  constexpr std::uint32_t cubes = 2;
  constexpr std::size_t edge = 4, whole = cubes * edge;
  constexpr int steps = 4;
  auto const expected = serial_cube(whole, steps);
  ScopeRanks ranks{cubes * cubes * cubes};
  constexpr std::size_t side = edge + 2;
  on_each_with_values(ranks, side * side * side, [&](Group& group, Values& cells) {
    auto const rank = group.rank();
    auto const all = taken(cells.mutable_values());
    auto const own = [&](std::size_t i, std::size_t j, std::size_t k) -> std::int64_t& {
      return all[(i * side + j) * side + k];
    };
    auto const of_whole = [&](std::size_t i, std::size_t j, std::size_t k) {
      return ((rank / cubes / cubes * edge + i - 1) * whole + rank / cubes % cubes * edge + j - 1) *
                 whole +
             rank % cubes * edge + k - 1;
    };
    for_cube(edge, [&](std::size_t i, std::size_t j, std::size_t k) {
      own(i, j, k) = static_cast<std::int64_t>(of_whole(i, j, k));
    });
    auto peers = taken(Peers::connect_all(group, within(patience)));
    CubeHalo halo{peers, cells, edge, cubes, rank};
    for (int step = 0; step < steps; ++step) {
      expect(halo.fill(within(patience)));
      auto const before = std::vector(all.begin(), all.end());
      auto const cell = [&](std::size_t i, std::size_t j, std::size_t k) {
        return before[(i * side + j) * side + k];
      };
      for_cube(edge, [&](std::size_t i, std::size_t j, std::size_t k) {
        own(i, j, k) = sum_around(cell, i, j, k);
      });
    }
    for_cube(edge, [&](std::size_t i, std::size_t j, std::size_t k) {
      expect(own(i, j, k) == expected[of_whole(i, j, k)], "a cell");
    });
    expect(group.barrier(within(patience)));
  });
}

TEST_CASE("the rows of a sparse matrix get the values that other ranks have", "[group]") {
  if (connects_slowly()) return;
  constexpr std::uint32_t size = 4, rows = 25;
  constexpr int steps = 4;
  auto const matrix = random_matrix(size * rows);
  std::vector<std::int64_t> expected(size * rows, 1);
  for (int step = 0; step < steps; ++step) expected = times(matrix, expected);
  ScopeRanks ranks{size};
  on_each(ranks.groups, [&](Group& group) {
    auto const first = group.rank() * rows;
    Matrix own{{matrix.rows.begin() + first, matrix.rows.begin() + first + rows}};
    auto peers = taken(Peers::connect_all(group, within(patience)));
    MatrixHalo halo;
    expect(halo.connect(group, ranks.domains[group.rank()], peers, rows, own, within(patience)));
    auto const values = taken(halo.values().mutable_values());
    std::ranges::fill(values.first(rows), 1);
    for (int step = 0; step < steps; ++step) {
      expect(halo.fill(within(patience)));
      std::ranges::copy(times(own, values), values.begin());
    }
    expect(std::equal(values.begin(), values.begin() + rows, expected.begin() + first), "a value");
    expect(group.barrier(within(patience)));
  });
}
