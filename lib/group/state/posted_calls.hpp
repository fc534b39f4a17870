// SPDX-License-Identifier: MIT OR Apache-2.0
// The collectives that scopes have posted and that are not over, in their order, or one that
// blocks; with what each was lent. The thread of the group.
#pragma once

#include <group/values/call.hpp>
#include <group/values/uneven_parts.hpp>
#include <lend/base/result.hpp>
#include <lend/group/group_scope.hpp>
#include <lend/verbs/memory_piece.hpp>
#include <verbs/memory/loan_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace lend::group {

struct PostedCall {
  /// For AddressSanitizer, while lend itself touches the values: else they are poisoned.
  class Touch {
   public:
    explicit Touch(PostedCall const& posted) noexcept : piece_{posted.out} {
      if (is_poisoned()) verbs::unpoison(*piece_.region, piece_.loan.range());
    }
    Touch(Touch const&) = delete;
    Touch& operator=(Touch const&) = delete;
    ~Touch() {
      if (is_poisoned()) verbs::poison(*piece_.region, piece_.loan.range());
    }

   private:
    [[nodiscard]] bool is_poisoned() const noexcept {
      return piece_.loan.on_loan() && piece_.loan.kind() == base::LoanKind::exclusive;
    }

    verbs::LentPiece const& piece_;
  };

  Membership* team = nullptr;
  Call call{};
  verbs::LentPiece in{}, out{};
  alignas(16) std::array<std::byte, 32> op{};  // IsKeptReduction
  OwnCounts counts{};                          // of uneven parts
};

/// Bytes of a call that a device may still access.
struct KeptBytes {
  bool in = false, out = false;
};

class PostedCalls {
 public:
  /// Counts all that were added, from 1.
  using Id = std::uint64_t;

  PostedCalls() = default;
  PostedCalls(PostedCalls const&) = delete;
  PostedCalls& operator=(PostedCalls const&) = delete;
  ~PostedCalls() { fail(); }

  [[nodiscard]] bool is_empty() const noexcept { return has_failed_ || added_ == ended_; }
  /// Whose turn it is.
  /// Shape:   not empty.
  [[nodiscard]] PostedCall& front() noexcept { return at(ended_ + 1); }
  /// Whether it has ended with success.
  [[nodiscard]] bool has_ended(Id id) const noexcept { return id <= ended_; }
  /// Whether it was the first that did not.
  [[nodiscard]] bool is_first_failed(Id id) const noexcept { return id == ended_ + 1; }

  /// Lends what the call names, and keeps it with a copy of its operation. `do_links_write`: their
  /// devices may write to `out`.
  /// Errors:  already_borrowed, queue_full, exhausted; nothing was lent.
  [[nodiscard]] Result<Id> add(Membership& team, Call const& call, GatherElement const& in,
                               ScatterElement const& out, bool do_links_write) noexcept;
  /// The first has ended with success.
  void end_front() noexcept;
  /// No more will end: gives all bytes back, but for those of the first that a device keeps.
  /// Nothing is added any more.
  void fail(KeptBytes kept = {}) noexcept;
  /// Whether a device keeps bytes for good.
  [[nodiscard]] bool keeps_bytes() const noexcept { return keeps_bytes_; }

 private:
  using Ring = std::array<PostedCall, GroupScope::posted_max>;

  /// Errors:  exhausted, queue_full.
  [[nodiscard]] Result<void> make_room() noexcept;
  [[nodiscard]] PostedCall& at(Id id) noexcept { return (*calls_)[id % GroupScope::posted_max]; }

  std::unique_ptr<Ring> calls_{};  // from the first one
  Id added_ = 0, ended_ = 0;
  bool has_failed_ = false;
  bool keeps_bytes_ = false;
};

}  // namespace lend::group
