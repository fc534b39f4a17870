// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: puts, gets and atomic changes of all ranks in epochs do what they would one by one.
// Method: random programs of four ranks as threads, against a serial model.
#include "group/window_ranks.hpp"
#include "support/seed.hpp"
#include "support/thorough.hpp"

#include <cstdint>
#include <random>
#include <vector>

using namespace lend;
using namespace lend::test;

namespace window_model {

using Model = std::vector<std::vector<std::int64_t>>;  // of each rank its part

/// One access of a rank to a word of another one.
struct Access {
  enum class Kind : std::uint8_t { put, get, fetch_add, compare_swap };
  Kind kind;
  std::uint32_t by, of;
  std::size_t word;
  std::int64_t value;     // that is put, added, or set
  std::int64_t expected;  // by a get or a swap; an add finds it, or more
};

/// An epoch that the model has run: each word is put by one rank, or got or added to by several,
/// or compared by several of which one is right.
std::vector<Access> next_epoch(std::mt19937& random, Model& model) {
  using Kind = Access::Kind;
  auto const size = static_cast<std::uint32_t>(model.size());
  std::vector<Access> all;
  for (std::uint32_t of = 0; of < size; ++of)
    for (std::size_t word = 0; word < window_words; ++word) {
      if (random() % 2 == 0) continue;
      auto& now = model[of][word];
      auto const before = now;
      auto const kind = static_cast<Kind>(random() % 4);
      auto const chosen = (of + 1 + static_cast<std::uint32_t>(random()) % (size - 1)) % size;
      for (std::uint32_t by = 0; by < size; ++by) {
        if (by == of || (kind == Kind::put ? by != chosen : random() % 3 == 0 && by != chosen))
          continue;
        auto const value = static_cast<std::int64_t>(random());
        bool const is_right = kind != Kind::compare_swap || by == chosen;
        all.push_back({kind, by, of, word, value, is_right ? before : -1});
        if (kind == Kind::fetch_add) now += value;
        if (kind == Kind::put || (kind == Kind::compare_swap && is_right)) now = value;
      }
    }
  return all;
}

/// This rank's part of an epoch.
void run(WindowRank& self, std::vector<Access> const& all, Model const& after) {
  using Kind = Access::Kind;
  auto epoch = taken(self.window.open(within(patience)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const& [kind, by, of, word, value, expected] = all[i];
    if (by != self.rank) continue;
    auto* const to = taken(epoch.on(of));
    auto const place = self.mine.scatter(i, 1);
    auto const target = taken(self.window.of<std::int64_t>(of))[word];
    auto const unsigned_value = static_cast<std::uint64_t>(value);
    if (kind == Kind::put) {
      taken(self.mine.mutable_values(i, 1))[0] = value;
      static_cast<void>(taken(to->post_write({self.mine.gather(i, 1), target})));
    } else if (kind == Kind::get) {
      static_cast<void>(taken(to->post_read({place, target})));
    } else if (kind == Kind::fetch_add) {
      static_cast<void>(
          taken(to->post_atomic(Atomic::fetch_add(place, target.word(), unsigned_value))));
    } else {
      static_cast<void>(taken(to->post_atomic(Atomic::compare_swap(
          place, target.word(), static_cast<std::uint64_t>(expected), unsigned_value))));
    }
  }
  expect(epoch.finish(within(patience)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const& [kind, by, of, word, value, expected] = all[i];
    if (by != self.rank || kind == Kind::put || expected < 0) continue;
    auto const found = value_at(self.mine, i);
    if (kind == Kind::fetch_add)
      expect(found >= expected && found + value <= after[of][word], "what was added to");
    else
      expect(found == expected, "what was got");
  }
}

TEST_CASE("random programs of puts, gets and changes do what a serial one does", "[group]") {
  if (!open_test_device().capabilities().atomics) return;
  auto const seed = seed_of_this_run();
  CAPTURE(seed);
  int const programs = takes_all(open_test_device()) ? 200 : 20;
  on_windows(4, [&](WindowRank& self) {
    std::mt19937 random{seed};
    Model model(4, std::vector<std::int64_t>(window_words));
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      for (std::size_t word = 0; word < window_words; ++word)
        model[rank][word] = posted_value(rank, word);
    for (int i = 0; i < programs; ++i) {
      auto const all = next_epoch(random, model);
      expect(all.size() <= self.mine.size(), "a program is too long");
      run(self, all, model);
      for (std::size_t word = 0; word < window_words; ++word)
        expect(value_at(self.own, word) == model[self.rank][word], "a word");
    }
  });
}

}  // namespace window_model
