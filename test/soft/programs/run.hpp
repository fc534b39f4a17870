// SPDX-License-Identifier: MIT OR Apache-2.0
// A program of two channels, compared with the model after each step. One thread.
#pragma once

#include <lend/lend.hpp>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "soft/programs/event_model.hpp"
#include "soft/programs/model.hpp"
#include "soft/programs/program.hpp"
#include "soft/programs/program_run.hpp"

namespace lend::test {

class Run : public ProgramRun {
 public:
  Run(Workplace& workplace, Program const& program);

 private:
  /// Leaves this many scopes beyond the one it is thrown in.
  struct Leave {
    std::uint32_t scopes;
  };
  enum class Way : std::uint8_t { value, error, exception };
  struct Handle {
    PendingWork work;
    std::size_t post;
    std::optional<std::string> told{};  // in words
  };
  /// A request drawn by lot, and the lists that it is a view of.
  struct Request {
    Operation operation{};
    std::vector<Range> ranges{};
    std::vector<GatherElement> gathered{};
    std::vector<ScatterElement> scattered{};
    std::optional<std::uint32_t> immediate{};
    RequestOption options = RequestOption::none;
    bool may_be_empty = false;
    RemoteSlice remote{};
    RemoteWord word{};  // of an atomic operation, with these
    std::uint64_t numbers[2]{};
    bool swaps = false;
    bool is_wrong = false;  ///< must be refused as invalid
    std::uint64_t bytes = 0;
  };

  /// A scope of the set.
  struct SetFrame {
    SetScope* scope = nullptr;
    bool is_bounded = false;
    bool may_be_cancelled = false;
    bool has_ended = false;
    std::vector<std::size_t> members{};  // in the model, in the order in which they were named
  };

  // run.cpp
  void begin() override;
  void take(Step const& step) override;
  void check() override { model_.check(); }
  void end() override;
  [[nodiscard]] std::size_t depth() const noexcept override {
    return open_.size() + frames_.size();
  }
  /// The steps up to the end of the innermost scope; how it is to end. An exception may leave it
  /// from within.
  Way run_until_left();
  void open(Step const& step);
  void run_closure(std::size_t scope, Step const& step);
  void run_plain(std::size_t scope, Step const& step);
  void run_while_unwinding(std::function<void()> const& block);
  /// Leaves the scopes around that one which an exception of `levels` has left.
  void leave_more(std::optional<std::uint32_t> levels);
  std::size_t enter(std::size_t end, bool is_manual);
  /// Inside the scope: registers, bounds, runs and unregisters it.
  Way inhabit(std::size_t scope, PollingScope& polling, Step const& step);
  void finish(Step const& step);
  void check_slots();
  void destroy_channels();

  // sets.cpp
  void open_set(Step const& step);
  void run_set(Step const& step);
  Way inhabit_set(SetFrame& frame, Step const& step);
  void finish_set(SetFrame& frame);
  void prepare_end(SetFrame& frame);
  void leave_set(SetFrame& frame, bool by_exception);
  void leave_gone(SetFrame& frame);
  std::vector<std::size_t> open_members(SetFrame const& frame);
  std::optional<std::size_t> on(SetFrame& frame, std::size_t end);
  /// The scope that a step posts in, of an end or of the set, if there is one.
  std::optional<std::size_t> chosen_scope(Step const& step);

