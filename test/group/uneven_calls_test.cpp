// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: parts of any lengths reach whom they are for, ranks that expect other lengths are told so,
// and scans combine in the order of ranks. Method: ranks are threads; values are compared with a
// serial model.
#include "group/ranks.hpp"
#include "group/scope_ranks.hpp"
#include "support/seed.hpp"

#include <array>
#include <random>
#include <thread>

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

namespace {

using Numbers = std::vector<std::int64_t>;
using Lengths = std::vector<std::uint32_t>;

/// What `from` has for `to`, at place i.
std::int64_t value_of(std::uint32_t from, std::uint32_t to, std::size_t i) {
  return std::int64_t(from) * 1'000'003 + std::int64_t(to) * 10'007 + std::int64_t(i) * 7 + 1;
}

/// Lengths of what each rank has for each, in words of 8 bytes: one in three is empty, and the
/// longest is many messages of 256 bytes.
struct Model {
  Model(std::uint32_t ranks, std::uint64_t seed) : size{ranks}, lengths(ranks * ranks) {
    std::mt19937_64 draw{seed};
    for (auto& length : lengths)
      length = draw() % 3 == 0 ? 0 : static_cast<std::uint32_t>(draw() % (draw() % 2 ? 5 : 300));
  }
  std::uint32_t length(std::uint32_t from, std::uint32_t to) const {
    return lengths[from * size + to];
  }
  Lengths sent(std::uint32_t from) const {
    return {lengths.begin() + from * size, lengths.begin() + (from + 1) * size};
  }
  Lengths received(std::uint32_t to) const {
    Lengths all;
    for (std::uint32_t from = 0; from < size; ++from) all.push_back(length(from, to));
    return all;
  }
  void add(Numbers& values, std::uint32_t from, std::uint32_t to) const {
    for (std::size_t i = 0; i < length(from, to); ++i) values.push_back(value_of(from, to, i));
  }
  Numbers part(std::uint32_t from, std::uint32_t to) const {
    Numbers values;
    add(values, from, to);
    return values;
  }
  Numbers from(std::uint32_t rank) const {
    Numbers values;
    for (std::uint32_t to = 0; to < size; ++to) add(values, rank, to);
    return values;
  }
  Numbers to(std::uint32_t rank) const {
    Numbers values;
    for (std::uint32_t from = 0; from < size; ++from) add(values, from, rank);
    return values;
  }

  std::uint32_t size;
  Lengths lengths;  // by sender and receiver
};

void check_uneven(Group& group, Model const& model) {
  auto const rank = group.rank(), root = group.size() - 1;
  bool const is_root = rank == root;
  auto const sent = model.sent(rank), received = model.received(rank);
  auto const of_root = model.received(root);

  Numbers gathered(is_root ? model.to(root).size() : 0);
  expect(group.gatherv(root, model.part(rank, root), is_root ? Counts{of_root} : Counts{}, gathered,
                       within(patience)));
  expect(!is_root || gathered == model.to(root), "gatherv");

  Numbers own(model.length(root, rank));
  auto const all = is_root ? model.from(root) : Numbers{};
  expect(group.scatterv(root, all, is_root ? Counts{sent} : Counts{}, own, within(patience)));
  expect(own == model.part(root, rank), "scatterv");

  Numbers everything(model.to(root).size());
  expect(group.allgatherv(model.part(rank, root), of_root, everything, within(patience)));
  expect(everything == model.to(root), "allgatherv");

  Numbers exchanged(model.to(rank).size());
  expect(group.all_to_allv(model.from(rank), sent, exchanged, received, within(patience)));
  expect(exchanged == model.to(rank), "all_to_allv");
}

/// Does not commute: (a, b) · (c, d) = (a·c, a·d + b).
struct Composition {
  struct Element {
    std::uint64_t a, b;
    bool operator==(Element const&) const = default;
  };
  static constexpr std::string_view name = "composition";
  void operator()(Element& into, Element const& from) const noexcept {
    into = {into.a * from.a, into.a * from.b + into.b};
  }
};

Composition::Element element_of(std::uint32_t rank, std::size_t i) {
  return {2 * rank + 3 + i, rank + 1};
}
/// Of ranks 0 to `last`.
Composition::Element prefix_of(std::uint32_t last, std::size_t i) {
  auto all = element_of(0, i);
  for (std::uint32_t rank = 1; rank <= last; ++rank) Composition{}(all, element_of(rank, i));
  return all;
}

void check_scans(Group& group, std::size_t count) {
  auto const rank = group.rank();
  std::vector<Composition::Element> own(count);
  for (std::size_t i = 0; i < count; ++i) own[i] = element_of(rank, i);
  auto scanned = own, before = own;
  expect(group.scan(Composition{}, scanned, within(patience)));
  expect(group.exscan(Composition{}, before, within(patience)));
  for (std::size_t i = 0; i < count; ++i) {
    expect(scanned[i] == prefix_of(rank, i), "scan");
    expect(before[i] == (rank == 0 ? own[i] : prefix_of(rank - 1, i)), "exscan");
  }
}

/// For threads of ranks.
void posted(Result<PendingCollective> const& collective) {
  expect(collective.has_value(), "not posted");
}

}  // namespace

