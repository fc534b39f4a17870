// SPDX-License-Identifier: MIT OR Apache-2.0
// A program of channels for datagrams, compared after each step with what the spy has seen. One
// thread.
#pragma once

#include <lend/channel/datagram_channel.hpp>
#include <lend/lend.hpp>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "soft/programs/program_run.hpp"

namespace lend::test {

class DatagramRun : public ProgramRun {
 public:
  DatagramRun(Workplace& workplace, Program const& program)
      : ProgramRun{workplace, program, workplace.device()} {}

 private:
  static constexpr std::size_t ends_of_program = 3;
  static constexpr std::size_t bytes_of_region = 512;

  struct Left {};  // thrown past a scope
  struct Post {
    std::size_t end = 0;
    std::size_t scope = 0;
    bool is_room = false;
    std::size_t region = 0;
    ByteRange bytes{};
    std::uint64_t id = 0;
    std::size_t accepted = 0;  // in Spy::works(): the last time
    bool held = true;          // a handle of it exists
    bool told = false;
    bool is_stale = false;  // its scope is over, or it was recalled
  };
  struct Handle {
    std::variant<PendingWork, PendingDatagram> work;
    std::size_t post;
    std::optional<std::string> told{};  // in words
  };
  struct End {
    std::unique_ptr<DatagramChannel> channel{};
    std::uint32_t number = 0;
    bool is_gone = false;
    std::optional<std::string> first_cause{};
  };
  struct Scope {
    std::size_t end = 0;
    DatagramScope* scope = nullptr;
    bool has_ended = false;
  };
  /// A scope of one channel, or of the set.
  struct Frame {
    SetScope* of_set = nullptr;
    std::vector<std::size_t> scopes{};
  };
  struct Way {
    std::size_t from = 0;
    Destination to;
  };
  /// What is so before a call.
  struct Before {
    std::size_t accepted = 0;
    unsigned polls_failed = 0;
    unsigned flushes_refused = 0;
    bool was_broken = false;
    bool had_room = false;
  };

  // datagram_run.cpp
  void begin() override;
  void take(Step const& step) override;
  void end() override;
  [[nodiscard]] std::size_t depth() const noexcept override { return frames_.size(); }
  void open(Step const& step);
  void open_set();
  void finish(Step const& step);
  void recall(Step const& step);
  void destroy_end(std::size_t end);
  void ask_set(Step const& step);
  void check_slots();
  [[nodiscard]] std::optional<std::size_t> chosen_scope(Step const& step);

  // datagram_steps.cpp
  void post(Step const& step);
  void batch(Step const& step);
  void block(Step const& step);
  void ask(Step const& step, bool waits);
  /// What the handle of work that succeeded must say.
  [[nodiscard]] std::string expected_of(Post& post);
  void drop(Step const& step);
  void renew_destination(Step const& step);
  [[nodiscard]] Way const* chosen_way(std::size_t from, std::uint32_t number);
  /// Notes a request that the device has accepted.
  void note(std::size_t scope, bool is_room, std::size_t region, ByteRange bytes, bool held);
  void check_refusal(Error const& error, Before const& before, std::size_t scope, bool is_room,
                     std::size_t region, ByteRange bytes, bool waits);

  // datagram_checks.cpp
  [[nodiscard]] Before before(std::size_t end, bool is_room);
  [[nodiscard]] Accepted& device_side(Post& post);
  [[nodiscard]] bool is_in_progress(Post& post) { return device_side(post).is_in_progress(); }
  [[nodiscard]] bool has_loans(Post& post);
  [[nodiscard]] bool is_broken(std::size_t end) const;
  [[nodiscard]] std::uint32_t slots_taken(std::size_t end);
  [[nodiscard]] bool has_room(std::size_t end, bool is_room);
  [[nodiscard]] bool meets_a_loan(std::size_t region, ByteRange bytes, bool exclusively);
  [[nodiscard]] std::vector<std::size_t> rooms_of_others(std::size_t scope);
  /// After a recall of `scope`, or its end, that succeeded or broke the channel.
  void note_recall(std::size_t scope, std::vector<std::size_t> const& others);
  /// After the end of `scope`, however that came. Whether work failed of which nobody was told.
  bool note_end(std::size_t scope, std::vector<std::size_t> const& others);
  void note_finish(std::size_t scope, std::vector<std::size_t> const& others,
                   Result<void> const& result, Before const& before);
  void check() override;
  void check_cause(std::size_t end);
  std::vector<std::optional<MemoryRegion>> regions_{};
  std::vector<End> ends_{};
  std::vector<Scope> scopes_{};
  std::vector<Post> posts_{};
  std::list<Handle> handles_{};
  std::list<Way> ways_{};
  std::vector<Frame*> frames_{};
};

}  // namespace lend::test