  // steps.cpp
  void post(Step const& step);
  void post_unsafely(Step const& step);
  void block(Step const& step);
  void ask(Step const& step, bool waits);
  void drop(Step const& step);
  void leak(Step const& step);
  void move(Step const& step);
  void move_channel(Step const& step);
  void destroy_channel(std::size_t end);
  void destroy_region(Step const& step);
  void check_answer(Handle& handle, Answer const& answer, bool waits, unsigned polls_failed);
  [[nodiscard]] Request request_of(Step const& step, bool unsafely);
  void choose_options(Request& request, Step const& step) const;
  [[nodiscard]] static bool is_as_asked(Accepted const& work, Request const& request) noexcept;
  [[nodiscard]] Request atomic_of(Step const& step, std::size_t region);
  /// Notes what the device has accepted since `before`; whether that is one request or none.
  [[nodiscard]] bool note(std::size_t before, std::size_t end, std::optional<std::size_t> scope,
                          Request const& request, bool lends);
  /// Calls `call` with the request as lend's own type of it.
  template <class Call>
  auto with(Request const& request, Call&& call);
  struct Before;
  [[nodiscard]] Before before(std::size_t end, std::optional<std::size_t> scope,
                              Request const& request, bool waits);
  void check_refusal(Error const& error, Before const& before, std::size_t end,
                     Request const& request);
  [[nodiscard]] Deadline deadline_of(std::uint32_t number) const;

  // loops.cpp
  struct Seen;
  [[nodiscard]] Seen seen();
  void ask_set(Step const& step);
  void ask_channel(Step const& step);
  [[nodiscard]] bool owes_low();
  void check_low(std::span<Ready const> listed, bool is_full);
  void check_listed(std::span<Ready const> listed, bool is_full, Seen const& before);
  void check_silent(std::string const& what, Seen const& before);

  // events.cpp
  [[nodiscard]] bool is_port_down();
  void listen();
  void complain_if(std::string wrong);
  void check_events(std::span<Ready const> listed, bool is_full);
  void check_reported(std::size_t end, std::span<std::uint32_t const> reported);
  void check_all_reported(std::span<std::uint32_t const> reported);
  /// Whether there was one.
  bool ask_events(bool waits);
  void settle_events();

  // pools.cpp
  void make_pool();
  void take_message();
  void drop_message(std::size_t number);
  void destroy_pool();

  // batches.cpp
  struct Added;
  void batch(Step const& step);
  void add(Batch& batch, Added& added, Step const& step);
  [[nodiscard]] bool post_added(Batch& batch, Added& added, Step const& step);
  void note_added(Added& added);

  std::optional<DeviceEvents> events_{};
  std::optional<EventModel> events_of_set_{};
  std::optional<EventModel> events_of_device_{};
  std::optional<ReceivePool> pool_{};
  Model model_;
  std::optional<MemoryRegion> exposed_{};
  std::optional<MemoryRegion> unsafe_{};  // bytes for each step that posts without loans
  std::size_t unsafe_at_ = 0;             // those of the next one
  RemoteRegion remote_{};
  std::list<Handle> handles_{};
  std::vector<Message> messages_{};
  std::vector<std::size_t> open_{};  // scopes, innermost last
  std::vector<SetFrame*> frames_{};  // of scopes of the set, innermost last
  Cancellation never_cancelled_{};
  std::uint32_t levels_ = 0;  // of the exception that run_until_left() asks for
};

template <class Call>
auto Run::with(Request const& request, Call&& call) {
  GatherList const source{std::span<GatherElement const>{request.gathered}};
  ScatterList const target{std::span<ScatterElement const>{request.scattered}};
  switch (request.operation) {
    case Operation::send: {
      Send work{source};
      work.immediate = request.immediate;
      work.options = request.options;
      return call(work);
    }
    case Operation::receive: {
      Receive work{target};
      work.allow_empty = request.may_be_empty;
      return call(work);
    }
    case Operation::write: {
      Write work{source, request.remote};
      work.immediate = request.immediate;
      work.options = request.options;
      return call(work);
    }
    case Operation::atomic: {
      auto work = request.swaps
                      ? Atomic::compare_swap(request.scattered[0], request.word, request.numbers[0],
                                             request.numbers[1])
                      : Atomic::fetch_add(request.scattered[0], request.word, request.numbers[0]);
      work.change.options = request.options;
      return call(work);
    }
    default: {
      Read work{target, request.remote};
      work.options = request.options;
      return call(work);
    }
  }
}

}  // namespace lend::test
