// SPDX-License-Identifier: MIT OR Apache-2.0
// One of several processes that do everything at random with each other until one of them dies, and
// what it accounts for. One thread.
#pragma once

#include <soft/peers/host.hpp>
#include <soft/segment/bounce.hpp>
#include <soft/segment/layout.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "raw_ends.hpp"
#include "support/peer_process.hpp"

namespace lend::test {

inline constexpr std::uint32_t pairs = 3;  // with each peer
inline constexpr std::uint32_t pairs_max = 2 * pairs;
inline constexpr std::uint32_t depth = 16;
inline constexpr std::size_t size = 8192;
inline constexpr std::uint64_t is_receive = std::uint64_t{1} << 32;
inline constexpr std::uint32_t by_mail = UINT32_MAX;  // in the stead of a link's number
// Beyond the milliseconds it takes, for a loaded machine.
inline constexpr std::chrono::seconds bound{20};

/// What each side tells the other: queue pairs to connect to, and memory to reach.
struct Told {
  std::uint32_t numbers[pairs_max];
  std::uint32_t mail;  // a datagram queue pair
  Remote memory;
  Remote lent;  // once Party::lend() has ended, to the first link's peer
};

/// Private memory now and then, where peers can reach it.
inline Where private_or_not(std::mt19937& random) {
  return random() % 2 == 0 && soft::cross_memory().possible() ? Where::private_memory
                                                              : Where::allocated;
}

struct Habits {
  Where home = Where::allocated;
  bool sleeps = false;           // on a completion channel, when there is nothing to poll
  bool shares_receives = false;  // all its queue pairs take from one shared receive queue
  bool is_bad = false;           // posts what breaks queue pairs, its own and its peer's
  bool has_bad_peer = false;
  bool is_early = false;  // sends messages for which no receive is posted
};

/// A device with queue pairs on one completion queue, and who owes what.
struct Party {
  Habits habits;
  RawDevice device;
  RawMemory memory;
  RawWindow window{device};  // for the peer of a link, as long as that lives
  RawWindow brief{device};   // bound and invalidated
  bool is_brief_bound = false;
  bool may_use_lent = false;  // the first link's peer has lent
  std::optional<RawChannel> channel;
  RawQueue queue;
  std::optional<RawPool> pool;
  std::optional<RawDatagrams> mail;
  std::vector<std::unique_ptr<RawPair>> links;
  std::map<std::uint64_t, std::uint32_t> outstanding;  // request -> link
  std::vector<std::uint32_t> sends_on;                 // outstanding ones of each link
  std::vector<bool> is_over;                           // its peer is gone, or broke it
  std::uint64_t next_id = 0;
  std::uint32_t overs = 0;
  std::uint32_t friend_number = 0;  // of the queue pair to another survivor, behind the others
  std::uint32_t friendly = 0;       // what went well on it

