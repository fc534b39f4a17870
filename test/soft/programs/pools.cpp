// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens to the pool of a set and to its messages.
#include <algorithm>
#include <utility>

#include "soft/programs/run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

void Run::make_pool() {
  model_.regions.emplace_back(must(domain_->allocate(pieces_of_pool * piece_bytes)));
  auto& memory = *model_.regions.back();
  pool_ = must(ReceivePool::create(*set_, memory.chunks(piece_bytes),
                                   {.low_mark = program_.low_mark, .tag = tag_of_pool}));
  model_.pool.emplace(spy_, program_.low_mark, [this](std::uint32_t queue_pair) {
    auto const end = std::ranges::find(model_.ends, queue_pair, &End::queue_pair);
    return end == model_.ends.end() || end->is_gone;
  });
}

void Run::take_message() {
  if (!pool_) return;
  auto message = pool_->next();
  tell(message ? "take a message of " + std::to_string(message->bytes().size()) + " bytes"
               : "no message");
  if (pool_->posted() != model_.pool->posted())
    complain("a pool miscounts the pieces that are posted");
  auto wrong = model_.pool->take(message, [this](std::uint32_t queue_pair) {
    auto const end = std::ranges::find(model_.ends, queue_pair, &End::queue_pair);
    return static_cast<std::uint64_t>(end - model_.ends.begin());
  });
  if (!wrong.empty()) complain(std::move(wrong));
  if (message) messages_.push_back(std::move(*message));
}

void Run::drop_message(std::size_t number) {
  if (messages_.empty()) return;
  auto const index = number % messages_.size();
  tell("drop message " + std::to_string(index));
  model_.pool->drop(index);
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Run::destroy_pool() {
  if (!pool_) return;
  tell("destroy the pool");
  pool_.reset();
  model_.pool->end();
  if (model_.pool->posted() > 0) complain("a pool is gone and its receives in progress");
  for (auto const& end : model_.ends)
    if (!end.is_gone && end.channel->first_cause() == nullptr)
      complain("a channel works whose pool is gone");
}

}  // namespace lend::test
