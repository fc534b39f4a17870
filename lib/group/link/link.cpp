// SPDX-License-Identifier: MIT OR Apache-2.0
// A receive is posted again after its message was released, which may be one message later; sends
// use their slots in turn. The thread of the group.
#include <base/copy_bytes.hpp>
#include <channel/work/access.hpp>
#include <group/link/link.hpp>
#include <lend/channel/unsafe.hpp>
#include <verbs/queue/adoption.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lend::group {

Result<std::unique_ptr<Link>> Link::prepare(ProtectionDomain const& domain,
                                            PreparedChannel prepared, LinkOptions const& options) {
  auto const slots = options.receives() * 2;
  LEND_TRY(memory, domain.allocate(slots * options.slot_bytes() + sizeof(RankStatus) +
                                   WrittenMessage::bytes));
  LEND_TRY(bytes, memory.mutable_bytes());
  std::optional<Mailbox> mailbox;
  if (options.mailboxes != nullptr) {
    LEND_TRY(made, options.mailboxes->make_next());
    mailbox = std::move(made);
  }
  auto link = std::make_unique<Link>(std::move(prepared), std::move(memory), bytes.data(),
                                     std::move(mailbox), options);
  LEND_TRYV(link->post_receives());
  return link;
}

Link::Link(PreparedChannel prepared, MemoryRegion memory, std::byte* place,
           std::optional<Mailbox> mailbox, LinkOptions const& options)
    : options_{options},
      memory_{std::move(memory)},
      place_{place},
      mailbox_{std::move(mailbox)},
      window_{options.window},
      prepared_{std::move(prepared)},
      receives_(options.receives()),
      posted_(options.receives()),
      sends_(options.receives()) {
  arrived_.reserve(arrived_max() + options.receives());  // also where a peer writes all it may
}

Link::~Link() = default;

Result<void> Link::post_receives() {
  for (std::uint32_t slot = 0; slot < options_.receives(); ++slot) {
    LEND_TRY(handle,
             prepared_->post_receive(memory_.scatter(receive_at(slot), options_.slot_bytes())));
    receives_[slot].emplace(std::move(handle));
    posted_[outstanding_++] = slot;
  }
  return success();
}

Result<void> Link::connect(RankCard const& peer) {
  LEND_TRY(channel, std::move(*prepared_).handshake(peer.endpoint));
  prepared_.reset();
  channel_.emplace(std::move(channel));
  note_memory_of(peer);
  return success();
}

Result<void> Link::adopt(QueuePair connected, RankCard const& peer) {
  auto const first = verbs::QueuePairAccess::handle_of(connected).first_sender;
  LEND_TRY(channel, std::move(*prepared_).adopt(std::move(connected)));
  prepared_.reset();
  channel_.emplace(std::move(channel));
  note_memory_of(peer);
  greetings_ = flow::Greetings{first};
  has_met_ = first == verbs::FirstSender::either;
  return success();
}

Result<void> Link::greet() noexcept {
  if (!channel_ || has_met_) return success();
  LEND_TRYV(take_arrivals());
  if (failure() != nullptr) return *failure();
  if (oldest_ != 0) {  // something has come
    if (greetings_.is_awaited()) {
      LEND_TRYV(without_value(post({.kind = MessageHead::Kind::credit}, {})));
    }
    greetings_.note_arrival();
    has_met_ = true;
  } else if (greetings_.is_due()) {
    LEND_TRYV(without_value(post({.kind = MessageHead::Kind::credit}, {})));
    greetings_.note_sent();
  }
  return success();
}

Result<void> Link::take_arrivals() noexcept {
  if (!channel_) return success();  // the peer may have greeted, but this rank gave up before
  auto const received = take_received();
  // Last, and in any case: what was written before a message came, or before the link broke.
  LEND_TRYV(without_value(take_written()));
  LEND_TRYV(received);
  // There may be room now.
  return report_freed();
}

Result<void> Link::take_received() noexcept {
  // No more than can have come by now: a peer that sends on and on does not keep this rank here.
  for (std::size_t taken = 0, most = outstanding_; taken < most; ++taken) {
    std::uint32_t const slot = posted_[oldest_];
    // The poll for the first one has asked the queue, or had no need to.
    if (taken != 0 && !channel::HandleAccess::is_worth_a_poll(*receives_[slot])) break;
    LEND_TRY(done, receives_[slot]->poll());
    if (!done) break;
    oldest_ = (oldest_ + 1) % posted_.size();
    --outstanding_;
    MessageHead head;
    std::memcpy(&head, place_ + receive_at(slot), sizeof head);
    if (done->bytes < sizeof head || done->bytes != sizeof head + head.length)
      return Error{Errc::incompatible_peer, "a message between ranks is damaged"};
    LEND_TRYV(update_window(head.freed));
    peer_has_left_ |= head.kind == MessageHead::Kind::left;
    if (head.kind == MessageHead::Kind::broken) fault_ = head.fault();
    if (head.kind == MessageHead::Kind::part || head.kind == MessageHead::Kind::come) {
      arrived_.push_back({head, slot, {}});
    } else {
      LEND_TRYV(post_again(slot));
    }
  }
  return success();
}

std::span<std::byte const> Link::bytes_of(Arrived const& arrival) const noexcept {
  if (arrival.slot == Arrived::written) return std::span{arrival.values}.first(arrival.head.length);
  return {place_ + receive_at(arrival.slot) + sizeof(MessageHead), arrival.head.length};
}

