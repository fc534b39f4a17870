// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <channel/work/access.hpp>
#include <channel/work/unheld.hpp>
#include <transport/channel_line.hpp>
#include <transport/end.hpp>
#include <transport/pool_share.hpp>
#include <verbs/memory/region_state.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lend::transport {

using namespace std::chrono_literals;
using channel::ChannelAccess;
using channel::HandleAccess;
using channel::SlotId;
using channel::WorkAnswer;

namespace {

constexpr std::uint64_t lent_read_max = std::uint64_t{1} << 30;  // of one request
constexpr auto keep_alive_usual = 1s;

ChannelOptions channel_options(TransportOptions const& options, std::uint32_t send_depth,
                               std::uint32_t receive_depth) {
  ChannelOptions of_channel;
  of_channel.wait = options.wait;
  of_channel.wait_set = options.wait_set;
  of_channel.tag = options.tag;
  of_channel.keep_alive = options.keep_alive;
  auto& of_queue_pair = of_channel.queue_pair;
  of_queue_pair.connection = options.connection;
  of_queue_pair.send_depth = send_depth;
  of_queue_pair.receive_depth = receive_depth;
  of_queue_pair.elements = 1;
  // Each send has its receive: a peer without one breaks the rules.
  of_queue_pair.receiver_not_ready_retries = 0;
  return of_channel;
}

}  // namespace

Result<PreparedReceives> PreparedReceives::prepare(ProtectionDomain const& domain,
                                                   TransportOptions const& options,
                                                   std::uint32_t sends, std::uint32_t receives) {
  auto of_channel = channel_options(options, sends + word_receives + lent_max, receives);
  LEND_TRY(channel, channel::Preparing::prepare(domain, of_channel, {}, keep_alive_usual));
  auto const wait =
      options.wait_set == nullptr ? options.wait : channel::SetAccess{*options.wait_set}.how();
  PreparedReceives prepared{{}, std::move(channel), wait};
  prepared.handles.reserve(receives);
  return prepared;
}

Result<PreparedReceives> PreparedReceives::prepare_in_pool(ProtectionDomain const& domain,
                                                           TransportOptions const& options,
                                                           std::uint32_t window) {
  LEND_TRY(share, PoolShare::open(*options.pool, window));
  auto& buffers = share->buffers();
  auto of_channel = channel_options(options, sends_in_pool + buffers.words_each(), 0);
  of_channel.receive_pool = &buffers.pool();
  LEND_TRY(channel, channel::Preparing::prepare(domain, of_channel, {}, keep_alive_usual));
  share->take_from(channel);
  return PreparedReceives{std::move(share), std::move(channel),
                          channel::SetAccess{*options.wait_set}.how()};
}

Result<void> PreparedReceives::post(Receive const& work) {
  LEND_TRY(handle, channel.post_receive(work));
  handles.push_back(std::move(handle));
  return success();
}

ChannelLine::ChannelLine(Channel channel, std::vector<PendingWork> receives, std::uint32_t messages,
                         std::uint32_t words)
    : channel_{std::move(channel)},
      inside_{*channel_},
      is_in_set_{inside_.state().progress.set() != nullptr},
      messages_max_{messages},
      receives_(receives.size()),
      posted_(receives.size()),
      words_(words) {
  for (std::uint32_t slot = 0; slot < receives.size(); ++slot) {
    receives_[slot] = HandleAccess::release(std::move(receives[slot]));
    posted_.push() = slot;
  }
  scope_.emplace(*channel_);
  scope_->drain_within(0s);  // its end waits for no program
  inside_.open(messages_);
}

void ChannelLine::close() noexcept {
  scope_.reset();
  channel_.reset();  // ends the receives that were posted before there was a scope, too
}

[[gnu::cold]] Error ChannelLine::ended() noexcept {
  return {Errc::channel_broken, "the connection was ended"};
}

// ---- receiving ----

Result<std::optional<ChannelLine::Came>> ChannelLine::take_receive() noexcept {
  if (!channel_) return ended();
  if (posted_.is_empty()) {
    // A peer that had filled every receive before the channel broke leaves none to fail.
    if (Error const* const cause = channel_->first_cause()) return loss(*cause);
    return std::optional<Came>{};
  }
  std::uint32_t const slot = posted_.front();
  Came came{.slot = slot};
  auto const found = inside_.take_receive(receives_[slot], came);
  if (found != ChannelAccess::Found::taken) [[unlikely]] {
    if (has_just_polled_ && found == ChannelAccess::Found::outstanding) {
      has_just_polled_ = false;
      return std::optional<Came>{};
    }
    auto const answer = inside_.ask_for(receives_[slot]);
    if (answer.state() == WorkAnswer::State::not_over) return std::optional<Came>{};
    if (!answer.has_succeeded()) {
      auto const error = inside_.take_last_error();
      take_sends();  // what arrived is to be known
      return loss(error);
    }
    auto const success = answer.success();
    came.bytes = success.bytes;
    came.immediate = success.immediate;
  }
  posted_.pop();
  return std::optional{came};
}

Result<void> ChannelLine::look() noexcept {
  if (!std::exchange(has_just_polled_, false)) inside_.poll();
  Error const* const cause = channel_->first_cause();
  if (cause == nullptr) return success();
  take_sends();  // what arrived is to be known
  return loss(*cause);
}

