// SPDX-License-Identifier: MIT OR Apache-2.0
// Each end one thread at a time.
#include <transport/memory_line.hpp>

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend::transport {

namespace {

Error lost() noexcept {
  return {Errc::peer_lost, "the connection ended before the peer had finished"};
}

}  // namespace

Result<std::shared_ptr<MemoryWire>> MemoryWire::make(MemoryFaults const& faults,
                                                     std::uint32_t receives,
                                                     std::uint32_t message_bytes) {
  auto wire = std::make_shared<MemoryWire>();
  wire->faults = faults;
  wire->message_bytes = message_bytes;
  for (Side& side : wire->sides) {
    side.buffers.resize(std::size_t{receives} * message_bytes);
    for (std::uint32_t slot = 0; slot < receives; ++slot) side.posted.push_back(slot);
    side.words.resize(receives);
    side.event = base::UniqueFd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!side.event) return Error::from_errno("eventfd", errno);
  }
  return wire;
}

void MemoryWire::wake(Side& side) const noexcept {
  side.has_news = true;
  if (std::exchange(side.is_armed, false) && !faults.is_silent)
    static_cast<void>(::eventfd_write(side.event.get(), 1));
}

MemoryLine::MemoryLine(std::shared_ptr<MemoryWire> wire, std::size_t side)
    : wire_{std::move(wire)},
      own_{wire_->sides[side]},
      peers_{wire_->sides[1 - side]},
      is_first_{side == 0},
      draft_(wire_->message_bytes) {}

Result<std::optional<Line::Arrival>> MemoryLine::next() noexcept {
  std::lock_guard const lock{wire_->mutex};
  if (has_died_) return lost();
  if (own_.is_closed) return Error{Errc::channel_broken, "the connection was ended"};
  if (own_.count == 0) {
    if (peers_.is_closed) return lost();
    return std::optional<Arrival>{};
  }
  auto& word = own_.words[own_.first];
  if (word.late_polls > 0) {
    --word.late_polls;
    return std::optional<Arrival>{};
  }
  own_.first = (own_.first + 1) % own_.words.size();
  --own_.count;
  return std::optional{Arrival{.bits = word.bits, .slot = word.slot, .length = word.length}};
}

Line::Message MemoryLine::message(Arrival const& arrival, std::uint32_t /*cell*/) noexcept {
  auto const at = std::size_t{arrival.slot} * wire_->message_bytes;
  return {.slot = arrival.slot, .bytes = std::span{own_.buffers}.subspan(at, arrival.length)};
}

void MemoryLine::post_again(std::uint32_t slot) noexcept {
  std::lock_guard const lock{wire_->mutex};
  own_.posted.push_back(slot);
}

std::optional<std::span<std::byte>> MemoryLine::room(std::size_t /*least*/, std::size_t most,
                                                     std::uint32_t /*cell*/) noexcept {
  return std::span{draft_}.first(most);
}

Result<bool> MemoryLine::send(Word const& word, std::uint32_t /*cell*/) noexcept {
  ++words_sent_;
  auto const& faults = wire_->faults;
  if (is_first_ && words_sent_ == faults.dies_at_word) {
    has_died_ = true;
    close();
    return lost();
  }
  std::lock_guard const lock{wire_->mutex};
  if (own_.is_closed || peers_.is_closed) return lost();
  if (peers_.posted.empty())
    return Error{Errc::incompatible_peer, "a message found no receive: the credits are wrong"};
  std::uint32_t const slot = peers_.posted.back();
  peers_.posted.pop_back();
  std::copy_n(draft_.begin(), word.length,
              peers_.buffers.begin() +
                  static_cast<std::ptrdiff_t>(std::size_t{slot} * wire_->message_bytes));
  std::uint32_t bits = encode(word);
  if (is_first_ && words_sent_ == faults.flips_at_word) bits ^= 1u << faults.flipped_bit;
  peers_.words[(peers_.first + peers_.count++) % peers_.words.size()] = {bits, slot, word.length,
                                                                         faults.late_polls};
  wire_->wake(peers_);
  return true;
}

Result<bool> MemoryLine::poll() noexcept {
  std::lock_guard const lock{wire_->mutex};
  // What is late is looked at again.
  return std::exchange(own_.has_news, false) || own_.count > 0;
}

Result<bool> MemoryLine::arm() noexcept {
  std::lock_guard const lock{wire_->mutex};
  eventfd_t events = 0;
  static_cast<void>(::eventfd_read(own_.event.get(), &events));
  if (own_.has_news || own_.count > 0) return false;
  own_.is_armed = true;
  if (wire_->faults.wakes_for_nothing) static_cast<void>(::eventfd_write(own_.event.get(), 1));
  return true;
}

Deadline MemoryLine::look_again() const noexcept {
  return wire_->faults.is_silent ? within(std::chrono::milliseconds{1}) : Deadline::never();
}

void MemoryLine::close() noexcept {
  std::lock_guard const lock{wire_->mutex};
  if (std::exchange(own_.is_closed, true)) return;
  wire_->wake(peers_);
}

}  // namespace lend::transport
