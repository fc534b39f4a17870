// SPDX-License-Identifier: MIT OR Apache-2.0
// Adds the counts of observers. Any thread.
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
  auto const place_of = [this](std::string const& wanted) {
    return static_cast<std::size_t>(std::ranges::find(ended_, wanted, &Series::name) -
                                    ended_.begin());
  };
  auto place = place_of(shown);
  if (place == ended_.size() && place >= names_max) place = place_of(shown = "other");
  if (place == ended_.size()) ended_.push_back({std::move(shown)});
  return place;
}

void Registry::join(Observer& observer) noexcept {
  std::scoped_lock const lock{mutex_};
  observer.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &observer;
  first_ = &observer;
}

void Registry::leave(Observer& observer) noexcept {
  if (process_ != ::getpid()) return;
  std::scoped_lock const lock{mutex_};
  (observer.previous_ != nullptr ? observer.previous_->next_ : first_) = observer.next_;
  if (observer.next_ != nullptr) observer.next_->previous_ = observer.previous_;
  observer.add_to(ended_[observer.series_].totals);
}

std::vector<Series> Registry::totals() const {
  std::scoped_lock const lock{mutex_};
  auto all = ended_;
  for (Observer const* each = first_; each != nullptr; each = each->next_)
    each->add_to(all[each->series_].totals);
  return all;
}

}  // namespace lend::observe