void ChannelLine::post_empty_receives(flow::EmptyReceives& empties, channel::ScopeRecord& scope,
                                      std::uint32_t count) noexcept {
  if (!channel_) return;
  // A place keeps its slot, because all are posted in turn.
  for (auto const& request : empties.post(state(), scope, count))
    receives_[posted_.push()] = SlotId{request.wr_id};
}

void ChannelLine::post_receive(std::uint32_t slot, Receive const& work) noexcept {
  if (!channel_) return;
  auto posted = scope_->try_post_receive(work);
  if (!posted) return;  // the channel is broken, as take_receive() will say
  receives_[slot] = HandleAccess::release(std::move(posted).value());
  posted_.push() = slot;
}

Error ChannelLine::loss(Error const& error) const noexcept {
  Error const* const cause = channel_->first_cause();
  Error const& first = cause != nullptr ? *cause : error;
  if (first == Errc::system_failed) return first;
  if (first.work() != nullptr && first.work()->status == WorkStatus::local_length)
    return Error{Errc::incompatible_peer, "the peer sent a message longer than the largest"}
        .with_cause(first);
  return Error{Errc::peer_lost,
               "the connection ended before the peer had finished: it died, or disconnected; "
               "cause() has how that was found out"}
      .with_cause(first);
}

// ---- sending ----

bool ChannelLine::finds_room_for(WordKind kind) noexcept {
  count_done();  // mostly they were seen while something else was asked for
  if (has_room_as_known(kind)) return true;
  take_sends();
  return has_room_as_known(kind);
}

Error ChannelLine::refusal() noexcept {
  return loss(inside_.take_last_error());
}

Result<bool> ChannelLine::note_word(Result<PendingWork> posted, bool is_awaited) noexcept {
  if (!posted) return loss(posted.error());
  auto& sent = words_.push();
  sent.handle.emplace(std::move(posted).value());
  sent.is_awaited = is_awaited;
  awaited_words_ += is_awaited;
  return true;
}

std::uint32_t ChannelLine::messages_in_flight() const noexcept {
  // A send that failed stays in flight: the peer has not got it.
  return static_cast<std::uint32_t>(channel::not_succeeded(messages_));
}

void ChannelLine::take_sends() noexcept {
  if (channel_ && messages_.outstanding > 0 && !has_just_polled_) inside_.poll();
  count_done();
  while (!words_.is_empty() && !has_failed_words_) {
    auto& oldest = words_.front();
    if (has_just_polled_ && !HandleAccess::is_worth_a_poll(*oldest.handle)) return;
    auto const done = oldest.handle->poll();
    if (!done) has_failed_words_ = true;
    if (!done || !done.value()) return;
    oldest.handle.reset();
    awaited_words_ -= oldest.is_awaited;
    words_.pop();
  }
}

// ---- lent messages ----

Result<void> ChannelLine::Reads::check(verbs::RegionState const& region) const noexcept {
  auto const& queue_pair = line_.inside_.queue_pair();
  if (region.domain != queue_pair.domain)
    return Error{Errc::invalid_argument,
                 "bytes of another ProtectionDomain cannot be lent by this transport"};
  if (queue_pair.terms.reads.as_target == 0)
    return Error{Errc::unsupported,
                 "the connection takes no READs of the peer, which reads what is lent: send the "
                 "bytes as messages"};
  return success();
}

Result<std::size_t> ChannelLine::Reads::begin(std::uint32_t place, ScatterElement to,
                                              RemoteRegion const& from, std::size_t offset,
                                              SourceLine where) noexcept {
  auto const most = std::min<std::uint64_t>(line_.channel_->message_bytes_max(), lent_read_max);
  auto const bytes = std::min<std::size_t>(from.size() - offset, most);
  auto posted = line_.scope_->try_post_read(
      Read{ScatterElement{to.region, {to.range.offset + offset, bytes}}, from.slice(offset, bytes)},
      where);
  if (!posted) {
    if (line_.channel_->first_cause() != nullptr) return line_.loss(posted.error());
    return posted.error();
  }
  works_[place].emplace(std::move(posted).value());
  return bytes;
}

Result<bool> ChannelLine::Reads::is_over(std::uint32_t place) noexcept {
  if (!line_.channel_) return ended();
  auto const over = works_[place]->poll();
  if (!over) return line_.loss(over.error());
  return over.value().has_value();
}

// ---- in an event loop ----

Result<bool> ChannelLine::poll() noexcept {
  if (!channel_) return false;
  LEND_TRY(has_news, is_in_set_ ? inside_.poll_in_set() : channel_->poll());
  has_just_polled_ = has_news;  // which has next() called until nothing more has come
  if (has_news) take_sends();
  return has_news;
}

Result<void> ChannelLine::check_alone() const noexcept {
  if (!is_in_set_) return success();
  return Error{Errc::invalid_argument,
               "this transport belongs to a WaitSet, which says for all its transports what has "
               "news, and has their descriptor: ask the set"};
}

Result<bool> ChannelLine::arm() noexcept {
  return channel_->arm();
}

Result<int> ChannelLine::descriptor() const noexcept {
  LEND_TRYV(check_alone());
  if (!channel_) return ended();
  return channel_->descriptor();
}

std::vector<Setting> ChannelLine::settings() const {
  return channel_ ? channel_->settings() : std::vector<Setting>{};
}

Deadline ChannelLine::look_again() const noexcept {
  return channel_ ? channel_->look_again() : Deadline::never();
}

}  // namespace lend::transport
