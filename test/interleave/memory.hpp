// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory of one history: locations with all their stores, and what each actor must have seen.
#pragma once

#include "explorer.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace lend::interleave {

/// What somebody is bound to know: for each location the oldest store it may still read, for each
/// actor how many of its steps came before.
struct View {
  std::vector<std::uint32_t> stores;
  std::vector<std::uint32_t> steps;

  void join(View const& other) {
    join(stores, other.stores);
    join(steps, other.steps);
  }
  static std::uint32_t at(std::vector<std::uint32_t> const& numbers, std::size_t index) {
    return index < numbers.size() ? numbers[index] : 0;
  }
  static std::uint32_t& slot(std::vector<std::uint32_t>& numbers, std::size_t index) {
    if (index >= numbers.size()) numbers.resize(index + 1);
    return numbers[index];
  }

 private:
  static void join(std::vector<std::uint32_t>& mine, std::vector<std::uint32_t> const& theirs) {
    if (mine.size() < theirs.size()) mine.resize(theirs.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
  }
};

struct Store {
  Word value;
  View view;  // what an acquiring reader of this store learns
};

struct Location {
  std::vector<Store> stores;
};

/// Plain data: who touched it last, in whose steps.
struct PlainData {
  std::size_t writer = 0;
  std::uint32_t written = 0;
  std::vector<std::uint32_t> read;
};

/// What one actor knows.
struct Knowledge {
  View now;
  View at_acquire_fence;  // what relaxed loads saw, for a later acquire fence
  View at_release_fence;  // what relaxed stores pass on
};

inline bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst || order == std::memory_order_consume;
}
inline bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

class Memory {
 public:
  /// The number of the location at `address`, whose first store is `now`.
  std::size_t location(void const* address, Word now) {
    auto const [found, is_new] = numbers_.try_emplace(address, locations_.size());
    if (is_new) locations_.push_back({{Store{now, {}}}});
    return found->second;
  }
  [[nodiscard]] Word last(std::size_t location) const {
    return locations_[location].stores.back().value;
  }
  /// How many stores a load by this actor may choose from, the last being number 0.
  [[nodiscard]] std::size_t choices(std::size_t location, Knowledge const& actor,
                                    std::memory_order order) const {
    auto oldest = View::at(actor.now.stores, location);
    if (order == std::memory_order_seq_cst)
      oldest = std::max(oldest, View::at(agreed_.stores, location));
    return locations_[location].stores.size() - oldest;
  }
  Word load(std::size_t location, Knowledge& actor, std::memory_order order, std::size_t back) {
    auto const& stores = locations_[location].stores;
    auto const index = stores.size() - 1 - back;
    if (order == std::memory_order_seq_cst) actor.now.join(agreed_);
    see(location, index, actor, order);
    return stores[index].value;
  }
  void store(std::size_t location, Word value, Knowledge& actor, std::memory_order order,
             bool is_update = false) {
    auto& stores = locations_[location].stores;
    View::slot(actor.now.stores, location) = static_cast<std::uint32_t>(stores.size());
    // An update carries on the release sequence it reads from.
    auto passed_on = is_update ? stores.back().view : View{};
    passed_on.join(releases(order) ? actor.now : actor.at_release_fence);
    View::slot(passed_on.stores, location) = static_cast<std::uint32_t>(stores.size());
    stores.push_back({value, std::move(passed_on)});
    if (order == std::memory_order_seq_cst) agreed_.join(actor.now);
  }
  void fence(Knowledge& actor, std::memory_order order) {
    if (acquires(order)) actor.now.join(actor.at_acquire_fence);
    if (order == std::memory_order_seq_cst) {
      actor.now.join(agreed_);
      agreed_.join(actor.now);
    }
    if (releases(order)) actor.at_release_fence = actor.now;
  }
  /// False: another actor's access is neither before nor after this one.
  bool touch_plain(void const* address, std::size_t actor, Knowledge const& knows, bool writes) {
    auto& data = plain_[address];
    auto const& steps = knows.now.steps;
    bool is_ordered = View::at(steps, data.writer) >= data.written;
    if (writes)
      for (std::size_t i = 0; i < data.read.size(); ++i)
        is_ordered = is_ordered && View::at(steps, i) >= data.read[i];
    auto const step = View::at(steps, actor);
    if (writes) {
      data.writer = actor;
      data.written = step;
      data.read.clear();
    } else {
      View::slot(data.read, actor) = step;
    }
    return is_ordered;
  }

 private:
  void see(std::size_t location, std::size_t index, Knowledge& actor, std::memory_order order) {
    auto const& view = locations_[location].stores[index].view;
    auto& oldest = View::slot(actor.now.stores, location);
    oldest = std::max(oldest, static_cast<std::uint32_t>(index));
    (acquires(order) ? actor.now : actor.at_acquire_fence).join(view);
  }

  std::map<void const*, std::size_t> numbers_;
  std::vector<Location> locations_;
  std::map<void const*, PlainData> plain_;
  View agreed_;  // what all seq_cst operations so far have passed on
};

}  // namespace lend::interleave
