// SPDX-License-Identifier: MIT OR Apache-2.0
// A program that drives queue pairs and memory windows by hand, compared after each step with a
// serial model of both ends. One thread.
#pragma once

#include <lend/lend.hpp>

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "soft/programs/by_hand.hpp"

namespace lend::test {

/// What both ends take their bytes for.
struct Cell {
  std::uint64_t number = 0;
  std::uint32_t count = 0;
  std::uint32_t mark = 0;
};

/// A request of the send queue as the device was given it.
struct Given {
  std::uint64_t id = 0;
  ibv_wr_opcode opcode{};
  unsigned flags = 0;
};

class HandRun : public ByHand {
 public:
  HandRun(Workplace& workplace, Program const& program);

 private:
  static constexpr std::size_t cells = 16;
  static constexpr std::uint64_t receive_bit = 1u << 20;  // of the ids of receives
  static constexpr std::size_t bytes_of_region = cells * sizeof(Cell);
  using Content = std::array<std::byte, bytes_of_region>;

  struct Window {
    std::optional<MemoryWindow> window{};
    RemoteRegion remote{};  ///< of the latest bind; no key: none by this connection
    std::size_t offset = 0;
    bool is_bound = false;
  };
  struct End {
    std::vector<std::byte> storage{};  // of what is not owned memory
    std::optional<TypedRegion<Cell>> own{};
    std::optional<TypedRegion<Cell>> shown{};  // to the peer
    RemoteRegion remote{};                     // the same
    Content own_bytes{};                       // what they must hold
    Content shown_bytes{};
    std::optional<CompletionQueue> queue{};
    std::array<Window, 2> windows{};
    std::optional<QueuePair> pair{};
    std::deque<Room> rooms{};
    std::optional<EventFor> armed{};
    std::vector<Told> sends{};  // since the last that were polled
    std::vector<Told> receives{};
    bool is_broken = false;
  };
  /// A request, and the lists that it is a view of.
  struct Asked {
    Operation operation{};
    std::uint64_t id = 0;
    std::vector<GatherElement> gathered{};
    std::vector<ScatterElement> scattered{};
    ByteRange here{};       // of the region `own`
    std::size_t there = 0;  // of the peer's region `shown`
    RemoteSlice remote{};
    RemoteWord word{};
    bool is_permitted = true;   // by key and rights, as the peer's device sees them
    bool is_by_window = false;  // which a request before this one may return
    bool is_refused = false;    // by lend
    bool swaps = false;
    std::uint64_t numbers[2]{};
    RequestOption options = RequestOption::none;
    std::optional<std::uint32_t> immediate{};
    RemoteRegion returned{};
    bool is_silent = false;
  };

  // hand_run.cpp
  /// What the device has taken since the program began.
  [[nodiscard]] static std::vector<Given> const& given() noexcept;
  void begin() override;
  void take(Step const& step) override;
  void check() override;
  void end() override;
  void connect();
  [[nodiscard]] QueuePair by_hand(PreparedQueuePair prepared, Endpoint const& own,
                                  Endpoint const& peer);
  void arm_one();
  void settle();
  void compare(std::size_t at, std::vector<TimedCompletion> const& taken);
  void check_wake_up(End& end);

  // hand_steps.cpp
  void post(std::size_t at);
  void batch(std::size_t at);
  void receive(std::size_t at);
  [[nodiscard]] static std::string words_of(Asked const& asked);
  void check_given(std::size_t index, Asked const& asked);
  [[nodiscard]] Asked asked(std::size_t at, std::size_t rooms);
  [[nodiscard]] Asked receive_asked(std::size_t at);
  void aim(Asked& asked, std::size_t at);
  void aim_atomic(Asked& asked, std::size_t at);
  void aim_by_type(Asked& asked, RemoteRegion const& region, std::size_t offset);
  static void list(Asked& asked, End& end, ByteRange bytes, std::size_t pieces);
  [[nodiscard]] bool waits_for_reads(Asked const& asked) const;
  [[nodiscard]] Result<void> add(UnsafeBatchOf<Rc>& batch, Asked const& asked);
  void post_all(std::size_t at, UnsafeBatchOf<Rc>& batch, std::vector<Asked> const& sends,
                std::vector<Asked> const& receives);
  [[nodiscard]] bool is_refused(Asked const& asked, Result<void> const& result,
                                std::size_t given_before);
  /// Calls `call` with the request as lend's own type of it.
  template <class Call>
  auto with(Asked const& asked, Call&& call);

  // hand_windows.cpp
  void bind(std::size_t at);
  void invalidate(std::size_t at);
  void renew_window(std::size_t at);
  void give_advice(std::size_t at);

  // hand_model.cpp
  void apply(std::size_t at, Asked const& asked);
  [[nodiscard]] WorkStatus execute_at(End& here, End& there, Asked const& asked);
  [[nodiscard]] WorkStatus deliver(End& here, End& there, Asked const& asked);
  static void break_end(End& end);
  [[nodiscard]] static Window* bound(End& end, std::uint32_t key);

  std::optional<ProtectionDomain> other_domain_{};
  std::array<End, 2> ends_{};
  std::vector<RemoteRegion> dead_{};  // what windows opened once
  std::vector<ByteRange> awaited_{};  // what reads before in this chain write, of the own region
  std::size_t connections_ = 0;
};

template <class Call>
auto HandRun::with(Asked const& asked, Call&& call) {
  GatherList const source{std::span<GatherElement const>{asked.gathered}};
  ScatterList const target{std::span<ScatterElement const>{asked.scattered}};
  switch (asked.operation) {
    case Operation::send: {
      Send work{source};
      if (asked.returned.key() != 0) work = work.returning(asked.returned);
      if (has(asked.options, RequestOption::fenced)) work = work.fenced();
      if (has(asked.options, RequestOption::solicited)) work = work.solicited();
      work.immediate = asked.immediate;
      return call(work);
    }
    case Operation::write: {
      Write work{source, asked.remote};
      work.immediate = asked.immediate;
      work.options = asked.options;
      return call(work);
    }
    case Operation::receive: {
      Receive work{target};
      work.allow_empty = true;
      return call(work);
    }
    case Operation::atomic: {
      auto const work = asked.swaps
                            ? Atomic::compare_swap(asked.scattered[0], asked.word, asked.numbers[0],
                                                   asked.numbers[1])
                            : Atomic::fetch_add(asked.scattered[0], asked.word, asked.numbers[0]);
      return call(has(asked.options, RequestOption::fenced) ? work.fenced() : work);
    }
    default: {
      Read work{target, asked.remote};
      work.options = asked.options;
      return call(work);
    }
  }
}

}  // namespace lend::test
