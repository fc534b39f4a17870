// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the set.
#include <flow/greetings.hpp>
#include <lend/base/stop.hpp>
#include <lend/transport/message_pool.hpp>
#include <transport/pool_share.hpp>
#include <transport/shared_buffers.hpp>

#include <algorithm>
#include <new>
#include <numeric>
#include <string>
#include <utility>

namespace lend {

using transport::Buffers, transport::PoolShare, transport::SharedBuffers;

namespace {

/// A credit word and the finish.
constexpr std::uint32_t words_of_transport = 2;
constexpr std::uint32_t transports_at_most = 1u << 20;

Error refused(std::string const& why) {
  return {Errc::invalid_argument, "the MessagePool was refused: " + why};
}

Result<void> check(MessagePoolOptions const& options) {
  if (options.message_bytes_max == 0 || options.message_bytes_max > transport::word_length_max)
    return refused("messages of " + std::to_string(options.message_bytes_max) +
                   " bytes; choose 1 to " + std::to_string(transport::word_length_max));
  for (auto const& [name, count] :
       {std::pair{"transports_max", options.transports_max}, std::pair{"shared", options.shared},
        std::pair{"drafts", options.drafts}})
    if (count == 0 || count > transports_at_most)
      return refused(std::string{name} + " is " + std::to_string(count) + "; choose 1 to " +
                     std::to_string(transports_at_most));
  return success();
}

}  // namespace

// ---- what all share ----

SharedBuffers::SharedBuffers(MessagePoolOptions const& options, std::uint32_t words_each,
                             Buffers receives, ReceivePool pool, Buffers drafts, Buffers words)
    : options_{options},
      words_each_{words_each},
      receives_{std::move(receives)},
      pool_{std::move(pool)},
      drafts_{std::move(drafts)},
      words_{std::move(words)},
      shared_{options.shared},
      numbers_(options.transports_max),
      free_drafts_(options.drafts) {
  sending_.reserve(options.transports_max);
  waiting_.reserve(options.transports_max);
  // The lowest is taken first.
  std::iota(numbers_.rbegin(), numbers_.rend(), 0u);
  std::iota(free_drafts_.rbegin(), free_drafts_.rend(), 0u);
  count_transports();
  count_receives();
  count_drafts();
}

Result<std::shared_ptr<SharedBuffers>> SharedBuffers::create(WaitSet& set,
                                                             ProtectionDomain const& domain,
                                                             MessagePoolOptions const& options) {
  LEND_TRYV(check(options));
  auto const words_each =
      words_of_transport + (domain.context().attributes().is_iwarp ? flow::greetings_max : 0u);
  auto const count = options.transports_max * (1 + words_each) + options.shared;
  LEND_TRY(receives, Buffers::allocate(domain, count, options.message_bytes_max));
  LEND_TRY(drafts, Buffers::allocate(domain, options.drafts, options.message_bytes_max));
  LEND_TRY(words, Buffers::allocate(domain, options.transports_max * words_each, 0));
  LEND_TRY(pool, ReceivePool::create(set, receives.pieces()));
  return std::shared_ptr<SharedBuffers>{new SharedBuffers{options, words_each, std::move(receives),
                                                          std::move(pool), std::move(drafts),
                                                          std::move(words)}};
}

std::optional<std::uint32_t> SharedBuffers::admit() noexcept {
  if (numbers_.empty()) return std::nullopt;
  auto const number = numbers_.back();
  numbers_.pop_back();
  count_transports();
  return number;
}

void SharedBuffers::reclaim_drafts() noexcept {
  // From the last on: one that has sent all leaves the list.
  for (auto i = sending_.size(); free_drafts_.empty() && i-- > 0;) sending_[i]->give_back_sent();
}

std::optional<std::uint32_t> SharedBuffers::take_draft() noexcept {
  reclaim_drafts();
  if (free_drafts_.empty()) return std::nullopt;
  auto const draft = free_drafts_.back();
  free_drafts_.pop_back();
  count_drafts();
  return draft;
}

void SharedBuffers::wait(transport::PoolUser& user) noexcept {
  if (std::ranges::find(waiting_, &user) == waiting_.end()) waiting_.push_back(&user);
}

void SharedBuffers::wake_waiting() noexcept {
  // Each that finds nothing waits again.
  for (; !waiting_.empty(); waiting_.pop_back()) waiting_.back()->wake();
}

// ---- what one has ----

Result<std::shared_ptr<PoolShare>> PoolShare::open(MessagePool const& pool, std::uint32_t window) {
  auto share = std::make_shared<PoolShare>(pool.buffers(), window);
  if (!share->number_) {
    share->buffers().lack(observe::PoolPart::transports);
    return Error{Errc::exhausted,
                 "the MessagePool has its " +
                     std::to_string(share->buffers().options().transports_max) +
                     " transports: end one, or give the pool a larger transports_max"};
  }
  return share;
}

PoolShare::PoolShare(std::shared_ptr<SharedBuffers> buffers, std::uint32_t window)
    : buffers_{std::move(buffers)}, grants_{window}, arrived_(window + buffers_->words_each()) {
  held_.reserve(window + buffers_->words_each());
  number_ = buffers_->admit();
}

PoolShare::~PoolShare() {
  drop_unread();
  for (auto const piece : held_) pool_->give_back(piece);
  grants_.stop(buffers_->shared(), 0);
  buffers_->count_receives();
  if (draft) buffers_->give_back_draft(*draft);
  if (!number_) return;
  buffers_->leave(*number_);
  buffers_->wake_waiting();
}

void PoolShare::drop_unread() noexcept {
  for (; !arrived_.is_empty(); arrived_.pop()) pool_->give_back(arrived_.front().piece);
}

void PoolShare::stop_granting() noexcept {
  grants_.stop(buffers_->shared(), static_cast<std::uint32_t>(held_.size()));
  buffers_->count_receives();
  buffers_->wake_waiting();
}

std::uint32_t PoolShare::grant_at_release() noexcept {
  auto const more = grants_.release(buffers_->shared());
  buffers_->count_receives();
  if (buffers_->shared().free() > 0) buffers_->wake_waiting();
  return more;
}

bool PoolShare::take(std::uint32_t piece, std::uint32_t bytes) noexcept {
  if (arrived_.size() + held_.size() >= grants_.granted() + buffers_->words_each()) [[unlikely]] {
    is_overrun_ = true;
    return false;
  }
  arrived_.push() = {piece, bytes};
  return true;
}

std::optional<PoolShare::Came> PoolShare::next() noexcept {
  if (arrived_.is_empty()) return std::nullopt;
  auto const came = arrived_.front();
  arrived_.pop();
  held_.push_back(came.piece);
  return came;
}

void PoolShare::give_back(std::uint32_t piece) noexcept {
  auto const place = std::ranges::find(held_, piece);
  *place = held_.back();
  held_.pop_back();
  pool_->give_back(piece);
}

// ---- the public class ----

Result<MessagePool> MessagePool::create(WaitSet& set, ProtectionDomain const& domain,
                                        MessagePoolOptions const& options) try {
  LEND_TRY(buffers, SharedBuffers::create(set, domain, options));
  return MessagePool{std::move(buffers)};
} catch (std::bad_alloc const&) {
  return Errc::exhausted;
}

MessagePool::MessagePool(std::shared_ptr<SharedBuffers> buffers) noexcept
    : buffers_{std::move(buffers)} {}
MessagePool::MessagePool(MessagePool&&) noexcept = default;
MessagePool& MessagePool::operator=(MessagePool&&) noexcept = default;
MessagePool::~MessagePool() = default;

std::shared_ptr<SharedBuffers> const& MessagePool::buffers() const noexcept {
  if (buffers_ == nullptr) [[unlikely]]
    stop("a MessagePool was used after it had been moved from");
  return buffers_;
}
std::uint32_t MessagePool::message_bytes_max() const noexcept {
  return buffers()->options().message_bytes_max;
}
std::uint32_t MessagePool::transports() const noexcept {
  return buffers()->transports();
}
std::uint32_t MessagePool::shared_free() const noexcept {
  return buffers()->shared().free();
}
std::uint32_t MessagePool::drafts_free() const noexcept {
  return buffers()->free_drafts();
}

}  // namespace lend
