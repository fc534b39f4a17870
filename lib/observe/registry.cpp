// SPDX-License-Identifier: MIT OR Apache-2.0
// Lists and adds what counts. Any thread.
#include <base/printable.hpp>
#include <observe/observer.hpp>
#include <observe/registry.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace lend::observe {

namespace {

// Never destroyed: channels may end after main().
constinit std::atomic<Registry*> current{nullptr};

}  // namespace

Registry::Registry(Registry* of_parent) noexcept : process_{::getpid()}, of_parent_{of_parent} {}

Registry& Registry::of_this_process() {
  // Acquire: pairs with the exchange of the thread that made it.
  Registry* known = current.load(std::memory_order_acquire);
  if (known != nullptr && known->process_ == ::getpid()) return *known;
  std::unique_ptr<Registry> made{new Registry{known}};
  if (current.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *known;
}

std::size_t Registry::series_of(std::string_view name) {
  std::string shown = base::shown(name);
  std::scoped_lock const lock{mutex_};
  auto& all = ended_.series;
  auto const place_of = [&all](std::string const& wanted) {
    return static_cast<std::size_t>(std::ranges::find(all, wanted, &Series::name) - all.begin());
  };
  auto place = place_of(shown);
  if (place == all.size() && place >= names_max) place = place_of(shown = "other");
  if (place == all.size()) all.push_back({std::move(shown)});
  return place;
}

template <class Counting>
void Registry::join(Counting& it) noexcept {
  std::scoped_lock const lock{mutex_};
  Counting*& first = first_of(it);
  it.next_ = first;
  if (first != nullptr) first->previous_ = &it;
  first = &it;
}

template <class Counting>
void Registry::leave(Counting& it) noexcept {
  if (process_ != ::getpid()) return;
  std::scoped_lock const lock{mutex_};
  (it.previous_ != nullptr ? it.previous_->next_ : first_of(it)) = it.next_;
  if (it.next_ != nullptr) it.next_->previous_ = it.previous_;
  add(it, ended_);
}

template void Registry::join(Observer&) noexcept;
template void Registry::leave(Observer&) noexcept;
template void Registry::join(Tally&) noexcept;
template void Registry::leave(Tally&) noexcept;

void Registry::add(Observer const& observer, Counts& to) noexcept {
  observer.add_to(to.series[observer.series_].totals);
}

void Registry::add(Tally const& tally, Counts& to) noexcept {
  tally.add_to(to.tallies);
}

Counts Registry::counts() const {
  std::scoped_lock const lock{mutex_};
  Counts all = ended_;
  for (Observer const* each = first_observer_; each != nullptr; each = each->next_) add(*each, all);
  for (Tally const* each = first_tally_; each != nullptr; each = each->next_) add(*each, all);
  return all;
}

}  // namespace lend::observe