Result<void> Link::release(std::size_t index) noexcept {
  std::uint32_t const slot = arrived_[index].slot;
  arrived_.erase(arrived_.begin() + static_cast<std::ptrdiff_t>(index));
  if (slot == Arrived::written) {
    ++freed_;
    return report_freed();
  }
  LEND_TRYV(post_released());
  released_ = slot;
  // The peer learns of each half a window without delay.
  if (freed_ + 1 - reported_ >= options_.window / 2) return post_released();
  return success();
}

Result<void> Link::post_released() noexcept {
  if (!released_) return success();
  LEND_TRYV(post_again(*std::exchange(released_, std::nullopt)));
  ++freed_;
  return report_freed();
}

Result<void> Link::post_again(std::uint32_t slot) noexcept {
  if (failure() != nullptr) return success();  // nothing more will come
  // SAFETY: the memory is the link's, which ends after the channel. These bytes are read once the
  // handle has the result.
  LEND_TRY(handle, unsafe_post_receive(*channel_,
                                       memory_.scatter(receive_at(slot), options_.slot_bytes())));
  receives_[slot].emplace(std::move(handle));
  posted_[(oldest_ + outstanding_) % posted_.size()] = slot;
  ++outstanding_;
  return success();
}

Result<bool> Link::try_send(MessageHead head, std::span<std::byte const> bytes) noexcept {
  if (window_.is_full()) return false;
  auto posted = post(head, bytes);
  if (posted.has_value()) window_.note_sent(posted.assume_value() ? 1 : 0);
  return posted;
}

bool Link::has_room() noexcept {
  channel::ChannelAccess const channel{*channel_};
  if (channel.sends_outstanding() < options_.sends_and_writes()) return true;
  channel.poll();
  return channel.sends_outstanding() < options_.sends_and_writes();
}

Result<bool> Link::free_send_slot() noexcept {
  auto& handle = sends_[next_send_];
  if (!handle) return true;
  LEND_TRY(done, handle->poll());
  if (!done) return false;
  handle.reset();
  return true;
}

Result<bool> Link::post(MessageHead head, std::span<std::byte const> bytes) noexcept {
  head.freed = freed_;
  head.length = static_cast<std::uint32_t>(bytes.size());
  if (may_write(head)) return write_message(head, bytes);
  if (!has_room()) return false;
  LEND_TRY(is_free, free_send_slot());
  if (!is_free) return false;
  std::byte* const room = place_ + send_at(next_send_);
  std::memcpy(room, &head, sizeof head);
  base::copy_bytes({room + sizeof head, bytes.size()}, bytes);
  // SAFETY: as in post_again().
  LEND_TRY(handle, unsafe_post_send(
                       *channel_, memory_.gather(send_at(next_send_), sizeof head + bytes.size())));
  sends_[next_send_].emplace(std::move(handle));
  next_send_ = (next_send_ + 1) % options_.receives();
  reported_ = freed_;
  // While the message goes, what the next ones need.
  LEND_TRYV(post_released());
  LEND_TRYV(without_value(free_send_slot()));
  return true;
}

bool Link::ask() noexcept {
  if (question_) return true;
  is_answered_ = false;
  if (is_over() || peer_status_.size() < sizeof(RankStatus)) return false;
  // SAFETY: as in post_again().
  auto posted = unsafe_post_read(*channel_, {memory_.scatter(answer_at(), sizeof(RankStatus)),
                                             peer_status_.slice(0, sizeof(RankStatus))});
  if (!posted) return false;
  question_.emplace(std::move(posted).value());
  return true;
}

bool Link::has_answer() noexcept {
  if (!question_) return true;
  auto const done = question_->poll();
  if (done.has_value() && !done.value()) return false;
  is_answered_ = done.has_value() && !std::exchange(is_question_old_, false);
  question_.reset();
  return true;
}

std::optional<RankStatus> Link::answer() const noexcept {
  if (question_ || !is_answered_) return {};
  auto const bytes = memory_.bytes(answer_at(), sizeof(RankStatus));
  return bytes ? RankStatus::from(bytes.value()) : std::nullopt;
}

Result<void> Link::read(std::uint32_t lane, std::size_t offset, ScatterElement target) noexcept {
  // SAFETY: as in post_again(); the target is the group's, which outlives its links, or on loan
  // until end_read().
  LEND_TRY(handle,
           unsafe_post_read(*channel_, {target, peer_status_.slice(sizeof(RankStatus) + offset,
                                                                   target.range.length)}));
  reading_[lane].emplace(std::move(handle));
  return success();
}

Result<bool> Link::has_read(std::uint32_t lane) noexcept {
  LEND_TRY(done, reading_[lane]->poll());
  if (!done) return false;
  reading_[lane].reset();
  return true;
}

std::optional<Error> Link::end_read(std::uint32_t lane) noexcept {
  if (!reading_[lane]) return {};
  if (auto const done = reading_[lane]->poll(); done.has_value() && done.value()) return {};
  return channel::ChannelAccess{*channel_}.end_connection(
      Error{Errc::channel_broken, "the group broke while it read from this rank"});
}

bool Link::try_end(MessageHead const& head) noexcept {
  if (has_ended_ || is_over()) return true;
  auto const is_posted = post(head, {});
  has_ended_ = !is_posted.has_value() || is_posted.value();
  return has_ended_;
}

bool Link::is_quiet() noexcept {
  if (is_over()) return true;
  // The peer's receives are posted, so that its device takes all without the peer's program.
  return std::ranges::all_of(sends_, [](auto& handle) {
    if (!handle) return true;
    auto const done = handle->poll();
    return !done.has_value() || done.value().has_value();
  });
}

}  // namespace lend::group
