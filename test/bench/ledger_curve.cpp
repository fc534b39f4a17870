// SPDX-License-Identifier: MIT OR Apache-2.0
// What a loan and its return cost beside 0, 9, 99 and 999 others, by the order in which they go.
// One thread.
// Usage: ledger_curve [--json]   nanoseconds, the least of several rounds
//        ledger_curve --once     each cell once: ledger_curve.py counts instructions
#include <base/borrow.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

namespace {

using namespace lend;
using lend::base::LoanKind;

enum class Pattern {
  in_order,        // disjoint pieces, lent and given back ascending
  any_order_back,  // disjoint pieces, lent ascending, given back at random
  ring,            // the oldest comes back and the next piece goes out
  refill,          // any one comes back and goes out again
  two_rings,       // two rings in one region, taking turns
  to_and_fro,      // beside a ring one goes out, the other comes back: below all, above the first
  same_range,      // one range lent for reading over and over, given back at random
  reverse,         // disjoint pieces, lent and given back descending
  random,          // disjoint pieces, lent and given back at random
  nested,          // for reading, each inside the one before, which comes back first
  overlapping,     // for reading, random ranges all over each other, in random order
};
constexpr char const* names[] = {"in_order",  "any_order_back", "ring",       "refill",
                                 "two_rings", "to_and_fro",     "same_range", "reverse",
                                 "random",    "nested",         "overlapping"};
constexpr Pattern patterns[] = {Pattern::in_order,   Pattern::any_order_back, Pattern::ring,
                                Pattern::refill,     Pattern::two_rings,      Pattern::to_and_fro,
                                Pattern::same_range, Pattern::reverse,        Pattern::random,
                                Pattern::nested,     Pattern::overlapping};
constexpr std::size_t piece = 64;

/// Ranges and the order in which they go out and come back, made beforehand.
struct Plan {
  std::vector<ByteRange> ranges;
  std::vector<std::size_t> out, back;
  LoanKind kind = LoanKind::exclusive;
  bool is_cycle = false;          // all are out: `back` comes back and `out` goes out, one by one
  std::size_t absent = SIZE_MAX;  // of a cycle: not out at first
};

std::vector<std::size_t> numbers(std::size_t count) {
  std::vector<std::size_t> result(count);
  std::iota(result.begin(), result.end(), std::size_t{0});
  return result;
}

Plan plan_of(Pattern pattern, std::size_t loans) {
  std::mt19937_64 random{loans};
  Plan plan;
  plan.out = plan.back = numbers(loans);
  for (std::size_t i = 0; i < loans; ++i) plan.ranges.push_back({i * piece, piece});
  auto const shuffle = [&](auto& order) { std::shuffle(order.begin(), order.end(), random); };
  switch (pattern) {
    case Pattern::in_order: break;
    case Pattern::any_order_back: shuffle(plan.back); break;
    case Pattern::ring: plan.is_cycle = true; break;
    case Pattern::refill:
      plan.is_cycle = true;
      shuffle(plan.back);
      plan.out = plan.back;
      break;
    case Pattern::two_rings:
      plan.is_cycle = true;
      for (std::size_t i = 0; i < loans; ++i) plan.back[i] = i / 2 + i % 2 * (loans / 2);
      plan.out = plan.back;
      break;
    case Pattern::to_and_fro:
      plan.is_cycle = true;
      if (loans < 3) break;
      plan.absent = 2;
      for (std::size_t i = 0; i < loans; ++i) {
        plan.back[i] = i % 2 == 0 ? 0 : 2;
        plan.out[i] = i % 2 == 0 ? 2 : 0;
      }
      break;
    case Pattern::same_range:
      plan.kind = LoanKind::shared;
      std::fill(plan.ranges.begin(), plan.ranges.end(), ByteRange{0, loans * piece});
      shuffle(plan.back);
      break;
    case Pattern::reverse:
      std::reverse(plan.out.begin(), plan.out.end());
      plan.back = plan.out;
      break;
    case Pattern::random:
      shuffle(plan.out);
      shuffle(plan.back);
      break;
    case Pattern::nested:
      plan.kind = LoanKind::shared;
      for (std::size_t i = 0; i < loans; ++i)
        plan.ranges[i] = {i * piece, (2 * loans - 2 * i) * piece};
      break;
    case Pattern::overlapping:
      plan.kind = LoanKind::shared;
      for (auto& range : plan.ranges)
        range = {random() % (loans * piece), 1 + random() % (loans * piece)};
      shuffle(plan.out);
      shuffle(plan.back);
      break;
  }
  return plan;
}

class Ledger {
 public:
  explicit Ledger(Plan const& plan) : plan_{plan}, loans_(plan.ranges.size()) {
    if (plan.is_cycle)
      for (std::size_t i = 0; i < loans_.size(); ++i)
        if (i != plan.absent) lend(i);
  }
  ~Ledger() {
    for (auto& loan : loans_)
      if (loan.on_loan()) static_cast<void>(base::BorrowLedger::give_back(loan));
  }
  Ledger(Ledger const&) = delete;
  Ledger& operator=(Ledger const&) = delete;