  explicit Party(Habits const& kept, std::uint32_t links_wanted = pairs)
      : habits{kept},
        memory{device, 4 * size, habits.home},
        channel(habits.sleeps ? std::optional<RawChannel>{std::in_place, device} : std::nullopt),
        queue{device, 4 * pairs_max * depth, channel ? &*channel : nullptr} {
    if (habits.shares_receives) pool.emplace(device, 2 * depth);
    mail.emplace(device, queue, depth, pool ? pool->get() : nullptr);
    while (links.size() < links_wanted) add_link();
  }
  explicit Party(Where home) : Party{Habits{.home = home}} {}
  /// Every second one has builders.
  RawPair const& add_link() {
    sends_on.push_back(0);
    is_over.push_back(false);
    auto const builders = links.size() % 2 == 0 ? Builders::no : Builders::yes;
    return *links.emplace_back(
        std::make_unique<RawPair>(device, queue, depth, pool ? pool->get() : nullptr, builders));
  }
  [[nodiscard]] Told told() const {
    Remote const whole = memory.remote(2 * size);
    Told told{{}, mail->number(), whole, {whole.address, window.next_key()}};
    for (std::size_t i = 0; i < links.size() && i < pairs_max; ++i)
      told.numbers[i] = links[i]->number();
    return told;
  }
  /// Exchanges what both sides tell. False if the other died meanwhile; also where its slot became
  /// ours since: then what it told are our own numbers, and what is sent to them never fails.
  [[nodiscard]] bool hear_the_living(Wire const& wire, Told& theirs) const {
    auto const slot_of = [](std::uint32_t number) { return number >> soft::index_bits; };
    return hear(wire, theirs) && tell(wire, told()) &&
           slot_of(theirs.numbers[0]) != slot_of(links[0]->number());
  }
  bool note(int error, std::uint64_t id, std::uint32_t link) {
    if (error != 0) return false;
    REQUIRE(outstanding.emplace(id, link).second);
    if ((id & is_receive) == 0 && link != by_mail) ++sends_on[link];
    return true;
  }
  bool receive(std::uint32_t link) {
    auto const id = next_id++ | is_receive;
    auto const into = memory.piece(0, size);
    auto const error = pool              ? pool->receive(id, into)
                       : link == by_mail ? mail->receive(id, into)
                                         : links[link]->receive(id, into);
    return note(error, id, link);
  }
  bool send(std::uint32_t link, std::size_t length) {
    auto const id = next_id++;
    return note(links[link]->send(id, memory.piece(size, length)), id, link);
  }
  /// Bytes of no region, so many that their copy passes the caches. The link has no builders.
  bool write_at_once(std::uint32_t link, Told const& theirs) {
    static std::byte const bytes[size]{};
    auto const id = next_id++;
    return note(links[link]->write_at_once(id, bytes, theirs.memory) ? 0 : EAGAIN, id, link);
  }
  bool lend(std::uint32_t link) {
    auto const id = next_id++;
    return note(window.bind(*links[link], id, memory, 2 * size, size), id, link);
  }
  /// Opens bytes to the link's peer, who never hears of it, or closes them.
  bool lend_briefly(std::uint32_t link) {
    auto const id = next_id++;
    auto const& pair = *links[link];
    if (!note(is_brief_bound ? brief.invalidate(pair, id) : brief.bind(pair, id, memory, 0, size),
              id, link))
      return false;
    is_brief_bound = !is_brief_bound;
    return true;
  }
  /// Ends what the peer has lent. From here on it is not used.
  bool give_back(std::uint32_t link, Told const& theirs) {
    auto const id = next_id++;
    may_use_lent = false;
    return note(links[link]->give_back(id, memory.piece(size, 8), theirs.lent.key), id, link);
  }
  /// As a scope of datagrams does that ends: all that is posted comes back.
  void recall_mail() {
    REQUIRE(mail->fail() == 0);
    while (poll() != 0) continue;
    REQUIRE(mail->reset() == 0);
    REQUIRE(mail->start() == 0);
  }
  /// Posts one thing at random on one of the links from `first` on, or by mail; true if it was
  /// taken.
  bool post_something(std::mt19937& random, Told const& theirs, std::uint32_t first = 0) {
    auto const link = first + static_cast<std::uint32_t>(random() % pairs);
    bool const is_word = random() % 4 == 0;
    if (habits.is_early)  // half of the others by reference
      return send(link, is_word ? 8 : random() % size);
    auto const length = is_word ? 8 : random() % 3 == 0 ? random() % 128 : random() % size;
    if (habits.is_bad && random() % 8 == 0) return post_a_fault(random, theirs, link);
    auto const what = random() % 11;
    if (what == 0) return receive(link);
    if (what == 1) return send(link, length);
    if (what == 2) return receive(by_mail);
    auto const& pair = *links[link];
    auto const& there = theirs.memory;
    auto const from = memory.piece(size, length);
    auto const id = next_id++;
    if (what == 3)
      return note(mail->send(id, memory.piece(size, length / 2), theirs.mail), id, by_mail);
    if (what == 4) return note(pair.write(id, from, there), id, link);
    if (what == 9) return note(pair.write_with_immediate(id, from, there), id, link);
    if (what == 10)
      return note(pair.write(id, from, may_use_lent && link == 0 ? theirs.lent : there), id, link);
    if (what == 5) return note(pair.read(id, memory.piece(0, length), there), id, link);
    if (what == 6) {
      auto const next = next_id++;
      if (!pair.has_builders()) {
        auto const posted = pair.write_twice(id, next, from, there);
        if (posted > 0) note(0, id, link);
        if (posted > 1) note(0, next, link);
        return posted > 0;
      }
      auto const error = pair.build(id, next, from, there);
      return note(error, id, link) && note(error, next, link);
    }
    Remote const word{there.address + size, there.key};
    auto const before = memory.piece(0, 8);
    return note(what == 7 ? pair.fetch_and_add(id, before, word, 1)
                          : pair.compare_and_swap(id, before, word, 1, 0),
                id, link);
  }
  /// What breaks the link at both ends: a write with a key that nobody gave, or more than fits.
  bool post_a_fault(std::mt19937& random, Told const& theirs, std::uint32_t link) {
    auto const id = next_id++;
    Remote const forbidden{theirs.memory.address, theirs.memory.key ^ 1};
    return note(random() % 2 == 0 ? links[link]->write(id, memory.piece(size, 8), forbidden)
                                  : links[link]->send(id, memory.piece(0, 2 * size)),
                id, link);
  }
  /// Polls once; every completion must be of something outstanding. How many there were.
  int poll() {
    ibv_wc completions[16];
    auto const count = queue.poll(16, completions);
    if (count < 0) FAIL("poll_cq: " << count);
    for (int i = 0; i < count; ++i) {
      auto const& end = completions[i];
      auto const found = outstanding.find(end.wr_id);
      REQUIRE(found != outstanding.end());
      auto const link = found->second;
      outstanding.erase(found);
      if ((end.wr_id & is_receive) == 0 && link != by_mail) --sends_on[link];
      if (end.status == IBV_WC_SUCCESS)
        friendly += end.qp_num == friend_number;
      else if (!habits.is_bad)
        judge(end);
    }
    return count;
  }
  /// Whether this failure is one that a peer's death or faults may cause, and what it ends.
  void judge(ibv_wc const& end) {
    std::uint32_t link = 0;  // of its queue pair: a shared receive was posted for any
    while (link < links.size() && (links[link] == nullptr || links[link]->number() != end.qp_num))
      ++link;
    if (end.status == IBV_WC_REM_ABORT_ERR && end.qp_num == mail->number()) return;
    bool const is_flushed = end.status == IBV_WC_WR_FLUSH_ERR;
    if (is_flushed && (link >= pairs || !habits.has_bad_peer)) return;
    CAPTURE(end.status, end.vendor_err, link);
    REQUIRE(link < pairs);
    REQUIRE((is_flushed || end.status == IBV_WC_RETRY_EXC_ERR ||
             (end.status == IBV_WC_LOC_LEN_ERR && habits.has_bad_peer)));
    // A reason is given once; of a peer that breaks us and dies, to sends and to receives.
    REQUIRE((is_flushed || !is_over[link] || habits.has_bad_peer));
    if (!is_over[link]) ++overs;
    is_over[link] = true;
  }
  /// Posts a send wherever none waits, arms, and polls until nothing comes: all that is left to do
  /// is to sleep.
  void fall_asleep() {
    do {
      for (std::uint32_t link = 0; link < pairs; ++link)
        if (!is_over[link] && sends_on[link] == 0) send(link, 8);
      REQUIRE(::ibv_req_notify_cq(queue.get(), 0) == 0);
    } while (poll() != 0);
  }
  /// An addition to a word of our own takes the lock that peers took for theirs: it waits for one
  /// that was killed while it held it, until the kernel is done with that process.
  bool add_to_itself() {
    RawQueue const own{device, 1};
    RawPair const loop{device, own, 1};
    REQUIRE(loop.connect(loop.number()) == 0);
    REQUIRE(loop.fetch_and_add(0, memory.piece(0, 8), memory.remote(3 * size), 1) == 0);
    ibv_wc end{};
    auto const latest = std::chrono::steady_clock::now() + bound;
    int made = 0;
    while (made == 0 && std::chrono::steady_clock::now() < latest) made = own.poll(1, &end);
    return made == 1 && end.status == IBV_WC_SUCCESS;
  }
  /// Ends every queue pair and collects what is left.
  bool drain() {
    if (!add_to_itself()) return false;
    for (auto const& link : links) REQUIRE(link->fail() == 0);
    REQUIRE(mail->fail() == 0);
    std::optional<RawPair> loop;
    if (pool) {  // what nobody took is still posted: a loop-back takes it
      loop.emplace(device, queue, depth, pool->get());
      REQUIRE(loop->connect(loop->number()) == 0);
      links.push_back(nullptr);
      sends_on.push_back(0);
    }
    auto const end = std::chrono::steady_clock::now() + bound;
    while (!outstanding.empty() && std::chrono::steady_clock::now() < end) {
      // What still lies in the completion queue was taken: a send would wait for it for ever.
      if (poll() != 0 || !loop) continue;
      auto const mine = static_cast<std::uint32_t>(links.size() - 1);
      auto const& last = *outstanding.rbegin();
      if ((last.first & is_receive) != 0 && sends_on[mine] == 0)
        static_cast<void>(note(loop->send(next_id, memory.piece(size, 8)), next_id, mine)),
            ++next_id;
    }
    if (loop) links.pop_back();
    return outstanding.empty();
  }
};

/// Works until every link has failed, by its peer's silence or faults. False if that takes too
/// long.
inline bool outlive(Party& party, std::mt19937& random, Told const& theirs) {
  auto const end = std::chrono::steady_clock::now() + bound;
  while (party.overs < pairs && std::chrono::steady_clock::now() < end) {
    static_cast<void>(party.post_something(random, theirs));
    party.poll();
  }
  return party.overs == pairs;
}

/// The same after fall_asleep(), asleep whenever there is nothing to do.
inline bool outlive_asleep(Party& party) {
  auto const patience = std::chrono::duration_cast<std::chrono::milliseconds>(bound);
  while (party.overs < pairs) {
    if (!party.channel->wait(static_cast<int>(patience.count()))) return false;
    party.fall_asleep();
  }
  return true;
}

/// Messages both ways with another survivor, which calls this too. False if that takes too long.
inline bool exchange_with_friend(Party& party) {
  constexpr std::uint32_t messages = 8;
  auto const end = std::chrono::steady_clock::now() + bound;
  for (std::uint32_t i = 0; i < messages; ++i) {
    party.receive(pairs);
    REQUIRE(party.send(pairs, i * size / messages));
  }
  while (party.friendly < 2 * messages && std::chrono::steady_clock::now() < end) {
    if (party.pool) party.receive(pairs);  // the dead took some along
    party.poll();
  }
  return party.friendly == 2 * messages;
}

}  // namespace lend::test
