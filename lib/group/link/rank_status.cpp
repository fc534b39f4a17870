// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/link/rank_status.hpp>
#include <verbs/memory/apart_memory.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace lend::group {

namespace {

using Words = RankStatus::Words;

/// Of each word in the checksum. They are odd, so that one word that differs always shows.
constexpr Words factors = [] {
  Words odd{};
  std::uint64_t factor = 0x9e3779b97f4a7c15;
  for (auto& each : odd) each = std::exchange(factor, factor + 0xd1b54a32d192ed02);
  return odd;
}();

// What calls of one team at one place change.
constexpr std::size_t words_of_call =
    (offsetof(RankStatus, teams) + sizeof(RankStatus::Entered) - 1) / sizeof(std::uint64_t) + 1;

/// Of all words but the first. Zeros are no record.
std::uint64_t checksum_of(Words const& words) noexcept {
  std::uint64_t sum = 1;
  for (std::size_t i = 1; i < words.size(); ++i) sum += words[i] * factors[i];
  return sum;
}

/// One word, so that a device never reads a part of it.
///
/// A device of the same process reads as another thread would. That race is meant, and what it can
/// bring is found by the checksum; the sanitizer is not to see it.
[[gnu::no_sanitize_thread]] void store(std::byte* target, std::size_t index,
                                       std::uint64_t word) noexcept {
  reinterpret_cast<std::uint64_t volatile*>(target)[index] = word;
}

}  // namespace

std::optional<bool> RankStatus::has_entered(std::uint32_t id, std::uint32_t call) const noexcept {
  auto const it = std::ranges::find_if(
      teams, [id](Entered const& each) { return each.number != 0 && each.team == id; });
  if (it != teams.end()) return static_cast<std::int32_t>(it->number - call) >= 0;
  if (teams.back().number != 0) return {};  // there may have been more
  return false;
}

std::optional<RankStatus::Awaited> RankStatus::awaited_in(std::uint32_t id,
                                                          std::uint32_t call) const noexcept {
  if (state != State::in_call || team != id || number != call || awaited < 2) return {};
  return Awaited{awaited / 2 - 1, awaited % 2 != 0};
}

std::string RankStatus::text() const {
  if (state == State::broken) return "has broken the group";
  if (number == 0) return "has made no call";
  auto const* const end = std::ranges::find(file, '\0');
  auto call = text_of(collective, call_bytes) + " " + std::to_string(number);
  if (team_size != 0) call += " of a team of " + std::to_string(team_size);
  call += " (" + std::string{file.data(), static_cast<std::size_t>(end - file.data())} + ":" +
          std::to_string(line) + ")";
  return state == State::in_call ? "is in " + call : "is in no call since " + call;
}

std::optional<RankStatus> RankStatus::from(std::span<std::byte const> bytes) noexcept {
  Words words;
  if (bytes.size() != sizeof words) return {};
  std::memcpy(words.data(), bytes.data(), sizeof words);
  if (words[0] != checksum_of(words)) return {};
  RankStatus record;
  std::memcpy(static_cast<void*>(&record), words.data(), sizeof record);
  return record;
}

Result<OwnStatus> OwnStatus::create(ProtectionDomain const& domain, std::size_t room_bytes) {
  LEND_TRY(memory, verbs::ApartMemory::allocate(domain, sizeof(RankStatus) + room_bytes,
                                                RemoteAccess::read));
  LEND_TRY(bytes, memory.mutable_bytes());
  return OwnStatus{std::move(memory), bytes.data()};
}

OwnStatus::OwnStatus(MemoryRegion memory, std::byte* place) noexcept
    : memory_{std::move(memory)}, place_{place} {
  published_[0] = checksum_of(published_);  // of a record that says nothing yet
  for (std::size_t i = 0; i < published_.size(); ++i) store(place_, i, published_[i]);
}

template <std::size_t... indexes>
inline void OwnStatus::publish_words() noexcept {
  published_[0] += (publish_word(indexes) + ...);
  store(place_, 0, published_[0]);
}

inline std::uint64_t OwnStatus::publish_word(std::size_t index) noexcept {
  std::uint64_t word;
  std::memcpy(&word, reinterpret_cast<std::byte const*>(&record_) + index * sizeof word,
              sizeof word);
  auto const change = word - std::exchange(published_[index], word);
  if (change != 0) store(place_, index, word);
  return change * factors[index];
}

bool OwnStatus::is_of(Membership const& team, Call const& call) const noexcept {
  return file_ == call.where.file && record_.line == call.where.line &&
         record_.collective == call.collective && record_.call_bytes == call.block_bytes &&
         record_.team == team.id && record_.teams.front().team == team.id && record_.awaited == 0 &&
         awaited_ == 0;
}

void OwnStatus::enter(Membership const& team, Call const& call) noexcept {
  if (is_of(team, call)) [[likely]] {
    record_.number = record_.teams.front().number = team.number;
    record_.state = RankStatus::State::in_call;
    publish_words<offsetof(RankStatus, number) / 8, offsetof(RankStatus, state) / 8,
                  (offsetof(RankStatus, teams) + offsetof(RankStatus::Entered, number)) / 8>();
    return;
  }
  record_.team = team.id;
  record_.number = team.number;
  record_.call_bytes = call.block_bytes;
  record_.line = call.where.line;
  record_.team_size =
      team.is_whole
          ? std::uint16_t{0}
          : static_cast<std::uint16_t>(std::min<std::uint32_t>(team.ranks.size, UINT16_MAX));
  record_.collective = call.collective;
  record_.state = RankStatus::State::in_call;
  record_.awaited = awaited_ = 0;
  auto changed = words_of_call;
  if (std::exchange(file_, call.where.file) != call.where.file) {
    changed = published_.size();
    std::string_view file{file_};
    file.remove_prefix(file.size() - std::min(file.size(), record_.file.size()));
    auto const rest = std::ranges::copy(file, record_.file.begin()).out;
    std::fill(rest, record_.file.end(), '\0');
  }

  auto& teams = record_.teams;
  if (teams.front().team != team.id) {
    changed = published_.size();
    auto place = std::ranges::find(teams, team.id, &RankStatus::Entered::team);
    if (place == teams.end()) --place;  // that was used longest ago
    std::rotate(teams.begin(), place, place + 1);
  }
  teams.front() = {team.id, team.number};
  publish(changed);
}

void OwnStatus::leave() noexcept {
  record_.state = RankStatus::State::idle;
  publish_words<offsetof(RankStatus, state) / 8>();
}

void OwnStatus::set(RankStatus::State state) noexcept {
  record_.state = state;
  publish(words_of_call);
}

void OwnStatus::set_awaited(std::uint32_t rank) noexcept {
  auto const awaited = 2 * rank + 2;
  if (std::exchange(awaited_, awaited) != awaited) tell_awaited(awaited);
}

void OwnStatus::set_missing(std::span<std::uint32_t const> ranks) noexcept {
  tell_awaited(ranks.empty() ? awaited_ : 2 * ranks.front() + 3);
}

void OwnStatus::tell_awaited(std::uint32_t awaited) noexcept {
  if (std::exchange(record_.awaited, awaited) != awaited) publish(words_of_call);
}

void OwnStatus::publish(std::size_t end) noexcept {
  std::uint64_t sum = published_[0];
  for (std::size_t i = 1; i < end; ++i) sum += publish_word(i);
  published_[0] = sum;
  store(place_, 0, sum);
}

}  // namespace lend::group
