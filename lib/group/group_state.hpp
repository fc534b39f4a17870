// SPDX-License-Identifier: MIT OR Apache-2.0
// The links of a group and the collective under way. The thread of the group.
#pragma once

#include <group/link.hpp>
#include <group/schedule.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/group/prepared_group.hpp>
#include <lend/group/values.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::group {

/// A collective as one rank calls it.
struct Call {
  Collective collective{};
  std::uint32_t root = 0;
  std::span<std::byte const> in{};
  std::span<std::byte> out{};
  std::size_t block_bytes = 0;  // of one part of `in` or `out`
  Combining op{};
  SourceLine where{};

  /// The same at all ranks that agree.
  [[nodiscard]] std::uint32_t signature() const noexcept;
  /// Whether this call goes on with `other`.
  [[nodiscard]] bool goes_on_with(Call const& other) const noexcept;
};

class GroupState {
 public:
  [[nodiscard]] static Result<std::unique_ptr<GroupState>> prepare(ProtectionDomain const& domain,
                                                                   Ranks ranks,
                                                                   GroupOptions const& options);
  GroupState(WaitSet set, Ranks ranks, GroupOptions const& options);
  GroupState(GroupState const&) = delete;
  GroupState& operator=(GroupState const&) = delete;
  ~GroupState();

  [[nodiscard]] std::span<Endpoint const> endpoints() const noexcept { return endpoints_; }
  [[nodiscard]] Result<void> connect(std::span<Endpoint const> theirs);

  /// Not all ranks met: it ends without a word to the others.
  void abandon() noexcept { broken_ = Error{Errc::peer_lost}; }

  [[nodiscard]] Ranks ranks() const noexcept { return ranks_; }
  [[nodiscard]] GroupOptions const& options() const noexcept { return options_; }
  /// Begins a call, or goes on with the one under way, until it is over.
  [[nodiscard]] Result<void> run(Call const& call, Deadline deadline) noexcept;
  /// A call on one value, which is kept here meanwhile.
  [[nodiscard]] Result<void> run_on_value(Call call, std::span<std::byte> value,
                                          Deadline deadline) noexcept;
  [[nodiscard]] Error const* first_cause() const noexcept { return broken_ ? &*broken_ : nullptr; }

 private:
  [[nodiscard]] Result<void> begin(Call const& call) noexcept;
  void begin_piece() noexcept;
  void begin_round() noexcept;
  void end_piece() noexcept;
  /// As far as it goes without waiting. True once the call is over.
  [[nodiscard]] Result<bool> advance() noexcept;
  /// True once all steps of the round are done.
  [[nodiscard]] Result<bool> advance_round() noexcept;
  [[nodiscard]] Result<bool> send(Step const& step) noexcept;
  [[nodiscard]] Result<bool> receive(Step const& step) noexcept;
  void combine(Step::Kind kind, std::span<std::byte const> theirs) noexcept;
  /// This piece of a part.
  [[nodiscard]] std::span<std::byte const> piece_of(Step const& step) const noexcept;
  [[nodiscard]] std::span<std::byte> place_of(Step const& step) noexcept;

  [[nodiscard]] Result<void> wait(Deadline deadline) noexcept;
  [[nodiscard]] Result<void> take_news(std::span<Ready const> ready) noexcept;
  [[nodiscard]] Result<void> check_agreement(std::uint32_t rank) const noexcept;
  /// A rank that is needed and gone, or whose loss was found out.
  [[nodiscard]] Result<void> check_for_losses() const noexcept;
  /// The peer of the first step that is not done.
  [[nodiscard]] std::uint32_t awaited() const noexcept;
  [[nodiscard]] std::string what_is_under_way() const;

  WaitSet set_;
  Ranks ranks_;
  GroupOptions options_;
  std::vector<Endpoint> endpoints_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; null: this one
  std::vector<Ready> ready_;
  std::optional<Error> broken_{};

  // The call under way.
  bool is_under_way_ = false;
  Call call_{};
  std::uint64_t number_ = 0;
  std::uint32_t signature_ = 0;
  std::size_t piece_bytes_ = 0;
  std::uint32_t piece_ = 0, pieces_ = 0;
  std::uint16_t round_ = 0, rounds_ = 0;
  std::vector<Step> steps_{};
  std::vector<bool> is_done_{};
  std::vector<std::byte> accumulator_, theirs_;  // a piece each
  bool is_accumulating_ = false;                 // there is something in it
  alignas(64) std::array<std::byte, 64> value_{};
};

}  // namespace lend::group
