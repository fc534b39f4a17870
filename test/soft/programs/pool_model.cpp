// SPDX-License-Identifier: MIT OR Apache-2.0
// One program at a time, one thread.
#include "soft/programs/pool_model.hpp"

#include <channel/state/pool_state.hpp>

#include <algorithm>
#include <array>

namespace lend::test {

namespace {

ByteRange piece_range(std::size_t piece) noexcept {
  return {piece * piece_bytes, piece_bytes};
}

}  // namespace

std::size_t PoolModel::piece_of(std::size_t work) const {
  return spy_.pooled()[work].id & (channel::PoolState::pieces_max - 1);
}

bool PoolModel::is_posted(std::size_t piece) const {
  for (std::size_t work = 0; work < spy_.pooled().size(); ++work)
    if (spy_.pooled()[work].is_in_progress() && piece_of(work) == piece) return true;
  return false;
}

std::uint32_t PoolModel::posted() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(spy_.pooled(), &Accepted::is_in_progress));
}

void PoolModel::note() {
  auto const& events = spy_.pool_events();
  // Posted again at once: it has failed, or its channel was gone. That is no message.
  std::array<bool, pieces_of_pool> is_on_its_way{};
  for (; noted_ < events.size(); ++noted_) {
    auto const [work, is_posting] = events[noted_];
    if (is_over_) continue;
    bool& comes_back = is_on_its_way[piece_of(work)];
    if (is_posting) {
      if (!std::exchange(comes_back, false) && ++posted_ >= low_mark_) is_low_ = false;
      continue;
    }
    comes_back = is_posted_after(noted_);
    auto const& receive = spy_.pooled()[work];
    if (!comes_back && --posted_ < low_mark_ && !std::exchange(is_low_, true)) owes_low_ = true;
    if (!receive.has_failed()) expected_.push_back({work, is_gone_(receive.queue_pair)});
  }
  std::erase_if(expected_, [this](Expected const& one) {
    return one.may_be_missing && is_posted(piece_of(one.work));
  });
}

bool PoolModel::is_posted_after(std::size_t event) const {
  auto const& events = spy_.pool_events();
  return std::ranges::any_of(events.begin() + static_cast<std::ptrdiff_t>(event), events.end(),
                             [&](PoolEvent const& later) {
                               return later.is_posting &&
                                      piece_of(later.work) == piece_of(events[event].work);
                             });
}

bool PoolModel::owes_low() {
  note();
  return owes_low_ && !is_over_;
}

std::size_t PoolModel::expected() {
  note();
  return expected_.size();
}

std::vector<PoolModel::Loan> PoolModel::loans() {
  note();
  std::vector<Loan> loans;
  if (is_over_) {
    for (auto const piece : held_) loans.push_back({piece_range(piece), false});
    return loans;
  }
  for (std::size_t piece = 0; piece < pieces_of_pool; ++piece) {
    bool const has_message = std::ranges::any_of(
        expected_, [&](Expected const& one) { return piece_of(one.work) == piece; });
    loans.push_back({piece_range(piece), has_message || is_posted(piece)});
  }
  return loans;
}

std::vector<ByteRange> PoolModel::waiting() {
  std::vector<ByteRange> waiting;
  if (is_over_) return waiting;
  auto const all = loans();
  for (std::size_t piece = 0; piece < all.size(); ++piece)
    if (!all[piece].is_exclusive && std::ranges::find(held_, piece) == held_.end())
      waiting.push_back(all[piece].bytes);
  return waiting;
}

std::string PoolModel::take(std::optional<Message> const& message,
                            std::function<std::uint64_t(std::uint32_t)> const& tag_of) {
  note();
  if (!message) return expected_.empty() ? "" : "a message that has arrived is not given";
  if (expected_.empty()) return "a message is given that did not arrive, or twice";
  auto const work = expected_.front().work;
  expected_.pop_front();
  Accepted const& seen = spy_.pooled()[work];
  held_.push_back(piece_of(work));
  auto const& bytes = message->bytes();
  if (message->tag() != tag_of(seen.queue_pair)) return "a message has another channel's tag";
  if (bytes.size() != seen.bytes_received || message->immediate() != seen.immediate)
    return "a message has the length or the immediate of another";
  auto const* const begin = reinterpret_cast<std::byte const*>(seen.pieces.front().address);
  if (!bytes.empty() && bytes.data() != begin) return "a message has another piece's bytes";
  return {};
}

}  // namespace lend::test
