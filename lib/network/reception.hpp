// SPDX-License-Identifier: MIT OR Apache-2.0
// The listening side of the exchange: many strangers at once, one peer at a time. One thread at a
// time.
#pragma once

#include <network/exchange.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/result.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace lend {

/// Bounds that keep strangers from holding a listener.
struct ReceptionLimits {
  std::size_t strangers_max = 32;  ///< served at once; further ones wait in the kernel's queue
  std::chrono::milliseconds greeting_longest{2000};  ///< for a greeting, and again to agree
  std::chrono::milliseconds greeting_shortest{200};  ///< before a newcomer may take its place
};

/// Receives connections and finds the peer among them.
///
/// A stranger is greeted back only after its own greeting is found good, and only one at a time:
/// our endpoint belongs to a single peer. Good ones that come meanwhile are kept for the next
/// admit().
class Reception {
 public:
  explicit Reception(Socket listening, ReceptionLimits limits = {}) noexcept
      : listening_{std::move(listening)}, limits_{limits} {}

  [[nodiscard]] std::string const& address() const noexcept { return listening_.address; }

  /// A peer that agreed, and what it brought.
  struct Admitted {
    Socket socket;
    EndpointBytes endpoint{};
  };

  /// Waits for one. After an error nobody holds the endpoint of `terms` any more.
  /// Errors:  timed_out  says what the last stranger did wrong. exhausted, system_failed.
  [[nodiscard]] Result<Admitted> admit(Terms const& terms, Deadline deadline);

  /// Connections held at the moment.
  [[nodiscard]] std::size_t strangers() const noexcept { return strangers_.size(); }

 private:
  enum class Stage : std::uint8_t {
    greeting,  ///< its greeting is incomplete
    waiting,   ///< its greeting is good; another was chosen first
    chosen,    ///< greeted back; it has yet to agree
    agreed,
    left,  ///< to be forgotten
  };
  struct Stranger {
    Socket socket;
    Stage stage = Stage::greeting;
    Deadline::Clock::time_point since{};  ///< when its stage began
    FrameReader reader{};
    Greeting greeting{};
  };

  [[nodiscard]] static bool is_greeting(Stranger const& one) noexcept {
    return one.stage == Stage::greeting;
  }
  void begin(Deadline::Clock::time_point now) noexcept;
  void end() noexcept;
  void expire(Deadline::Clock::time_point now);
  void choose(Terms const& terms, Deadline::Clock::time_point now);
  /// Turns away who was told our endpoint, which ends with the call of admit().
  void end_offer(VerdictCode code, std::string const& clause);
  [[nodiscard]] bool has_room(Deadline::Clock::time_point now) const noexcept;
  [[nodiscard]] Deadline next_event() const noexcept;
  [[nodiscard]] Result<void> wait_and_serve(Terms const& terms, Deadline deadline);
  void serve(Stranger& stranger, Terms const& terms);
  void heard(Stranger& stranger, Terms const& terms);
  [[nodiscard]] Result<void> receive_newcomers();
  void make_room(Deadline::Clock::time_point now);
  void turn_away(Stranger& stranger, VerdictCode code, std::string clause);
  void forget_those_who_left();
  [[nodiscard]] Error too_late(Deadline deadline) const;

  Socket listening_;
  ReceptionLimits limits_;
  std::vector<Stranger> strangers_;  // oldest first
  std::vector<pollfd> polled_;       // listening socket last
  std::string last_wrong_;
  std::size_t room_ = 0;                 // for strangers: lowered while descriptors are short
  Deadline::Clock::time_point ended_{};  // the last admit()
};

}  // namespace lend
