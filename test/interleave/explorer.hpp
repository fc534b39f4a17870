// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a small history of actors under every schedule, every value a load may return, every death.
//
// Actors are fibres of one thread; each operation on shared memory hands over to the explorer,
// which decides who goes on. A depth-first walk over the decisions meets every history once, sleep
// sets leaving out those that differ only in the order of independent steps (P. Godefroid,
// "Partial-Order Methods for the Verification of Concurrent Systems", 1996).
//
// Memory is C++20's: a location keeps all its stores, and a load may return any that its actor is
// not yet bound to have passed; release, acquire, fences and seq_cst carry views from one actor to
// another. Three departures: stores of one location are ordered as they ran, so a load never sees
// the future; read-modify-writes, failed ones too, read the last store; seq_cst is a little
// stronger than the standard's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lend::interleave {

using Word = std::uint64_t;

/// What a scenario's set-up fills in; made anew for each history.
class History {
 public:
  struct Actor {
    std::function<void()> body;
    bool is_mortal = false;
  };
  /// Returns the actor's number, from 1 on.
  std::uint32_t actor(std::function<void()> body) { return add({std::move(body), false}); }
  /// One that may be killed before any of its operations.
  std::uint32_t mortal(std::function<void()> body) { return add({std::move(body), true}); }
  /// Runs when nobody can go on, with everything visible; expect() is allowed.
  void at_end(std::function<void()> check) { check_ = std::move(check); }

 private:
  friend class Explorer;
  std::uint32_t add(Actor actor) {
    actors_.push_back(std::move(actor));
    return static_cast<std::uint32_t>(actors_.size());
  }
  std::vector<Actor> actors_;
  std::function<void()> check_;
};

struct Limits {
  std::uint64_t runs = 2'000'000;  // of which many turn out to be known histories
  unsigned early_timeouts = 1;     // of sleepers that others could still wake, for each actor
  unsigned stale_loads = 2;        // loads that return other than the last store, for each actor
};

struct Report {
  std::uint64_t histories = 0;
  std::uint64_t with_deaths = 0;
  bool is_complete = false;  // every history was met
  std::string failure;       // of the first history that failed, with its steps; else empty
};

/// Runs `set_up` and then its actors, again and again, until all histories are met or one fails.
Report explore(std::function<void(History&)> const& set_up, Limits = {});

// For actors and at_end():

/// Fails the history, with this sentence, unless `is_so`.
void expect(bool is_so, char const* sentence);
/// Of this history, so far.
bool is_dead(std::uint32_t actor);
unsigned deaths();
/// How often somebody slept to the end because nobody was left to wake it: a lost wake-up, or a
/// death.
unsigned overslept();

// The operations, for platform.hpp. `address` stands for the location, `now` for its value when
// it has none in this history yet.
Word load(void const* address, Word now, std::memory_order);
void store(void* address, Word now, Word value, std::memory_order);
/// The value before. `change` gives the value after, or false for none (a failed exchange).
Word update(void* address, Word now, std::function<bool(Word&)> const& change, std::memory_order,
            std::memory_order on_failure);
void fence(std::memory_order);
/// True when it slept until its time was over.
bool sleep_while(void const* address, Word now, Word seen);
void wake_one(void const* address);

/// Data that is no atomic: fails the history when two actors touch it with nothing between them.
void read_plain(void const* address);
void write_plain(void const* address);

}  // namespace lend::interleave
