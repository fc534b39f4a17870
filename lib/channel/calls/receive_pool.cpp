// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the set.
#include <channel/state/pool_state.hpp>
#include <lend/base/stop.hpp>
#include <lend/channel/receive_pool.hpp>

#include <utility>

namespace lend {

using channel::PoolState;

Message::Message(Message&& other) noexcept
    : pool_{std::exchange(other.pool_, nullptr)},
      piece_{other.piece_},
      tag_{other.tag_},
      element_{other.element_},
      bytes_{std::exchange(other.bytes_, {})},
      immediate_{other.immediate_} {}

Message& Message::operator=(Message&& other) noexcept {
  Message old{std::move(other)};
  std::swap(pool_, old.pool_);
  std::swap(piece_, old.piece_);
  std::swap(tag_, old.tag_);
  std::swap(element_, old.element_);
  std::swap(bytes_, old.bytes_);
  std::swap(immediate_, old.immediate_);
  return *this;
}

Result<ReceivePool> ReceivePool::create(WaitSet& set, Chunks<MemoryPiece> const& pieces,
                                        ReceivePoolOptions const& options, SourceLine where) {
  LEND_TRY(state, PoolState::create(set.state().shared_from_this(), pieces, options, where));
  return ReceivePool{state};
}

ReceivePool& ReceivePool::operator=(ReceivePool&& other) noexcept {
  ReceivePool old{std::move(other)};
  std::swap(state_, old.state_);
  return *this;
}

ReceivePool::~ReceivePool() {
  if (state_ != nullptr) PoolState::end(state_);
}

PoolState& ReceivePool::state() const noexcept {
  if (state_ == nullptr) [[unlikely]]
    stop("a ReceivePool was used after it had been moved from");
  return *state_;
}

std::uint32_t ReceivePool::posted() const noexcept {
  return state().posted();
}

ibv_srq* ReceivePool::native() const noexcept {
  return state().queue().native();
}

}  // namespace lend
