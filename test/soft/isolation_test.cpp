// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever a peer of the same user writes wherever it can, this process neither crashes nor
// hangs nor loses count of its own requests; and if it writes into its own segment only, what goes
// on with others is right. Method: a forked peer writes random bytes without a pause, into all that
// it maps, while this process does everything; run it under sanitizers too. The seed is printed and
// taken back from LEND_TEST_SEED.
#include <soft/objects/context.hpp>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <set>
#include <span>

#include "raw_ends.hpp"
#include "rendezvous.hpp"
#include "support/peer_process.hpp"
#include "support/thorough.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::uint32_t queue_depth = 8;
// Beyond the milliseconds that a call may take, for a loaded machine.
constexpr std::chrono::seconds call_bound{25};

enum class Scribbles { in_its_own_segment, everywhere };

/// Writes random bytes into what a segment holds of the first objects of each kind.
class Scribbler {
 public:
  explicit Scribbler(unsigned seed) : random_{seed} {}

  /// `living` are those that may be named as holders of the segment's locks.
  void scribble(soft::Segment& segment, std::span<std::uint32_t const> living) {
    if (!living.empty() && random_() % 16 == 0)
      return hold(segment, living[random_() % living.size()]);
    switch (random_() % 7) {
      case 0: return some_of(&segment.header, sizeof segment.header);
      case 1: return some_of(segment.queue_pairs, 8 * sizeof(soft::SharedQueuePair));
      case 2: return some_of(segment.completion_queues, 3 * sizeof(soft::SharedCompletionQueue));
      case 3: return some_of(segment.receive_pools, 2 * sizeof(soft::SharedReceivePool));
      case 4: return some_of(segment.regions, 6 * sizeof(soft::SharedRegion));
      case 5: return some_of(segment.arenas, 2 * sizeof(soft::SharedArena));
      default: return some_of(segment.rings, 16 * soft::page);
    }
  }

 private:
  void hold(soft::Segment& segment, std::uint32_t holder) {
    auto const index = random_() % 3;
    soft::RobustLock* const locks[] = {&segment.queue_pairs[index].rx,
                                       &segment.completion_queues[index].lock,
                                       &segment.receive_pools[index].lock, &segment.header.atomics};
    auto* const word = reinterpret_cast<std::uint32_t volatile*>(locks[random_() % 4]);
    *word = random_() % 4 == 0 ? 0 : holder;
  }
  /// Up to 16 bytes: nonsense, zeros and ones, or a small number, which is often plausible.
  void some_of(void* at, std::size_t length) {
    auto* const bytes = static_cast<std::uint8_t volatile*>(at);
    auto const from = random_() % length;
    auto const end = std::min<std::size_t>(length, from + 1 + random_() % 16);
    auto const how = random_() % 4;
    for (auto i = from; i < end; ++i)
      bytes[i] = how == 0   ? std::uint8_t{0}
                 : how == 1 ? std::uint8_t{255}
                 : how == 2 ? static_cast<std::uint8_t>(i % 8 == 0 ? random_() % 9 : 0)
                            : static_cast<std::uint8_t>(random_());
  }
  std::mt19937 random_;
};

struct Numbers {
  std::uint32_t own_receives;
  std::uint32_t pooled;
  std::uint32_t datagrams;
  Remote memory;
};

/// The peer: connects like any other, and then only scribbles. It ends without closing anything.
int be_a_vandal(Wire const& wire, unsigned seed, Scribbles where) {
  RawDevice const device;
  RawMemory const memory{device, 4 * page_bytes};
  RawQueue const queue{device};
  RawPair const link{device, queue, queue_depth};
  RawPair const pooled{device, queue, queue_depth};
  RawDatagrams const datagrams{device, queue, queue_depth};
  Numbers theirs{};
  Numbers const mine{link.number(), pooled.number(), datagrams.number(), memory.remote()};
  if (!tell(wire, mine) || !hear(wire, theirs)) return 1;
  if (link.connect(theirs.own_receives) != 0 || pooled.connect(theirs.pooled) != 0) return 2;
  for (std::uint32_t i = 0; i < queue_depth; ++i)
    if (link.receive(i, memory.piece(0, page_bytes)) != 0 ||
        datagrams.receive(i, memory.piece(page_bytes, page_bytes)) != 0)
      return 3;
  auto& context = soft::Context::of(device.context());
  auto* const peer = context.peers.acquire(theirs.own_receives >> soft::index_bits);
  if (peer == nullptr || !wire.say() || !wire.hear()) return 4;
  Scribbler scribbler{seed};
  // In another's segment a living holder keeps waiting who owns it; see lib/soft/README.md.
  std::array const living{context.claimant.instance, peer->instance()};
  for (;;) {
    scribbler.scribble(context.segment, living);
    if (where == Scribbles::everywhere) scribbler.scribble(peer->segment(), {});
    ::sched_yield();  // so that it does not have to be waited for on one core
  }
}