TEST_CASE("uneven parts reach whom they are for, of any lengths", "[group]") {
  if (connects_slowly()) return;
  auto const size = GENERATE(1u, 2u, 3u, 5u, 8u);
  auto const seed = seeds(1).front();
  CAPTURE(size, seed);
  GroupOptions options;
  options.message_bytes = 256;
  auto ranks = group_of(size, options);
  for (std::uint64_t each = seed; each < seed + 4; ++each) {
    Model const model{size, each};
    on_each(ranks, [&](Group& group) { check_uneven(group, model); });
  }
}

TEST_CASE("uneven parts are cut in the midst of values, too", "[group]") {
  if (connects_slowly()) return;
  struct Triple {
    std::array<std::int32_t, 3> of;
    bool operator==(Triple const&) const = default;
  };
  GroupOptions options;
  options.message_bytes = 256;
  auto ranks = group_of(2, options);
  Lengths const counts{101, 57};
  std::vector<Triple> wanted;
  for (std::int32_t i = 0; i < 158; ++i) wanted.push_back({{i, 2 * i, 3 * i}});
  on_each(ranks, [&](Group& group) {
    auto const own = std::span{wanted}.subspan(group.rank() * 101, counts[group.rank()]);
    std::vector<Triple> all(158);
    expect(group.allgatherv(own, counts, all, within(patience)));
    expect(all == wanted, "triples");
  });
}

TEST_CASE("all_to_allv of a team goes between its members", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(4);
  Model const model{3, 11};
  on_each(ranks, [&](Group& group) {
    if (group.rank() == 1) return;
    auto team = taken(group.team(std::array{3u, 0u, 2u}));
    auto const rank = team.rank();
    Numbers exchanged(model.to(rank).size());
    expect(team.all_to_allv(model.from(rank), model.sent(rank), exchanged, model.received(rank),
                            within(patience)));
    expect(exchanged == model.to(rank), "of the team");
  });
}

