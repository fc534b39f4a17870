// SPDX-License-Identifier: MIT OR Apache-2.0
// The bytes that a channel's peer may access, and the memory windows that open them. The thread of
// the channel.
#pragma once

#include <base/slot_table.hpp>
#include <channel/parts/scope_record.hpp>
#include <lend/observe/channel_metrics.hpp>
#include <lend/verbs/remote_region.hpp>
#include <observe/counting.hpp>
#include <verbs/memory/loan_row.hpp>
#include <verbs/post/window_work.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

namespace lend::channel {

/// A loan by its place, and how many that place had before: never 0.
struct PeerLoanId {
  std::uint64_t value;

  [[nodiscard]] std::uint32_t place() const noexcept { return static_cast<std::uint32_t>(value); }
};

/// A window with what it opens. It is used again once the device confirmed that its key is invalid:
/// windows take a call of the driver to make. So a loan allocates nothing once as many were lent.
class PeerLoans {
 public:
  struct Entry {
    explicit Entry(verbs::WindowHandle made) noexcept : window{std::move(made)} {}

    verbs::WindowHandle window;
    verbs::LentPiece lent{};
    ScopeRecord* scope = nullptr;  // while it is lent
    base::SlotId recall{};         // of the invalidation, while that is outstanding
    std::uint32_t generation = 1;
    std::uint32_t next_free = 0;  // place + 1

    [[nodiscard]] bool is_lent() const noexcept { return scope != nullptr; }
    [[nodiscard]] std::uint32_t key() const noexcept { return window.raw.get()->rkey; }
  };

  /// Leaks what is lent still, because the ledgers of regions refer to it.
  struct End {
    void operator()(PeerLoans* loans) const noexcept;
  };

  /// Counts there, or nowhere. Borrows: it, until the last loan has ended.
  explicit PeerLoans(PeerLoanMetrics* counts) noexcept
      : counts_{counts != nullptr ? *counts : uncounted_} {}
  void note_refused() noexcept { observe::count(counts_.refused); }
  PeerLoans(PeerLoans const&) = delete;
  PeerLoans& operator=(PeerLoans const&) = delete;

  /// A place without a loan. Makes a window if all are lent.
  /// Errors:  those of MemoryWindow::create(), and exhausted.
  [[nodiscard]] Result<std::uint32_t> take(std::shared_ptr<verbs::DomainHandle> const& domain);
  /// It was not lent.
  void put_back(std::uint32_t place) noexcept { free(place); }
  [[nodiscard]] Entry& at(std::uint32_t place) noexcept { return entries_[place]; }
  /// What the place holds is lent from here on.
  [[nodiscard]] PeerLoanId begin(std::uint32_t place, ScopeRecord& scope) noexcept;
  /// Null once it is over.
  [[nodiscard]] Entry* find(PeerLoanId id) noexcept;
  /// The device says that the peer returned the key.
  void end_returned(std::uint32_t key) noexcept;
  /// The device confirmed the invalidation.
  void end_recalled(Entry& entry) noexcept {
    observe::count(counts_.recalled);
    end(entry);
  }

  /// The queue pair is gone: all loans are over. Its windows go, too.
  void end_all() noexcept;
  /// The device kept the queue pair: no loan ends any more. The scopes forget them.
  void keep_all() noexcept;

  template <class Visit>
  void for_each_of(ScopeRecord const& scope, Visit visit) {
    for (Entry& entry : entries_)
      if (entry.scope == &scope) visit(entry);
  }

 private:
  // Of a window's key the program changes these from bind to bind. Source: ibv_inc_rkey().
  static constexpr std::uint32_t changing_bits = 0xff;

  void end(Entry& entry) noexcept;
  void end_loan_of(Entry& entry) noexcept;
  void free(std::uint32_t place) noexcept;

  PeerLoanMetrics uncounted_{};
  PeerLoanMetrics& counts_;
  std::deque<Entry> entries_{};                                // which stay where they are
  std::unordered_map<std::uint32_t, std::uint32_t> places_{};  // by what stays of the key
  std::uint32_t first_free_ = 0;                               // place + 1
  ScopeRecord kept_{};
  PeerLoans* next_leaked_ = nullptr;
};

}  // namespace lend::channel
