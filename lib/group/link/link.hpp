// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages to and from one other rank, which never find no room: a message is sent when the peer
// has a receive for it, and a short one is written if the peer has a mailbox. The thread of the
// group.
#pragma once

#include <group/link/link_memory.hpp>
#include <group/link/link_options.hpp>
#include <group/link/mailbox.hpp>
#include <group/link/message_head.hpp>
#include <group/link/peer_mailbox.hpp>
#include <group/link/peer_status.hpp>
#include <group/link/receive_ring.hpp>
#include <group/link/send_ring.hpp>
#include <group/link/send_window.hpp>
#include <lend/base/result.hpp>
#include <lend/base/stop.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/group/rank_card.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lend::group {

class Link {
 public:
  /// A message that came and was not taken yet.
  struct Arrived {
    static constexpr std::uint32_t written = UINT32_MAX;

    MessageHead head;
    std::uint32_t slot;      ///< of its receive, or `written`
    Mailbox::Values values;  ///< of one that was written
  };

  /// With a mailbox if this rank looks into it as long as it waits.
  /// Errors:  those of ProtectionDomain::allocate() and PreparedChannel::post_receive().
  [[nodiscard]] static Result<std::unique_ptr<Link>> prepare(ProtectionDomain const& domain,
                                                             PreparedChannel prepared,
                                                             std::optional<Mailbox> mailbox,
                                                             LinkOptions const& options);
  Link(PreparedChannel prepared, LinkMemory memory, std::optional<Mailbox> mailbox,
       LinkOptions const& options);
  Link(Link const&) = delete;
  Link& operator=(Link const&) = delete;
  ~Link() = default;

  [[nodiscard]] Result<void> connect(RankCard const& peer);
  /// To connect it by other means than endpoints, and give it to adopt().
  [[nodiscard]] PreparedQueuePair take_queue_pair() noexcept {
    return prepared_->take_queue_pair();
  }
  [[nodiscard]] Result<void> adopt(QueuePair connected, RankCard const& peer);
  /// Sends a message without values, whatever the peer has received.
  /// Errors:  the link is broken.
  [[nodiscard]] Result<void> send_credit() noexcept {
    return without_value(post({.kind = MessageHead::Kind::credit}, {}));
  }
  /// Whether any message was taken of those that are sent.
  [[nodiscard]] bool has_heard() const noexcept { return receives_.has_taken_any(); }

  /// Takes what has come: those without values are done with, the others wait.
  /// Errors:  as PendingWork::poll(): the link is broken.
  [[nodiscard]] Result<void> take_arrivals() noexcept;
  /// Whether the peer has written something that was not taken yet, which no completion says.
  [[nodiscard]] bool has_written() const noexcept {
    return mailbox_ && (mailbox_->has_next() || mailbox_->has_freed());
  }
  /// Takes that. Whether there was any.
  /// Errors:  incompatible_peer  no rank writes that.
  [[nodiscard]] Result<bool> take_written() noexcept;
  [[nodiscard]] std::span<Arrived const> arrived() const noexcept { return arrived_; }
  [[nodiscard]] std::span<std::byte const> bytes_of(Arrived const& arrival) const noexcept;
  /// Done with arrived()[index]: its receive is posted again with the next send or release, so that
  /// what this message lets the rank do comes first; but at once where the peer must learn of it.
  [[nodiscard]] Result<void> release(std::size_t index) noexcept;