TEST_CASE("posted calls of uneven parts keep their lengths, and give all bytes back", "[group]") {
  if (connects_slowly()) return;
  GroupOptions options;
  options.message_bytes = 256;
  ScopeRanks ranks{3, options};
  Lengths const lengths{40, 0, 900}, bytes{320, 0, 7200};
  on_each(ranks.groups, [&](Group& group) {
    auto const rank = group.rank();
    bool const is_root = rank == 2;
    auto own = ranks.values(rank, lengths[rank]), back = ranks.values(rank, lengths[rank]);
    auto all = ranks.values(rank, 940), gathered = ranks.values(rank, 940);
    auto parts = ranks.values(rank, 940);
    auto sums = ranks.values(rank, 70);
    auto const own_part = own.gather(0, lengths[rank]);
    // Each post's counts are gone after it.
    auto const counts = [&] { return is_root ? bytes : Lengths{}; };
    GroupScope scope{group};
    posted(scope.post_scan(sum<std::int64_t>, sums.scatter()));
    posted(scope.post_allgatherv(own_part, Lengths{bytes}, all.scatter()));
    posted(
        scope.post_gatherv(2, own_part, counts(), is_root ? gathered.scatter() : ScatterElement{}));
    posted(scope.post_scatterv(2, is_root ? parts.gather() : GatherElement{}, counts(),
                               back.scatter(0, lengths[rank])));
    expect(scope.finish());
    std::size_t at = 0;
    for (std::uint32_t i = 0; i < 3; at += lengths[i++]) {
      expect(are(all, at, i, 0, lengths[i]), "allgatherv");
      if (is_root) expect(are(gathered, at, i, 0, lengths[i]), "gatherv");
    }
    expect(are(back, 0, 2, rank == 2 ? 40 : 0, lengths[rank]), "scatterv");
    expect(are_sums(sums, rank + 1, 0, 70), "scan");
    for (Values* each : {&own, &all, &gathered, &parts, &back, &sums})
      expect(each->region().loans() == 0, "on loan");
  });
}

TEST_CASE("a call of uneven parts that timed out goes on, with counts in other memory", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  Numbers const ones{1, 2, 3}, twos{4, 5};
  Numbers at_one(5), at_other(5);
  {
    Lengths const counts{3, 2};
    CHECK(error_of(ranks[0].allgatherv(ones, counts, at_one, within(1ms))) == Errc::timed_out);
  }
  Lengths const other{2, 3};
  CHECK(error_of(ranks[0].allgatherv(ones, Lengths{3, 2}, at_other, within(1ms))) ==
        Errc::invalid_argument);  // another place
  std::jthread const beside{[&] { must(ranks[1].allgatherv(twos, Lengths{3, 2}, at_other)); }};
  must(ranks[0].allgatherv(ones, Lengths{3, 2}, at_one, within(patience)));
  CHECK(at_one == Numbers{1, 2, 3, 4, 5});
}

TEST_CASE("a rank that sends another length than is expected is named with both", "[group]") {
  if (connects_slowly()) return;
  auto const sent = GENERATE(0u, 2u, 400u);
  auto ranks = group_of(2);
  std::vector<Error> errors(2);
  on_each(ranks, [&](Group& group) {
    bool const is_sender = group.rank() == 1;
    Numbers const from(is_sender ? sent : 3);
    Numbers to(is_sender ? 3 : 4);
    auto const counts_sent = is_sender ? Lengths{sent, 0} : Lengths{0, 3};
    auto const counts_received = is_sender ? Lengths{3, 0} : Lengths{0, 4};
    // Only the receiver can know; the other one learns it in its next call.
    auto done = group.all_to_allv(from, counts_sent, to, counts_received, within(patience));
    if (is_sender && done.has_value()) done = group.barrier(within(patience));
    errors[group.rank()] = error_of(done);
  });
  auto const what = "rank 1 sends " + std::to_string(8 * sent) +
                    " bytes to this rank, which expects 32 in all_to_allv";
  CHECK(errors[0] == Errc::disagreement);
  CHECK(says(errors[0], what));
  CHECK_FALSE(errors[1].message().empty());
}

TEST_CASE("other counts of an allgatherv are another call", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  std::vector<Error> errors(2);
  on_each(ranks, [&](Group& group) {
    auto const counts = group.rank() == 0 ? Lengths{3, 2} : Lengths{2, 3};
    Numbers const own(3);
    Numbers all(5);
    errors[group.rank()] = error_of(group.allgatherv(own, counts, all, within(patience)));
  });
  CHECK((errors[0] == Errc::disagreement || errors[1] == Errc::disagreement));
}