/// This process: connected to the vandal and, through the same queues, to a neighbour.
class Victim {
 public:
  explicit Victim(unsigned seed) : random_{seed} {}

  void meet(Wire const& wire, bool with_neighbour) {
    REQUIRE(hear(wire, vandal_));
    Numbers const mine{own_.number(), pooled_.number(), datagrams_.number(), memory_.remote()};
    REQUIRE(tell(wire, mine));
    REQUIRE(own_.connect(vandal_.own_receives) == 0);
    REQUIRE(pooled_.connect(vandal_.pooled) == 0);
    if (with_neighbour) {
      REQUIRE(to_neighbour_.connect(neighbours_.number()) == 0);
      REQUIRE(neighbours_.connect(to_neighbour_.number()) == 0);
    }
    REQUIRE(wire.hear());
    REQUIRE(wire.say());
    REQUIRE(::fcntl(channel_.get()->fd, F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(::fcntl(device_.context()->async_fd, F_SETFL, O_NONBLOCK) == 0);
  }

  /// One thing at random.
  void do_something() {
    auto const piece = memory_.piece(random_() % page_bytes, random_() % page_bytes);
    auto const from = memory_.piece(2 * page_bytes, random_() % page_bytes);
    switch (random_() % 20) {
      case 0: return note(is_own, own_.receive(next_ | is_own, piece));
      case 1: return note(is_pooled, pool_.receive(next_ | is_pooled, piece));
      case 2: return note(is_own, own_.send(next_ | is_own, from));
      case 3: return note(is_own, own_.write(next_ | is_own, from, vandal_.memory));
      case 4: return note(is_own, own_.read(next_ | is_own, piece, vandal_.memory));
      case 5: return add_remotely();
      case 6: return note(0, pooled_.send(next_, from));
      case 7: REQUIRE(::ibv_req_notify_cq(queue_.get(), 0) == 0); return;
      case 8: static_cast<void>(channel_.take_one()); return;
      case 9: return take_async_event();
      case 10: RawMemory{device_, page_bytes}; return;
      case 11: return set_limit();
      case 12: return ask();
      case 13: return make_and_unmake();
      case 14: return grow();
      case 15: return note(is_datagram, datagrams_.receive(next_ | is_datagram, piece));
      case 16: return note(is_datagram, datagrams_.send(next_ | is_datagram, from, somebody()));
      case 17: return build_datagrams(from);
      case 18: return revive_datagrams();
      default: return revive(random_() % 2 == 0 ? own_ : pooled_);
    }
  }
  void poll() {
    ibv_wc ends[4];
    auto const count = queue_.poll(4, ends);
    REQUIRE(count >= 0);
    for (int i = 0; i < count; ++i) {
      if ((ends[i].wr_id & of_neighbour) != 0) {
        REQUIRE(ends[i].status == IBV_WC_SUCCESS);
        --with_neighbour_;
      } else {
        REQUIRE(outstanding_.erase(ends[i].wr_id) == 1);  // once, whatever was scribbled
      }
    }
  }
  /// A message each way, through the shared queue and beside it; both must be right.
  void greet_neighbour(unsigned number) {
    std::memset(memory_.at(3 * page_bytes), static_cast<int>(number), page_bytes);
    std::memset(nearby_.at(), ~static_cast<int>(number), page_bytes);
    auto const length = number % 2 == 0 ? 8 : page_bytes;  // in the completion, and beside it
    REQUIRE(neighbours_.receive(1, nearby_.piece(page_bytes, page_bytes)) == 0);
    REQUIRE(to_neighbour_.send(of_neighbour, memory_.piece(3 * page_bytes, length)) == 0);
    REQUIRE(to_neighbour_.receive(of_neighbour + 1, memory_.piece(4 * page_bytes, page_bytes)) ==
            0);
    REQUIRE(neighbours_.send(2, nearby_.piece(0, length)) == 0);
    with_neighbour_ += 2;
    auto const end = std::chrono::steady_clock::now() + call_bound;
    for (int there = 0; there < 2 || with_neighbour_ > 0;) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      ibv_wc wc{};
      if (near_queue_.poll(1, &wc) == 1) {
        REQUIRE(wc.status == IBV_WC_SUCCESS);
        ++there;
      }
      poll();
    }
    CHECK(std::memcmp(nearby_.at(page_bytes), memory_.at(3 * page_bytes), length) == 0);
    CHECK(std::memcmp(memory_.at(4 * page_bytes), nearby_.at(), length) == 0);
  }
  /// Everything but what waits in the shared queue comes back, and what was never lent is intact.
  void end() {
    CHECK(own_.fail() == 0);
    CHECK(pooled_.fail() == 0);
    CHECK(datagrams_.fail() == 0);
    auto const end = std::chrono::steady_clock::now() + call_bound;
    auto const all_back = [&] {
      return std::all_of(outstanding_.begin(), outstanding_.end(),
                         [](auto id) { return (id & is_pooled) != 0; });
    };
    while (!all_back() && std::chrono::steady_clock::now() < end) poll();
    std::string missing;
    for (auto const id : outstanding_)
      if ((id & is_pooled) == 0) missing += kind_of(id) + std::to_string(id & 0xffffffff);
    CAPTURE(missing);
    CHECK(all_back());
    for (std::size_t i = 5 * page_bytes; i < 6 * page_bytes; ++i)
      REQUIRE(memory_.at()[i] == std::byte{0});
  }

 private:
  static constexpr std::uint64_t is_own = std::uint64_t{1} << 32;     // work of own_
  static constexpr std::uint64_t is_pooled = std::uint64_t{1} << 33;  // a receive of the pool
  static constexpr std::uint64_t is_datagram = std::uint64_t{1} << 34;
  static constexpr std::uint64_t of_neighbour = std::uint64_t{1} << 40;

  static std::string kind_of(std::uint64_t id) {
    return (id & is_own) != 0 ? " own " : (id & is_datagram) != 0 ? " datagram " : " pooled ";
  }
  void note(std::uint64_t kind, int error) {
    if (error == 0) REQUIRE(outstanding_.insert(next_++ | kind).second);
  }
  void add_remotely() {
    auto const into = memory_.piece(0, 8);
    note(is_own, own_.fetch_and_add(next_ | is_own, into, vandal_.memory, 1));
  }
  /// The vandal, or ourselves through what the vandal may have spoilt.
  std::uint32_t somebody() { return random_() % 2 == 0 ? vandal_.datagrams : datagrams_.number(); }
  /// Both come back, or none was taken.
  void build_datagrams(Piece const& from) {
    auto const first = next_ | is_datagram;
    auto const second = (next_ + 1) | is_datagram;
    if (datagrams_.build(first, second, from, somebody()) != 0) return;
    note(is_datagram, 0);
    note(is_datagram, 0);
  }
  void take_async_event() {
    ibv_async_event event{};
    if (ibv().get_async_event(device_.context(), &event) != 0) return;
    // As a program does, which trusts the type: the object is that of it.
    if (event.event_type == IBV_EVENT_CQ_ERR)
      REQUIRE(event.element.cq == queue_.get());
    else if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
      REQUIRE(event.element.srq == pool_.get());
    else
      REQUIRE(event.element.qp->context == device_.context());
    ibv().ack_async_event(&event);
  }
  void set_limit() {
    ibv_srq_attr attributes{};
    attributes.srq_limit = random_() % queue_depth;
    REQUIRE(ibv().modify_srq(pool_.get(), &attributes, IBV_SRQ_LIMIT) == 0);
  }
  void ask() {
    ibv_srq_attr attributes{};
    REQUIRE(ibv().query_srq(pool_.get(), &attributes) == 0);
    REQUIRE(attributes.srq_limit <= queue_depth);
  }
  void make_and_unmake() {
    RawPool const pool{device_, 4};
    for (std::uint64_t id = 0; id < 4; ++id)
      REQUIRE(pool.receive(id, memory_.piece(0, page_bytes)) == 0);
    RawQueue const queue{device_, 4};
    RawPair const pair{device_, queue, 4, random_() % 2 == 0 ? pool_.get() : nullptr};
    static_cast<void>(pair.connect(vandal_.own_receives));
    static_cast<void>(pair.send(0, memory_.piece(2 * page_bytes, 8)));
  }
  void grow() {
    if (entries_ < 1024) entries_ *= 2;
    auto const error = ibv().resize_cq(queue_.get(), entries_);
    REQUIRE((error == 0 || error == EINVAL));
  }
  /// What is posted is flushed, then the queue pair starts anew.
  void revive(RawPair const& pair) {
    REQUIRE(pair.fail() == 0);
    for (int i = 0; i < 64; ++i) poll();
    if (&pair != &own_) return;
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RESET;
    REQUIRE(ibv().modify_qp(pair.get(), &to, IBV_QP_STATE) == 0);
    std::erase_if(outstanding_, [](auto id) { return (id & is_own) != 0; });
    static_cast<void>(pair.connect(vandal_.own_receives));  // not to one that looks dead
  }
  void revive_datagrams() {
    REQUIRE(datagrams_.fail() == 0);
    for (int i = 0; i < 64; ++i) poll();
    REQUIRE(datagrams_.reset() == 0);
    std::erase_if(outstanding_, [](auto id) { return (id & is_datagram) != 0; });
    static_cast<void>(datagrams_.start());  // not while the vandal breaks it
  }

  std::mt19937 random_;
  RawDevice device_;
  RawMemory memory_{device_, 6 * page_bytes};
  RawChannel channel_{device_};
  RawQueue queue_{device_, 64, &channel_};
  RawPool pool_{device_, queue_depth};
  RawPair own_{device_, queue_, queue_depth};
  RawPair pooled_{device_, queue_, queue_depth, pool_.get()};
  RawDatagrams datagrams_{device_, queue_, queue_depth};
  RawPair to_neighbour_{device_, queue_, queue_depth};
  RawDevice near_device_;
  RawMemory nearby_{near_device_, 2 * page_bytes};
  RawQueue near_queue_{near_device_};
  RawPair neighbours_{near_device_, near_queue_, queue_depth};
  Numbers vandal_{};
  std::set<std::uint64_t> outstanding_;
  std::uint64_t next_ = 0;
  int with_neighbour_ = 0;
  int entries_ = 64;
};

}  // namespace

TEST_CASE("a peer that scribbles over all it can reach breaks nothing but data", "[two_process]") {
  auto const where = GENERATE(Scribbles::in_its_own_segment, Scribbles::everywhere);
  auto const first_seed = seed_of_this_run();
  Rendezvous const rendezvous;
  for (unsigned round = 0; round < (thorough() ? 300 : 10); ++round) {
    auto const seed = first_seed + round;
    CAPTURE(first_seed, seed, round, static_cast<int>(where));
    PeerProcess vandal{[=](Wire const& wire) { return be_a_vandal(wire, seed, where); }};
    Victim victim{seed + 1};
    bool const others_are_safe = where == Scribbles::in_its_own_segment;
    victim.meet(vandal.wire(), others_are_safe);
    for (unsigned step = 0; step < 1000; ++step) {
      auto const began = std::chrono::steady_clock::now();
      victim.do_something();
      victim.poll();
      REQUIRE(std::chrono::steady_clock::now() - began < call_bound);
      if (others_are_safe && step % 100 == 0) victim.greet_neighbour(step / 100);
    }
    vandal.kill();
    CHECK(vandal.exit_status() == 128 + SIGKILL);
    victim.end();
  }
}
