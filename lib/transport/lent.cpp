// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <lend/transport/lending.hpp>
#include <transport/lent.hpp>
#include <verbs/memory/region_state.hpp>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace lend {

Result<bool> LentMessage::is_over() const noexcept {
  if (!lent_) return Error{Errc::invalid_argument, "nothing was lent: there was no room"};
  if (lent_->failure) return *lent_->failure;
  return lent_->is_over;
}

namespace transport {

namespace {

[[gnu::cold]] Error other_length(std::size_t target, std::size_t message) noexcept {
  try {
    return {Errc::invalid_argument, "a target of " + std::to_string(target) +
                                        " bytes for a message of " + std::to_string(message) +
                                        ": it must have as many"};
  } catch (std::bad_alloc const&) {
    return Errc::invalid_argument;
  }
}

}  // namespace

Result<void> check_target(Received const& message, ScatterElement const& target) noexcept {
  if (!message || message.is_end())
    return Error{Errc::invalid_argument, "there is no message to read"};
  if (target.range.length != message.length())
    return other_length(target.range.length, message.length());
  return success();
}

Result<bool> copy_message(Received const& message, ScatterElement const& target) noexcept {
  LEND_TRYV(check_target(message, target));
  LEND_TRY(to, verbs::touch(target.region, target.range, base::LoanKind::exclusive));
  std::ranges::copy(message.bytes(), to);
  return true;
}

// ---- of this end ----

Result<std::shared_ptr<Lent>> Lent::make(GatherElement const& bytes, SourceLine where) {
  auto lent = std::make_shared<Lent>();
  auto& region = *bytes.region;
  LEND_TRYV(verbs::begin_loan(lent->loan.loan, region, bytes.range, base::LoanKind::shared,
                              Operation::lend, where));
  lent->loan.region = &region;
  if (permits(region.exposed_for, RemoteAccess::read)) {
    lent->remote = {reinterpret_cast<std::uintptr_t>(region.address + bytes.range.offset),
                    bytes.range.length, region.remote_key, RemoteAccess::read};
  } else {
    LEND_TRY(exposure, verbs::expose(region, bytes.range, RemoteAccess::read));
    lent->exposure.emplace(std::move(exposure));
    lent->remote = lent->exposure->remote();
  }
  return lent;
}

Result<void> Lent::end() noexcept {
  is_over = true;
  auto ended = exposure ? exposure->finish() : Result<void>{success()};
  verbs::end_loan(loan);
  return ended;
}

std::uint32_t LentMessages::count() const noexcept {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(places_, [](auto const& lent) { return lent != nullptr; }));
}

std::optional<std::uint32_t> LentMessages::free_place() const noexcept {
  auto const free = std::ranges::find(places_, nullptr);
  if (free == places_.end()) return std::nullopt;
  return static_cast<std::uint32_t>(free - places_.begin());
}

bool LentMessages::end(std::uint32_t places) noexcept {
  for (std::uint32_t place = 0; place < lent_max; ++place)
    if ((places >> place & 1u) != 0 && !places_[place]) return false;
  for (std::uint32_t place = 0; place < lent_max; ++place) {
    if ((places >> place & 1u) == 0) continue;
    auto const lent = std::exchange(places_[place], nullptr);
    if (auto ended = lent->end(); !ended) lent->failure = std::move(ended).error();
  }
  return true;
}

void LentMessages::end_all(Error const& cause) noexcept {
  for (auto& place : places_) {
    auto const lent = std::exchange(place, nullptr);
    if (!lent) continue;
    auto ended = lent->end();
    lent->failure = ended ? cause : std::move(ended).error();
  }
}

// ---- of the peer ----

void store_note(std::span<std::byte> note, RemoteRegion const& bytes,
                std::uint32_t place) noexcept {
  auto const region = bytes.encode();
  auto const rest = std::ranges::copy(region, note.begin()).out;
  std::fill(rest, note.end(), std::byte{0});
  *rest = std::byte(place);
}

char const* Fetches::take(Line::Message const& message) noexcept {
  if (bytes_max_ == 0) return "the peer lent a message, and this end takes none";
  // The peer of a ring can write there meanwhile: what is checked is a copy.
  std::array<std::byte, lent_note_bytes> note{};
  std::ranges::copy(message.bytes, note.begin());
  auto const bytes = RemoteRegion::decode(std::span{note}.first<RemoteRegion::encoded_size>());
  auto const rest = std::span{note}.subspan<RemoteRegion::encoded_size>();
  auto const place = std::to_integer<std::uint32_t>(rest[0]);
  bool const is_note =
      bytes && bytes.value().size() > 0 && permits(bytes.value().access(), RemoteAccess::read) &&
      place < lent_max &&
      std::ranges::all_of(rest.subspan(1), [](auto b) { return b == std::byte{}; });
  if (!is_note) return "the peer lent bytes that no one can read";
  if (places_[place] || (untold_ >> place & 1u) != 0)
    return "the peer lent a message in place of one that is not over";
  if (bytes.value().size() > bytes_max_) return "the peer lent a message longer than the largest";
  places_[place].emplace(Fetch{.bytes = bytes.value(), .slot = message.slot});
  ++count_;
  return nullptr;
}

std::optional<std::uint32_t> Fetches::find(std::uint32_t slot) const noexcept {
  if (count_ == 0) return std::nullopt;
  for (std::uint32_t place = 0; place < lent_max; ++place)
    if (auto const& one = places_[place]; one && one->slot == slot && !one->is_dropped)
      return place;
  return std::nullopt;
}

Result<bool> Fetches::read(std::uint32_t place, ScatterElement const& target,
                           SourceLine where) noexcept {
  Fetch& one = *places_[place];
  bool const is_begun = one.target.region != nullptr;
  if (is_begun && (one.target.region != target.region || one.target.range != target.range))
    return Error{Errc::invalid_argument, "this message is being read to other bytes: go on there"};
  if (one.is_reading) {
    LEND_TRY(is_over, reads_->is_over(place));
    if (!is_over) return false;
    one.is_reading = false;
  }
  if (one.asked == one.bytes.size()) return end(place), true;
  LEND_TRY(bytes, reads_->begin(place, target, one.bytes, one.asked, where));
  one.target = target;
  one.asked += bytes;
  one.is_reading = true;
  return false;
}

void Fetches::drop(std::uint32_t slot) noexcept {
  auto const place = find(slot);
  if (!place) return;
  Fetch& one = *places_[*place];
  if (!one.is_reading) return end(*place);
  one.is_dropped = true;
  end_read(*place);  // which may have ended before: no news of it comes
}

void Fetches::end_dropped() noexcept {
  if (count_ == 0) return;
  for (std::uint32_t place = 0; place < lent_max; ++place)
    if (places_[place] && places_[place]->is_dropped) end_read(place);
}

void Fetches::end_read(std::uint32_t place) noexcept {
  auto const is_over = reads_->is_over(place);
  if (is_over && is_over.value()) end(place);
}

std::uint32_t Fetches::owed() const noexcept {
  auto const dropped =
      std::ranges::count_if(places_, [](auto const& one) { return one && one->is_dropped; });
  return static_cast<std::uint32_t>(dropped) + static_cast<std::uint32_t>(std::popcount(untold_));
}

void Fetches::end(std::uint32_t place) noexcept {
  places_[place].reset();
  --count_;
  untold_ |= 1u << place;
}

}  // namespace transport
}  // namespace lend