TEST_CASE("counts that do not fit are refused, and nothing was sent", "[group]") {
  if (connects_slowly()) return;
  auto ranks = group_of(2);
  Numbers const two(2), five(5);
  Numbers place(5);
  auto& group = ranks[0];
  auto const refused = [](Result<void> const& result, std::string const& why) {
    auto const error = error_of(result);
    INFO(error.message());
    return error == Errc::invalid_argument && says(error, why) && says(error, "nothing was sent");
  };
  CHECK(refused(group.gatherv(2, two, {}, place), "there is no rank 2"));
  CHECK(refused(group.gatherv(0, two, Lengths{2}, place), "1 counts for 2 ranks"));
  CHECK(refused(group.gatherv(0, two, Lengths{2, 2}, place), "40 bytes, and by their counts 32"));
  CHECK(refused(group.gatherv(0, two, Lengths{3, 2}, place), "16 bytes, and by its count 24"));
  CHECK(refused(group.gatherv(1, two, Lengths{2, 3}, Numbers{}), "not the root"));
  CHECK(refused(group.scatterv(0, five, Lengths{3, 2}, place), "40 bytes, and by its count 24"));
  CHECK(refused(group.all_to_allv(five, Lengths{2, 3}, place, Lengths{3, 2}), "by its count 24"));
  CHECK(refused(group.allgatherv(two, Lengths{2, 300'000'000}, place), "2147483648 are the most"));
  CHECK(refused(group.allgatherv(std::span{place}.first(2), Lengths{2, 3}, place), "overlap"));
  on_each(ranks, [](Group& each) { expect(each.barrier(within(patience))); });
}

TEST_CASE("scans combine the values of ranks in their order", "[group]") {
  if (connects_slowly()) return;
  auto const links = GENERATE(GroupLinks::all, GroupLinks::few);
  auto const size = GENERATE(1u, 2u, 3u, 5u, 8u);
  CAPTURE(size);
  GroupOptions options;
  options.message_bytes = 256;
  options.links = links;
  auto ranks = group_of(size, options);
  on_each(ranks, [](Group& group) {
    for (std::size_t const count : {0u, 1u, 70u}) check_scans(group, count);
    auto const rank = std::int64_t(group.rank());
    auto const sum_to = taken(group.scan(sum<std::int64_t>, rank + 1, within(patience)));
    expect(sum_to == (rank + 1) * (rank + 2) / 2, "scan of a value");
    auto const before = taken(group.exscan(sum<std::int64_t>, rank + 1, within(patience)));
    expect(before.has_value() == (rank != 0), "rank 0 has nothing before it");
    expect(!before || *before == rank * (rank + 1) / 2, "exscan of a value");
  });
}

TEST_CASE("uneven parts are refused where ranks have few links", "[group]") {
  if (connects_slowly()) return;
  GroupOptions options;
  options.links = GroupLinks::few;
  auto ranks = group_of(8, options);
  Numbers const own(1);
  Numbers all(9);
  auto const error = error_of(ranks[0].allgatherv(own, Lengths{1, 2, 1, 1, 1, 1, 1, 1}, all));
  CHECK(error == Errc::unsupported);
  CHECK(says(error, "GroupLinks::all"));
  // Of other calls only the ranks of a part know its length, so this comes before their counts.
  CHECK(error_of(ranks[0].gatherv(0, own, Lengths{}, all)) == Errc::unsupported);
  on_each(ranks, [](Group& each) {  // of equal ones it is an allgather
    Numbers mine{std::int64_t(each.rank())}, of_all(8);
    expect(each.allgatherv(mine, Lengths(8, 1), of_all, within(patience)));
    expect(of_all == Numbers{0, 1, 2, 3, 4, 5, 6, 7}, "equal parts");
  });
}
