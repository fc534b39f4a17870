// SPDX-License-Identifier: MIT OR Apache-2.0
// Each rank reads what it needs from the rank that has it. A reduction gives each rank one block to
// combine, and a broadcast one block to pass on, so that no rank moves much more than the others.
// Any thread.
#include <group/schedule/long_schedule.hpp>

#include <algorithm>

namespace lend::group {

namespace {

using LongKind = LongStep::Kind;

class LongRound {
 public:
  LongRound(Ranks ranks, std::vector<LongStep>& steps) noexcept : ranks_{ranks}, steps_{steps} {}

  void keep(std::uint32_t from, std::uint32_t to) {
    steps_.push_back({LongKind::keep, 0, from, to});
  }
  void expose(std::uint32_t block) { steps_.push_back({LongKind::expose, 0, block, 0}); }
  /// All blocks but the own one.
  void expose_others() {
    for_each_other([this](std::uint32_t i) { expose(i); });
  }
  void signal(std::uint32_t peer) { steps_.push_back({LongKind::signal, peer, 0, 0}); }
  void signal_others() {
    for_each_other([this](std::uint32_t i) { signal(i); });
  }
  void await(std::uint32_t peer) { steps_.push_back({LongKind::await, peer, 0, 0}); }
  void await_others() {
    for_each_other([this](std::uint32_t i) { await(i); });
  }
  void read(std::uint32_t peer, std::uint32_t from, std::uint32_t to) {
    steps_.push_back({LongKind::read, peer, from, to});
  }
  void pass_on(std::uint32_t peer, std::uint32_t block) {
    steps_.push_back({LongKind::pass_on, peer, block, block});
  }
  /// The own block of all ranks, in their order.
  void combine_all() {
    std::uint32_t const own = ranks_.rank;
    for (std::uint32_t i = 0; i < ranks_.size; ++i)
      steps_.push_back({i == own ? LongKind::combine_own : LongKind::combine, i, own, 0});
  }
  void take(std::uint32_t to) { steps_.push_back({LongKind::take, 0, ranks_.rank, to}); }

  /// The others, those behind this rank first, so that not all begin with the same one.
  template <class Visit>
  void for_each_other(Visit&& visit) {
    for (std::uint32_t i = 1; i < ranks_.size; ++i) visit((ranks_.rank + i) % ranks_.size);
  }