  /// Sends `head` with `bytes`. False: there is no room now; try again when something has come.
  [[nodiscard]] Result<bool> try_send(MessageHead head, std::span<std::byte const> bytes) noexcept;
  /// Whether messages go the short way: this thread stores them, and no request is needed.
  [[nodiscard]] bool stores_messages() noexcept {
    return mailbox_.has_value() && theirs_.is_stored_to();
  }
  /// Stores a message with its values. False: nothing was done, and try_send() does it or says why
  /// not.
  [[nodiscard]] bool store_message(MessageHead head, std::byte const* values) noexcept {
    if (!stores_messages() || released_ || peer_has_left_) [[unlikely]]
      return false;
    if (window_.is_full() && !gains_room()) [[unlikely]]
      return false;
    head.freed = freed_;
    theirs_.store(head, values);
    reported_ = freed_;
    window_.note_sent(1);
    return true;
  }
  /// Whether the next message is one for take_message().
  [[nodiscard]] bool takes_messages() noexcept { return stores_messages() && arrived_.empty(); }
  /// Takes the next message if it is this one.
  /// Shape:   as WrittenMessage::look().
  [[nodiscard]] Mailbox::Look take_message(MessageHead const& expected,
                                           std::byte* values) noexcept {
    std::uint32_t freed = 0;
    auto const found = mailbox_->look(expected, freed, values);
    if (found != Mailbox::Look::expected) return found;
    if (!window_.update(freed)) [[unlikely]]
      return Mailbox::Look::other;
    mailbox_->note_taken();
    ++freed_;
    if (freed_ - reported_ >= options_.window / 2) [[unlikely]]
      store_freed();
    return found;
  }

  /// Sends the link's last message, once. False: try again when something has come.
  [[nodiscard]] bool try_end(MessageHead const& head) noexcept;
  /// Whether all that was sent has arrived, or will not.
  [[nodiscard]] bool is_quiet() noexcept;

  /// What the peer is in, and its room. Of one that is connected.
  [[nodiscard]] PeerStatus& status() noexcept {
    LEND_ASSERT(status_);
    return *status_;
  }
  [[nodiscard]] bool peer_has_left() const noexcept { return peer_has_left_; }
  /// What the peer said that broke its group.
  [[nodiscard]] std::optional<Fault> const& fault() const noexcept { return fault_; }
  /// Null while it works.
  [[nodiscard]] Error const* failure() const noexcept {
    return channel_ ? channel_->first_cause() : nullptr;
  }

 private:
  /// Whether nothing that is sent arrives any more.
  [[nodiscard]] bool is_over() const noexcept {
    return !channel_ || peer_has_left_ || failure() != nullptr;
  }
  /// Messages that may wait to be taken: a peer that minds its window has no more.
  [[nodiscard]] std::size_t arrived_max() const noexcept {
    return options_.receives() + (mailbox_ ? mailbox_->slots() : 0);
  }
  [[nodiscard]] Result<void> begin(Result<Channel> connected, RankCard const& peer) noexcept;
  /// Of those that come by receives.
  [[nodiscard]] Result<void> take_received() noexcept;
  [[nodiscard]] Result<void> post_released() noexcept;
  [[nodiscard]] Result<bool> post(MessageHead head, std::span<std::byte const> bytes) noexcept;
  /// Writes it to the peer's mailbox. False: there is no room to post it.
  [[nodiscard]] Result<bool> write(MessageHead const& head, std::byte const* values) noexcept;
  /// Once half a window was freed: a part that goes the other way tells it, too.
  [[nodiscard]] Result<void> report_freed() noexcept {
    if (freed_ - reported_ < options_.window / 2 || has_ended_ || is_over()) return success();
    return tell_freed();
  }
  [[nodiscard]] Result<void> tell_freed() noexcept;
  void store_freed() noexcept;
  /// Of a full window: whether the peer has written since that there is room.
  [[nodiscard]] bool gains_room() noexcept;

  LinkOptions options_;
  LinkMemory memory_;
  std::optional<Mailbox> mailbox_;
  SendWindow window_;
  PeerMailbox theirs_{};
  std::optional<PreparedChannel> prepared_{};
  std::optional<Channel> channel_{};
  std::optional<PeerStatus> status_{};  // with the channel
  ReceiveRing receives_;
  SendRing sends_;
  std::vector<Arrived> arrived_{};
  std::optional<std::uint32_t> released_{};  // a slot to post again
  std::uint32_t freed_ = 0, reported_ = 0;   // of the peer's parts
  bool has_ended_ = false, peer_has_left_ = false;
  std::optional<Fault> fault_{};
};

}  // namespace lend::group
