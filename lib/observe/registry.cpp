// SPDX-License-Identifier: MIT OR Apache-2.0
// Lists and adds what counts. Any thread.
#include <base/printable.hpp>
#include <observe/counts_file.hpp>
#include <observe/observer.hpp>
#include <observe/registry.hpp>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <concepts>
#include <memory>
#include <new>
#include <string>
#include <utility>

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
  std::string const shown = base::shown(name);
  std::scoped_lock const lock{mutex_};
  auto const known = ended_.series.size();
  auto const place = ended_.series_of(shown);
  if (CountsFile* const its = file(); its != nullptr && place == known)
    its->name(place, ended_.series[place].name);
  return place;
}

template <class Counting>
void Registry::join(Counting& it) noexcept {
  std::scoped_lock const lock{mutex_};
  Counting*& first = first_of(it);
  it.next_ = first;
  if (first != nullptr) first->previous_ = &it;
  first = &it;
  if (CountsFile* const its = file()) begin_in(*its, it);
}

template <class Counting>
void Registry::leave(Counting& it) noexcept {
  if (process_ != ::getpid()) return;
  std::scoped_lock const lock{mutex_};
  if constexpr (std::same_as<Counting, Tally>) it.counted_.end_pools();
  (it.previous_ != nullptr ? it.previous_->next_ : first_of(it)) = it.next_;
  if (it.next_ != nullptr) it.next_->previous_ = it.previous_;
  add(it, ended_);
  if (CountsFile* const its = file()) end_in(*its, it);
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

void Registry::begin_in(CountsFile& file, Observer const& it) noexcept {
  file.begin(it, it.series_);
}
void Registry::begin_in(CountsFile& file, Tally const& it) noexcept {
  file.begin(it);
}
void Registry::end_in(CountsFile& file, Observer const& it) const noexcept {
  file.end(it, it.series_, ended_.series[it.series_].totals);
}
void Registry::end_in(CountsFile& file, Tally const& it) const noexcept {
  file.end(it, ended_.tallies);
}

Counts Registry::counts() const {
  std::scoped_lock const lock{mutex_};
  Counts all = ended_;
  for (Observer const* each = first_observer_; each != nullptr; each = each->next_) add(*each, all);
  for (Tally const* each = first_tally_; each != nullptr; each = each->next_) add(*each, all);
  return all;
}

// ---- the file ----

CountsFile* Registry::file() const noexcept {
  return file_.load(std::memory_order_relaxed);
}

void Registry::make_file() noexcept try {
  auto const directory = counts_directory();
  if (directory.empty() || std::exchange(has_tried_, true)) return;
  auto made = CountsFile::create(std::string{directory});
  // The doctor says why.
  if (made.has_error()) return;
  CountsFile& file = *made.value();
  for (std::size_t i = 0; i < ended_.series.size(); ++i) file.name(i, ended_.series[i].name);
  for (Observer const* each = first_observer_; each != nullptr; each = each->next_)
    file.begin(*each, each->series_);
  for (Tally const* each = first_tally_; each != nullptr; each = each->next_) file.begin(*each);
  static int const in_children = ::pthread_atfork(nullptr, nullptr, leave_file_to_parent);
  static_cast<void>(in_children);
  // Release: pairs with the load in a forked child.
  file_.store(&file, std::memory_order_release);
} catch (std::bad_alloc const&) {
  // As if it could not be made.
}

void Registry::leave_file_to_parent() noexcept {
  Registry* const of_parent = current.load(std::memory_order_acquire);
  CountsFile* const its =
      of_parent != nullptr ? of_parent->file_.load(std::memory_order_acquire) : nullptr;
  if (its != nullptr) its->be_private();
}

template <class Counting>
void* Registry::allocate(std::size_t bytes) {
  Registry& registry = of_this_process();
  {
    std::scoped_lock const lock{registry.mutex_};
    if (registry.file() == nullptr) registry.make_file();
    CountsFile* const its = registry.file();
    void* const place = its != nullptr ? its->place_for(static_cast<Counting*>(nullptr)) : nullptr;
    if (place != nullptr) return place;
  }
  return ::operator new(bytes);
}

void Registry::free(void* block) noexcept {
  for (Registry* each = current.load(std::memory_order_acquire); each != nullptr;
       each = each->of_parent_) {
    CountsFile* const its = each->file_.load(std::memory_order_acquire);
    if (its == nullptr || !its->has(block)) continue;
    // A forked child takes no lock of its parent, and needs no place of its file.
    if (each->process_ != ::getpid()) return;
    std::scoped_lock const lock{each->mutex_};
    return its->give_back(block);
  }
  ::operator delete(block);
}

void* Observer::operator new(std::size_t bytes) {
  return Registry::allocate<Observer>(bytes);
}
void Observer::operator delete(void* at) noexcept {
  Registry::free(at);
}
void* Tally::operator new(std::size_t bytes) {
  return Registry::allocate<Tally>(bytes);
}
void Tally::operator delete(void* at) noexcept {
  Registry::free(at);
}

}  // namespace lend::observe
