// SPDX-License-Identifier: MIT OR Apache-2.0
// Windows and their loans, from one use to the next. The thread of the channel.
#include <channel/parts/peer_loans.hpp>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace lend::channel {

namespace {

constinit std::atomic<PeerLoans*> leaked{nullptr};  // for leak checkers

}  // namespace

void PeerLoans::End::operator()(PeerLoans* loans) const noexcept {
  auto const is_lent = [](Entry const& entry) { return entry.is_lent(); };
  if (!std::any_of(loans->entries_.begin(), loans->entries_.end(), is_lent)) {
    delete loans;
    return;
  }
  // Relaxed: no thread reads the list.
  loans->next_leaked_ = leaked.exchange(loans, std::memory_order_relaxed);
}

Result<std::uint32_t> PeerLoans::take(std::shared_ptr<verbs::DomainHandle> const& domain) try {
  if (first_free_ != 0) {
    std::uint32_t const place = first_free_ - 1;
    first_free_ = std::exchange(entries_[place].next_free, 0);
    return place;
  }
  LEND_TRY(window, verbs::make_window(domain));
  auto const place = static_cast<std::uint32_t>(entries_.size());
  places_.emplace(window.raw.get()->rkey & ~changing_bits, place);
  entries_.emplace_back(std::move(window));
  return place;
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

void PeerLoans::free(std::uint32_t place) noexcept {
  entries_[place].next_free = std::exchange(first_free_, place + 1);
}

PeerLoanId PeerLoans::begin(std::uint32_t place, ScopeRecord& scope) noexcept {
  Entry& entry = entries_[place];
  entry.scope = &scope;
  ++scope.lent;
  observe::count(counts_.lent);
  return {std::uint64_t{entry.generation} << 32 | place};
}

PeerLoans::Entry* PeerLoans::find(PeerLoanId id) noexcept {
  if (id.place() >= entries_.size()) return nullptr;
  Entry& entry = entries_[id.place()];
  bool const is_same = entry.generation == static_cast<std::uint32_t>(id.value >> 32);
  return is_same && entry.is_lent() ? &entry : nullptr;
}

void PeerLoans::end_returned(std::uint32_t key) noexcept {
  auto const found = places_.find(key & ~changing_bits);
  if (found == places_.end()) return;
  Entry& entry = entries_[found->second];
  // What is being recalled ends when that is known to be over: see recall_peer_loan().
  if (!entry.is_lent() || entry.key() != key || entry.recall.is_valid()) return;
  observe::count(counts_.returned);
  end(entry);
}

void PeerLoans::end(Entry& entry) noexcept {
  end_loan_of(entry);
  free(places_.find(entry.key() & ~changing_bits)->second);
}

void PeerLoans::end_loan_of(Entry& entry) noexcept {
  verbs::end_loan(entry.lent.loan, entry.lent.region);
  --std::exchange(entry.scope, nullptr)->lent;
  entry.recall = {};
  if (++entry.generation == 0) entry.generation = 1;
}

void PeerLoans::end_all() noexcept {
  // Bound to a queue pair that is gone, or free: no key opens anything. Before the loans: a region
  // that was destroyed meanwhile ends with its last one, and no window may be bound to it then.
  for (Entry& entry : entries_) static_cast<void>(entry.window.raw.destroy());
  for (Entry& entry : entries_) {
    if (!entry.is_lent()) continue;
    observe::count(counts_.ended);
    end_loan_of(entry);
  }
  first_free_ = 0;
}

void PeerLoans::keep_all() noexcept {
  for (Entry& entry : entries_)
    if (entry.is_lent() && entry.scope != &kept_) {
      --std::exchange(entry.scope, &kept_)->lent;
      ++kept_.lent;
    }
}

}  // namespace lend::channel