 private:
  Ranks ranks_;
  std::vector<LongStep>& steps_;
};

/// Each rank but the root has a block, which it reads and passes on. In the next round it reads
/// those of the others; that it has come so far tells the root that it has read.
void add_long_broadcast(Ranks ranks, std::uint32_t root, std::uint16_t round, LongRound& add) {
  auto const block_of = [&](std::uint32_t rank) {
    return (rank + ranks.size - root) % ranks.size - 1;
  };
  auto const for_each_reader = [&](auto&& visit) {
    add.for_each_other([&](std::uint32_t i) {
      if (i != root) visit(i);
    });
  };
  if (ranks.rank == root) {
    if (round == 0) for_each_reader([&](std::uint32_t i) { add.expose(block_of(i)); });
    if (round == 0) add.signal_others();
    if (round == 1) add.await_others();
  } else if (round == 0) {
    add.pass_on(root, block_of(ranks.rank));
  } else if (round == 1) {
    add.signal_others();
    for_each_reader([&](std::uint32_t i) { add.read(i, block_of(i), block_of(i)); });
  } else {
    for_each_reader([&](std::uint32_t i) { add.signal(i); });
    for_each_reader([&](std::uint32_t i) { add.await(i); });
  }
}

/// Each rank combines a block. The root then reads all of them, or every rank does.
void add_long_reduction(Layout const& layout, Ranks ranks, std::uint32_t root, std::uint16_t round,
                        LongRound& add) {
  bool const is_for_all = layout.root == Root::none, is_root = ranks.rank == root;
  if (round == 0) {
    add.expose_others();
    add.signal_others();
    add.combine_all();
    if (is_for_all || is_root) add.take(ranks.rank);
  } else if (round == 1) {
    add.signal_others();
    add.for_each_other([&](std::uint32_t i) {
      if (is_for_all || is_root)
        add.read(i, i, i);
      else
        add.await(i);
    });
  } else {
    if (is_for_all || is_root) add.signal_others();
    if (is_for_all)
      add.await_others();
    else if (!is_root)
      add.await(root);
  }
}

/// Each part goes from the rank that gives it to the one that gets it: `from` of a read is the
/// block of the peer's exposed buffer.
void add_parts(Layout const& layout, Ranks ranks, std::uint32_t root, LongRound& add) {
  std::uint32_t const own = ranks.rank;
  bool const is_root = own == root;
  auto const own_block = [&](Parts parts) { return parts == Parts::all ? own : 0; };
  auto const read = [&](std::uint32_t from) {
    add.read(from, own_block(layout.in), layout.out == Parts::all ? from : 0);
  };
  if (layout.gives(is_root)) {
    layout.in == Parts::all ? add.expose_others() : add.expose(0);
    layout.root == Root::gets ? add.signal(root) : add.signal_others();
  }
  if (layout.combines()) {
    add.combine_all();
    return add.take(0);
  }
  if (layout.has(layout.in, is_root) && layout.has(layout.out, is_root))
    add.keep(own_block(layout.in), own_block(layout.out));
  if (layout.gets(is_root)) layout.root == Root::gives ? read(root) : add.for_each_other(read);
}

/// What was read may be overwritten.
void add_acknowledgements(Layout const& layout, Ranks ranks, std::uint32_t root, LongRound& add) {
  bool const is_root = ranks.rank == root;
  if (layout.gets(is_root)) layout.root == Root::gives ? add.signal(root) : add.signal_others();
  if (layout.gives(is_root)) layout.root == Root::gets ? add.await(root) : add.await_others();
}

}  // namespace

bool can_be_read(Collective collective, std::uint32_t size, std::size_t element_bytes) noexcept {
  auto const& layout = layout_of(collective);
  bool const is_in_messages = layout.schedule == Schedule::dissemination ||
                              layout.schedule == Schedule::scan ||
                              layout.schedule == Schedule::exscan || layout.is_uneven();
  if (size < 2 || is_in_messages) return false;
  // Shorter blocks cost more messages than the messages that they replace.
  constexpr std::size_t shortest_block = 4096;
  auto const blocks = is_divided(collective) ? 1 : blocks_of(collective, size);
  return long_buffer_bytes / blocks >= std::max(shortest_block, element_bytes);
}

bool is_divided(Collective collective) noexcept {
  return layout_of(collective).in == Parts::in_place;
}

bool are_parts_read(Collective collective) noexcept {
  return !is_divided(collective) && !layout_of(collective).combines();
}

std::uint32_t blocks_of(Collective collective, std::uint32_t size) noexcept {
  auto const& layout = layout_of(collective);
  if (layout.in == Parts::own) return 1;
  return layout.schedule == Schedule::broadcast ? size - 1 : size;  // the root has none
}

std::uint16_t long_rounds_of(Collective collective) noexcept {
  return is_divided(collective) ? 3 : 2;
}

void add_long_round(Collective collective, Ranks ranks, std::uint32_t root, std::uint16_t round,
                    std::vector<LongStep>& steps) {
  LongRound add{ranks, steps};
  auto const& layout = layout_of(collective);
  if (layout.schedule == Schedule::broadcast)
    add_long_broadcast(ranks, root, round, add);
  else if (is_divided(collective))
    add_long_reduction(layout, ranks, root, round, add);
  else if (round == 0)
    add_parts(layout, ranks, root, add);
  else
    add_acknowledgements(layout, ranks, root, add);
}

}  // namespace lend::group
