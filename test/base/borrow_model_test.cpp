// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: the ledger answers as a list of ranges compared one with another would.
// Method: random ranges, kinds and orders against that list; then threads that write what they
// borrowed. LEND_TEST_SEED replays a seed.
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <base/borrow.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace lend {

using base::BorrowLedger;
using base::LoanKind;

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) {
  return static_cast<std::size_t>(random() % bound);
}

bool overlap(ByteRange a, ByteRange b) {
  return a.length != 0 && b.length != 0 && a.offset < b.offset + b.length &&
         b.offset < a.offset + a.length;
}

/// A ledger and the plain list that it must agree with.
class Pair {
 public:
  struct Entry {
    base::Loan loan;
    ByteRange range;
    LoanKind kind{};
    unsigned line = 0;
  };

  void lend(ByteRange range, LoanKind kind) {
    auto entry = std::make_unique<Entry>();
    entry->range = range;
    entry->kind = kind;
    entry->line = ++lines_;
    auto const result =
        ledger_.lend(entry->loan, range, kind, Operation::write, {"model", entry->line});
    require_agreement(result, range, kind);
    REQUIRE(entry->loan.on_loan() == result.has_value());
    if (result) entries_.push_back(std::move(entry));
    REQUIRE(ledger_.loans() == entries_.size());
  }

  void check(ByteRange range, LoanKind kind) const {
    require_agreement(ledger_.check(range, kind), range, kind);
  }

  void give_back(std::size_t index) {
    REQUIRE(!BorrowLedger::give_back(entries_[index]->loan));
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
    REQUIRE(ledger_.loans() == entries_.size());
  }

