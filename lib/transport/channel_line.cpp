// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the transport.
#include <transport/channel_line.hpp>
#include <transport/end.hpp>

#include <chrono>
#include <utility>

namespace lend::transport {

using namespace std::chrono_literals;

Result<Buffers> Buffers::allocate(ProtectionDomain const& domain, std::uint32_t count,
                                  std::uint32_t message_bytes) {
  LEND_TRY(memory, domain.allocate(count * stride(message_bytes)));
  LEND_TRY(bytes, memory.mutable_bytes());
  return Buffers{std::move(memory), bytes.data(), count, message_bytes};
}

Result<PreparedLine> PreparedLine::prepare(ProtectionDomain const& domain, ChannelOptions options,
                                           std::uint32_t window, std::uint32_t message_bytes) {
  options.queue_pair.receive_depth = options.queue_pair.send_depth = window + word_receives;
  options.queue_pair.elements = 1;
  // Each send has its receive: a peer without one breaks the rules.
  options.queue_pair.receiver_not_ready_retries = 0;
  LEND_TRY(receives, Buffers::allocate(domain, window + word_receives, message_bytes));
  LEND_TRY(channel, prepare_channel(domain, options));
  PreparedLine line{std::move(receives), std::move(channel)};
  line.handles.reserve(line.receives.count());
  for (std::uint32_t slot = 0; slot < line.receives.count(); ++slot) {
    LEND_TRY(handle, line.channel.post_receive(line.receives.whole(slot)));
    line.handles.push_back(std::move(handle));
  }
  return line;
}

ChannelLine::ChannelLine(PreparedLine prepared, Channel channel, Buffers sends, Buffers words)
    : receives_{std::move(prepared.receives)},
      sends_{std::move(sends)},
      words_{std::move(words)},
      channel_{std::move(channel)},
      handles_(receives_.count()),
      posted_(receives_.count()),
      outstanding_{receives_.count()},
      sent_(sends_.count() + words_.count()) {
  for (std::uint32_t slot = 0; slot < outstanding_; ++slot) {
    handles_[slot].emplace(std::move(prepared.handles[slot]));
    posted_[slot] = slot;
  }
  scope_.emplace(*channel_);
  scope_->drain_within(0s);  // its end waits for no program
}

ChannelLine::~ChannelLine() {
  close();
}

void ChannelLine::close() noexcept {
  scope_.reset();
  channel_.reset();  // ends the receives that were posted before there was a scope, too
}

// ---- receiving ----

Result<std::optional<Line::Arrival>> ChannelLine::next() noexcept {
  if (!channel_) return Error{Errc::channel_broken, "the connection was ended"};
  if (outstanding_ == 0) {
    // A peer that had filled every receive before the channel broke leaves none to fail.
    if (Error const* const cause = channel_->first_cause()) return loss(*cause);
    return std::optional<Arrival>{};
  }
  std::uint32_t const slot = posted_[oldest_];
  auto done = handles_[slot]->poll();
  if (!done) {
    take_sends();  // what arrived is to be known
    return loss(done.error());
  }
  if (!done.value()) return std::optional<Arrival>{};
  oldest_ = oldest_ + 1 == posted_.size() ? 0 : oldest_ + 1;
  --outstanding_;
  auto const bytes = done.value()->bytes;
  if (bytes < word_bytes) return std::optional{Arrival{.bits = UINT32_MAX, .slot = slot}};
  auto const length = static_cast<std::size_t>(bytes - word_bytes);
  return std::optional{Arrival{.bits = load(receives_.word(slot)),
                               .slot = slot,
                               .bytes = {receives_.message(slot), length},
                               .where = receives_.message_of(slot, length)}};
}

void ChannelLine::post_again(std::uint32_t slot) noexcept {
  if (!channel_) return;
  auto posted = scope_->try_post_receive(receives_.whole(slot));
  if (!posted) return;  // the channel is broken, as next() will say
  handles_[slot].emplace(std::move(posted).value());
  auto const behind = oldest_ + outstanding_;
  posted_[behind < posted_.size() ? behind : behind - posted_.size()] = slot;
  ++outstanding_;
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

bool ChannelLine::has_slot(Buffers const& buffers, std::uint32_t const& busy) noexcept {
  if (busy == buffers.count()) take_sends();
  return busy < buffers.count();
}

std::span<std::byte> ChannelLine::room() noexcept {
  if (!channel_ || !has_slot(sends_, busy_sends_)) return {};
  return {sends_.message(next_send_), sends_.message_bytes()};
}

Result<bool> ChannelLine::send(Word const& word) noexcept {
  if (!channel_) return Error{Errc::channel_broken, "the connection was ended"};
  bool const is_word = word.kind != WordKind::data;
  auto& buffers = is_word ? words_ : sends_;
  auto& next = is_word ? next_word_ : next_send_;
  auto& busy = is_word ? busy_words_ : busy_sends_;
  if (!has_slot(buffers, busy)) return false;
  store(buffers.word(next), encode(word));  // behind it the zeros of fresh memory
  auto posted = scope_->try_post_send(buffers.first(next, word.length));
  if (!posted) return loss(posted.error());
  auto const behind = oldest_sent_ + in_flight_;
  auto& sent = sent_[behind < sent_.size() ? behind : behind - sent_.size()];
  sent.handle.emplace(std::move(posted).value());
  sent.kind = word.kind;
  ++in_flight_;
  awaited_ += word.kind != WordKind::credit;
  ++busy;
  next = next + 1 == buffers.count() ? 0 : next + 1;
  return true;
}

void ChannelLine::take_sends() noexcept {
  while (in_flight_ > 0 && !has_failed_sends_) {
    auto& oldest = sent_[oldest_sent_];
    auto const done = oldest.handle->poll();
    // A send that failed stays in flight: the peer has not got it.
    if (!done) has_failed_sends_ = true;
    if (!done || !done.value()) return;
    oldest.handle.reset();
    --(oldest.kind == WordKind::data ? busy_sends_ : busy_words_);
    --in_flight_;
    awaited_ -= oldest.kind != WordKind::credit;
    oldest_sent_ = oldest_sent_ + 1 == sent_.size() ? 0 : oldest_sent_ + 1;
  }
}

// ---- in an event loop ----

Result<bool> ChannelLine::poll() noexcept {
  if (!channel_) return false;
  LEND_TRY(has_news, channel_->poll());
  if (has_news) take_sends();
  return has_news;
}

Result<bool> ChannelLine::arm() noexcept {
  return channel_->arm();
}

Result<int> ChannelLine::descriptor() const noexcept {
  if (!channel_) return Error{Errc::channel_broken, "the connection was ended"};
  return channel_->descriptor();
}

Deadline ChannelLine::look_again() const noexcept {
  return channel_ ? channel_->look_again() : Deadline::never();
}

}  // namespace lend::transport
