// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens to the set, to its pool and to the messages of that.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "soft/programs/run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

namespace {

constexpr std::uint64_t tag_of_pool = 77;

}  // namespace

void Run::make_pool() {
  model_.regions.emplace_back(must(domain_->allocate(pieces_of_pool * piece_bytes)));
  auto& memory = *model_.regions.back();
  pool_ = must(ReceivePool::create(*set_, memory.chunks(piece_bytes), {.tag = tag_of_pool}));
  model_.pool.emplace(model_.spy(), [this](std::uint32_t queue_pair) {
    auto const end = std::ranges::find(model_.ends, queue_pair, &End::queue_pair);
    return end == model_.ends.end() || end->is_gone;
  });
}

void Run::take_message() {
  if (!pool_) return;
  auto message = pool_->next();
  tell(message ? "take a message of " + std::to_string(message->bytes().size()) + " bytes"
               : "no message");
  auto wrong = model_.pool->take(message, [this](std::uint32_t queue_pair) {
    auto const end = std::ranges::find(model_.ends, queue_pair, &End::queue_pair);
    return static_cast<std::uint64_t>(end - model_.ends.begin());
  });
  if (!wrong.empty()) model_.complain(std::move(wrong));
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
  if (model_.pool->posted() > 0) model_.complain("a pool is gone and its receives in progress");
  for (auto const& end : model_.ends)
    if (!end.is_gone && end.channel->first_cause() == nullptr)
      model_.complain("a channel works whose pool is gone");
}

void Run::poll_set() {
  if (!set_) return;
  auto const in_progress = [this](std::size_t end) {
    return std::ranges::count_if(model_.posts, [&](Posted const& post) {
      return post.end == end && model_.is_in_progress(post);
    });
  };
  std::vector<std::ptrdiff_t> before;
  for (std::size_t end = 0; end < model_.ends.size(); ++end) before.push_back(in_progress(end));
  auto const polls_failed = model_.spy().polls_failed;
  auto const arrived = model_.pool ? model_.pool->expected() : 0;

  std::array<Ready, 4> room;
  auto const ready = set_->poll(room);
  if (!ready.has_value()) {
    tell("poll the set: " + std::string{name_of(ready.error().code())});
    if (model_.spy().polls_failed == polls_failed) model_.complain("a set fails for no reason");
    return;
  }
  tell("poll the set: " + std::to_string(ready.value().size()) + " have news");
  for (std::size_t end = 0; end < model_.ends.size(); ++end) {
    auto const times = std::ranges::count_if(ready.value(), [&](Ready const& news) {
      return news.tag == end && news.what != Ready::What::device;
    });
    if (times > 1) model_.complain("a set names a channel twice");
    if (times > 0 && model_.ends[end].is_gone)
      model_.complain("a set names a channel that is gone");
    if (times == 0 && in_progress(end) < before[end])
      model_.complain("a set does not name a channel whose work it has seen end");
  }
  if (!pool_) return;
  bool const is_named = std::ranges::any_of(ready.value(), [](Ready const& news) {
    return news.tag == tag_of_pool && news.what == Ready::What::message;
  });
  if (model_.pool->expected() > arrived && !is_named)
    model_.complain("a set does not name a pool to which messages came");
  if (model_.spy().polls_failed != polls_failed) return;
  for (auto const& bytes : model_.pool->waiting())
    if (!model_.is_lent_by_work({2, bytes}))
      model_.complain("a piece that nobody else has is not posted again");
}

}  // namespace lend::test