  void end(Random& random) {
    REQUIRE(ledger_.retire() == entries_.empty());
    while (!entries_.empty()) {
      auto const index = below(random, entries_.size());
      REQUIRE(BorrowLedger::give_back(entries_[index]->loan) == (entries_.size() == 1));
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    REQUIRE(ledger_.loans() == 0);
  }

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  void require_agreement(Result<void> const& result, ByteRange range, LoanKind kind) const {
    auto const excludes = [&](auto const& entry) {
      return overlap(entry->range, range) &&
             (kind == LoanKind::exclusive || entry->kind == LoanKind::exclusive);
    };
    INFO("[" << range.offset << ", +" << range.length << ") kind " << static_cast<int>(kind)
             << " beside " << entries_.size());
    REQUIRE(result.has_error() == std::ranges::any_of(entries_, excludes));
    if (result) return;
    // The rival it names must be a real one.
    auto const text = result.error().message();
    auto const at = text.rfind("model:");
    REQUIRE(at != std::string::npos);
    auto const line = std::stoul(text.substr(at + 6));
    REQUIRE(std::ranges::any_of(
        entries_, [&](auto const& entry) { return entry->line == line && excludes(entry); }));
  }

  BorrowLedger ledger_;
  std::vector<std::unique_ptr<Entry>> entries_;
  unsigned lines_ = 0;
};

struct Mix {
  std::size_t bytes;            // of the region
  std::size_t length;           // ranges are shorter than this
  std::size_t exclusive_in_16;  // how many loans of 16 are exclusive
  std::size_t most;             // give back rather than lend above this
};

LoanKind kind_of(Random& random, Mix const& mix) {
  return below(random, 16) < mix.exclusive_in_16 ? LoanKind::exclusive : LoanKind::shared;
}

void run(Mix const& mix, std::uint64_t seed) {
  INFO("LEND_TEST_SEED=" << seed << " bytes " << mix.bytes << " length " << mix.length
                         << " exclusive " << mix.exclusive_in_16);
  Random random{seed};
  Pair pair;
  for (int step = 0; step < 1500; ++step) {
    auto const range = [&] {
      return ByteRange{below(random, mix.bytes), below(random, mix.length)};
    };
    pair.check(range(), kind_of(random, mix));
    if (pair.size() != 0 && (pair.size() >= mix.most || below(random, 3) == 0))
      pair.give_back(below(random, pair.size()));
    else
      pair.lend(range(), kind_of(random, mix));
  }
  pair.end(random);
}

TEST_CASE("the ledger agrees with a plain list on random loans", "[base]") {
  constexpr Mix mixes[] = {
      {16, 6, 8, 12},       // crowded: ties and neighbours everywhere
      {64, 64, 2, 24},      // long shared loans over short ones
      {200, 8, 8, 40},      // mostly disjoint
      {4096, 300, 1, 80},   // many shared
      {4096, 60, 15, 80},   // many exclusive
      {1 << 20, 2, 8, 60},  // single bytes and nothings
  };
  for (auto const seed : test::seeds(12))
    for (auto const& mix : mixes) run(mix, seed);
}

TEST_CASE("the ledger agrees with a plain list when exclusive loans come after shared ones",
          "[base]") {
  for (auto const seed : test::seeds(8)) {
    INFO("LEND_TEST_SEED=" << seed);
    Random random{seed};
    Pair pair;
    for (int round = 0; round < 6; ++round) {  // between rounds nothing is on loan
      auto const range = [&] { return ByteRange{below(random, 4096), below(random, 40)}; };
      for (auto shared = below(random, 200); shared > 0; --shared) {
        pair.lend(range(), LoanKind::shared);
        pair.check(range(), LoanKind::exclusive);
        if (below(random, 4) == 0) pair.give_back(below(random, pair.size()));
      }
      for (int step = 0; step < 60; ++step) {
        pair.lend(range(), below(random, 2) == 0 ? LoanKind::exclusive : LoanKind::shared);
        pair.check(range(), LoanKind::shared);
        pair.check(range(), LoanKind::exclusive);
      }
      while (pair.size() > 0) pair.give_back(below(random, pair.size()));
    }
    pair.end(random);
  }
}

TEST_CASE("the ledger agrees with a plain list on a ring whose window slides", "[base]") {
  for (auto const seed : test::seeds(8)) {
    INFO("LEND_TEST_SEED=" << seed);
    Random random{seed};
    Pair pair;
    constexpr std::size_t pieces = 32;
    for (std::size_t step = 0; step < 2000; ++step) {
      pair.lend({(step % pieces) * 8, 8}, LoanKind::exclusive);
      pair.check({below(random, pieces * 8), 1 + below(random, 16)}, LoanKind::shared);
      while (pair.size() > pieces - 1 - below(random, 4)) pair.give_back(0);
    }
    pair.end(random);
  }
}

TEST_CASE("no two threads hold the same bytes when one of them may write", "[base]") {
  constexpr std::size_t cells = 64;
  constexpr unsigned threads = 4;
  for (auto const seed : test::seeds(2)) {
    INFO("LEND_TEST_SEED=" << seed);
    BorrowLedger ledger;
    std::vector<unsigned> memory(cells);  // plain: a wrong ledger is a data race here
    std::atomic<bool> torn{false};
    std::atomic<unsigned> granted{0};
    auto const work = [&](unsigned self) {
      Random random{seed * 100 + self};
      base::Loan loan;
      for (int step = 0; step < 5000; ++step) {
        ByteRange const range{below(random, cells - 8), below(random, 8)};
        bool const writes = below(random, 2) == 0;
        auto const result =
            ledger.lend(loan, range, writes ? LoanKind::exclusive : LoanKind::shared,
                        writes ? Operation::receive : Operation::send, SourceLine::here());
        if (!result) continue;
        ++granted;
        auto const piece = std::span{memory}.subspan(range.offset, range.length);
        std::vector<unsigned> const seen{piece.begin(), piece.end()};
        if (writes) std::ranges::fill(piece, self);
        if (step % 16 == 0) std::this_thread::yield();
        if (writes ? std::ranges::any_of(piece, [&](unsigned cell) { return cell != self; })
                   : !std::ranges::equal(piece, seen))
          torn = true;
        if (BorrowLedger::give_back(loan)) torn = true;
      }
    };
    std::vector<std::thread> running;
    for (unsigned self = 1; self <= threads; ++self) running.emplace_back(work, self);
    for (auto& thread : running) thread.join();
    CHECK(!torn);
    CHECK(granted > 0);
    CHECK(ledger.loans() == 0);
    CHECK(ledger.retire());
  }
}

TEST_CASE("exactly one of many threads takes the last loan back after retiring", "[base]") {
  constexpr std::size_t threads = 4;
  for (int round = 0; round < 200; ++round) {
    auto ledger = std::make_unique<BorrowLedger>();
    std::vector<base::Loan> loans(threads);
    for (auto& loan : loans)
      REQUIRE(ledger->lend(loan, {0, 8}, LoanKind::shared, Operation::send, {}));
    std::atomic<int> released{0};
    // Whoever is told to release does so at once: a later touch is a use after free.
    auto const release = [&] {
      ledger.reset();
      ++released;
    };
    std::vector<std::thread> running;
    for (auto& loan : loans)
      running.emplace_back([&] {
        if (BorrowLedger::give_back(loan)) release();
      });
    if (ledger->retire()) release();
    for (auto& thread : running) thread.join();
    REQUIRE(released == 1);
  }
}

}  // namespace
}  // namespace lend
