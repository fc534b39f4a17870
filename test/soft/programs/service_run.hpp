// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that drives queue pairs of one service by hand, with receives of their own or shared
// ones, compared after each step with a serial model. One thread.
#pragma once

#include <lend/lend.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "soft/programs/by_hand.hpp"

namespace lend::test {

class ServiceRun : public ByHand {
 public:
  ServiceRun(Workplace& workplace, Program const& program);

 private:
  static constexpr std::size_t links = 4;  // link i is at end i % 2, and its peer is link i ^ 1
  static constexpr std::size_t bytes_of_room = 96;
  static constexpr std::size_t rooms_of_end = 8;  // one behind the other, and then what is sent
  static constexpr std::size_t sent_from = rooms_of_end * bytes_of_room;
  static constexpr std::size_t bytes_of_region = 1024;
  static constexpr std::size_t bytes_of_long_region = 4097;  // more than a packet has
  using Content = std::array<std::byte, bytes_of_region>;

  /// The sends of an end complete in one queue, its receives in another.
  struct Lane {
    std::optional<CompletionQueue> queue{};
    std::vector<Told> told{};  // since the last that were polled
    std::vector<TimedCompletion> taken{};
    std::optional<EventFor> armed{};
  };
  struct End {
    std::optional<MemoryRegion> own{};
    std::optional<MemoryRegion> shown{};  // to the peer
    RemoteRegion remote{};                // the same
    Content own_bytes{};                  // what they must hold
    Content shown_bytes{};
    std::optional<CompletionChannel> channel{};
    std::array<Lane, 2> lanes{};  // of sends, of receives
    std::optional<ReceiveQueue> shared{};
    std::deque<Room> shared_rooms{};
    std::uint32_t limit = 0;
    bool is_low = false;  // an event must come
  };
  struct Link {
    std::variant<std::monostate, QueuePair, UnreliableQueuePair, DatagramQueuePair> pair{};
    Endpoint endpoint{};
    std::deque<Room> rooms{};
    bool is_broken = false;
    bool has_last_receive = false;  // an event must come
  };
  /// Where datagrams go, or are lost.
  struct Way {
    std::optional<std::size_t> to{};
    Destination destination;
  };
  /// A request, and the lists that it is a view of.
  struct Asked {
    Operation operation{};
    std::uint64_t id = 0;
    std::vector<GatherElement> gathered{};
    std::vector<ScatterElement> scattered{};
    ByteRange here{};
    std::size_t there = 0;  // of the peer's region `shown`
    RemoteSlice remote{};
    std::optional<Destination> way{};
    std::optional<std::size_t> to{};  // a link that listens
    bool is_permitted = true;
    bool is_long = false;     // of the long region
    bool is_refused = false;  // by lend
    bool is_silent = false;
    RequestOption options = RequestOption::none;
    std::optional<std::uint32_t> immediate{};
  };

  // service_run.cpp
  void begin() override;
  void take(Step const& step) override;
  void end() override {}
  void make_end(std::size_t at);
  void connect(std::size_t link);
  template <class S>
  [[nodiscard]] PreparedQueuePairOf<S> prepared(std::size_t link);
  template <class S>
  void connect_both(std::size_t link);
  void open(std::size_t link);
  void renew_sources();
  void abort(std::size_t link);
  void arm_one(End& end);
  void ask_limit(End& end);
  [[nodiscard]] static AnyQueuePair& pair_of(Link& link);

  // service_steps.cpp
  void post(std::size_t link);
  void batch(std::size_t link);
  void receive(std::size_t link);
  void probe(std::size_t link);
  [[nodiscard]] Asked asked(std::size_t link, std::size_t rooms);
  void aim(Asked& asked, std::size_t link);
  void choose_way(Asked& asked);
  [[nodiscard]] Asked receive_asked(std::size_t link);
  void fill(Asked& asked, std::size_t link);
  [[nodiscard]] Result<void> post_one(Link& link, Asked const& asked);
  template <class S>
  [[nodiscard]] Result<void> give(QueuePairOf<S>& pair, Asked const& asked);
  template <class S>
  [[nodiscard]] Result<void> add(UnsafeBatchOf<S>& batch, Asked const& asked);
  template <class S>
  void batch_of(std::size_t link, QueuePairOf<S>& pair);
  void check_answer(Asked const& asked, Result<void> const& result);

  // service_model.cpp
  void apply(std::size_t link, Asked const& asked);
  [[nodiscard]] WorkStatus deliver(std::size_t from, Asked const& asked);
  [[nodiscard]] WorkStatus lose(std::size_t to, Room const* room, WorkStatus at_sender,
                                WorkStatus at_room);
  [[nodiscard]] std::deque<Room>& rooms_of(std::size_t link);
  void break_link(std::size_t link);

  // service_checks.cpp
  void settle();
  void compare(std::size_t at, Lane& lane);
  void check_header(End& end, TimedCompletion const& one, Told const& told);
  void check_wake_up(End& end);
  void check_event(DeviceEvent const& event);
  void check_events();
  void check() override;

  [[nodiscard]] bool is_datagram() const noexcept { return program_.service == Service::datagram; }
  [[nodiscard]] bool is_reliable() const noexcept {
    return program_.service == Service::reliable_connection;
  }
  std::optional<DeviceEvents> events_{};
  std::optional<MemoryRegion> long_region_{};
  std::array<End, 2> ends_{};
  std::array<Link, links> links_{};
  std::list<Way> ways_{};
};

}  // namespace lend::test