  void lend(std::size_t i) {  // as a post does
    auto& loan = loans_[i];
    auto const& range = plan_.ranges[i];
    if (!ledger_.lend_at_once(loan, range, plan_.kind, Operation::receive, here_) &&
        !ledger_.lend(loan, range, plan_.kind, Operation::receive, here_))
      std::abort();
  }
  void give_back(std::size_t i) { static_cast<void>(base::BorrowLedger::give_back(loans_[i])); }

  /// Each loan once out and once back. Out of line and an instance per cell, so that callgrind's
  /// inclusive cost of this function is the cell's.
  template <Pattern pattern, std::size_t loans>
  [[gnu::noinline]] void go_round() {
    asm volatile("" : : "r"(pattern));  // or the compiler makes one function of those alike
    if (plan_.is_cycle) {
      for (std::size_t i = 0; i < loans; ++i) {
        give_back(plan_.back[i]);
        lend(plan_.out[i]);
      }
    } else {
      for (std::size_t i = 0; i < loans; ++i) lend(plan_.out[i]);
      for (std::size_t i = 0; i < loans; ++i) give_back(plan_.back[i]);
    }
  }

 private:
  Plan const& plan_;
  base::BorrowLedger ledger_;
  std::vector<base::Loan> loans_;
  SourceLine here_ = SourceLine::here();
};

using Clock = std::chrono::steady_clock;

/// Nanoseconds for a loan and its return: the least of some rounds.
template <Pattern pattern, std::size_t loans>
double measure(bool once) {
  Plan const plan = plan_of(pattern, loans);
  Ledger ledger{plan};
  double least = 1e9;
  std::size_t const rounds = once ? 1 : 30;
  std::size_t const repeats = once ? 1 : 20'000 / loans;
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const started = Clock::now();
    for (std::size_t i = 0; i < repeats; ++i) ledger.go_round<pattern, loans>();
    std::chrono::duration<double, std::nano> const took = Clock::now() - started;
    least = std::min(least, took.count() / static_cast<double>(repeats * loans));
  }
  return least;
}

enum class Mode { table, json, once };

template <std::size_t row>
void run_row(Mode mode) {
  bool const once = mode == Mode::once;
  constexpr Pattern pattern = patterns[row];
  double const cells[] = {measure<pattern, 1>(once), measure<pattern, 10>(once),
                          measure<pattern, 100>(once), measure<pattern, 1000>(once)};
  if (once) return;
  if (mode == Mode::json) {
    std::printf(
        "{\"pattern\": \"%s\", \"ns_1\": %.1f, \"ns_10\": %.1f, \"ns_100\": %.1f, "
        "\"ns_1000\": %.1f}\n",
        names[row], cells[0], cells[1], cells[2], cells[3]);
    return;
  }
  std::printf("%-16s", names[row]);
  for (double const cell : cells) std::printf("%8.0f", cell);
  std::printf("\n");
}

template <std::size_t... rows>
void run_all(Mode mode, std::index_sequence<rows...>) {
  if (mode == Mode::table) std::printf("%-16s%8d%8d%8d%8d\n", "ns, loans", 1, 10, 100, 1000);
  (run_row<rows>(mode), ...);
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const word{argc == 2 ? argv[1] : ""};
  if (argc > 2 || (argc == 2 && word != "--json" && word != "--once")) {
    std::fputs("ledger_curve [--json|--once]\n", stderr);
    return 2;
  }
  Mode const mode = word == "--once" ? Mode::once : word == "--json" ? Mode::json : Mode::table;
  run_all(mode, std::make_index_sequence<std::size(patterns)>{});
}
