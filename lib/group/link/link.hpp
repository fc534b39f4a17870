// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages to and from one other rank, which never find no room: a message is sent when the peer
// has a receive for it, and a short one is written if the peer has a mailbox. The thread of the
// group.
#pragma once

#include <flow/greetings.hpp>
#include <group/link/link_options.hpp>
#include <group/link/mailbox.hpp>
#include <group/link/message_head.hpp>
#include <group/link/peer_mailbox.hpp>
#include <group/link/rank_status.hpp>
#include <group/link/send_window.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/group/rank_card.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <array>
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

  /// Errors:  those of ProtectionDomain::allocate(), PreparedChannel::post_receive() and
  ///          Mailboxes::make_next().
  [[nodiscard]] static Result<std::unique_ptr<Link>> prepare(ProtectionDomain const& domain,
                                                             PreparedChannel prepared,
                                                             LinkOptions const& options);
  Link(PreparedChannel prepared, MemoryRegion memory, std::byte* place,
       std::optional<Mailbox> mailbox, LinkOptions const& options);
  Link(Link const&) = delete;
  Link& operator=(Link const&) = delete;
  ~Link();

  [[nodiscard]] Endpoint const& endpoint() const noexcept { return prepared_->endpoint(); }
  /// Empty if there is none.
  [[nodiscard]] Result<RemoteRegion> mailbox() const noexcept;
  [[nodiscard]] Result<void> connect(RankCard const& peer);
  /// To connect it by other means than endpoints, and give it to adopt().
  [[nodiscard]] PreparedQueuePair take_queue_pair() noexcept {
    return prepared_->take_queue_pair();
  }
  [[nodiscard]] Result<void> adopt(QueuePair connected, RankCard const& peer);
  /// Sends the greeting that is due, or the answer to the peer's. Before the first call.
  /// Errors:  the link is broken.
  [[nodiscard]] Result<void> greet() noexcept;
  /// Whether both ends may send.
  [[nodiscard]] bool has_met() const noexcept { return has_met_; }
  [[nodiscard]] Deadline next_greeting() const noexcept { return greetings_.next(); }

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

  /// Reads the peer's record, which takes its device and not its program. False: this cannot be.
  [[nodiscard]] bool ask() noexcept;
  /// Whether it was read, or will not be.
  [[nodiscard]] bool has_answer() noexcept;
  /// Nothing: it was not read, or while it changed.
  [[nodiscard]] std::optional<RankStatus> answer() const noexcept;
  /// An answer that is still to come to a previous question does not count either.
  void forget_answer() noexcept {
    is_answered_ = false;
    is_question_old_ = question_.has_value();
  }

  /// Bytes of the peer's room as this process has mapped them. They are as when a message said that
  /// they are there, until this rank has said that it has read them. Null: read() them.
  [[nodiscard]] std::byte const* shown(std::size_t offset, std::size_t length) const noexcept;
  /// Reads those bytes of the peer's room into `target`, one read at a time for each lane.
  [[nodiscard]] Result<void> read(std::uint32_t lane, std::size_t offset,
                                  ScatterElement target) noexcept;
  [[nodiscard]] Result<bool> has_read(std::uint32_t lane) noexcept;
  /// Ends a read, and the link with it if the read is not over. Why the device keeps it, and may
  /// still write to its target; otherwise nothing. May take up to 2 s where a device does not
  /// return it.
  [[nodiscard]] std::optional<Error> end_read(std::uint32_t lane) noexcept;

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
  [[nodiscard]] std::size_t receive_at(std::uint32_t slot) const noexcept {
    return slot * options_.slot_bytes();
  }
  [[nodiscard]] std::size_t send_at(std::uint32_t slot) const noexcept {
    return (options_.receives() + slot) * options_.slot_bytes();
  }
  [[nodiscard]] std::size_t answer_at() const noexcept { return send_at(options_.receives()); }
  [[nodiscard]] std::size_t written_at() const noexcept { return answer_at() + sizeof(RankStatus); }
  /// Messages that may wait to be taken: a peer that minds its window has no more.
  [[nodiscard]] std::size_t arrived_max() const noexcept {
    return options_.receives() + (mailbox_ ? mailbox_->slots() : 0);
  }
  void note_memory_of(RankCard const& peer) noexcept;
  /// Of those that come by receives.
  [[nodiscard]] Result<void> take_received() noexcept;
  [[nodiscard]] Result<void> post_receives();
  [[nodiscard]] Result<void> post_again(std::uint32_t slot) noexcept;
  [[nodiscard]] Result<void> post_released() noexcept;
  /// Frees the next slot for a send if its last one is over. False: all are under way.
  [[nodiscard]] Result<bool> free_send_slot() noexcept;
  /// Whether a message may be posted, so that there stays room for reads.
  [[nodiscard]] bool has_room() noexcept;
  [[nodiscard]] Result<bool> post(MessageHead head, std::span<std::byte const> bytes) noexcept;
  [[nodiscard]] bool may_write(MessageHead const& head) const noexcept;
  /// Writes it to the peer's mailbox. False: there is no room to post it.
  [[nodiscard]] Result<bool> write_message(MessageHead const& head,
                                           std::span<std::byte const> bytes) noexcept;
  /// The same of so many bytes at written_at(), to `place` there.
  [[nodiscard]] Result<bool> write_to_mailbox(std::size_t length, std::size_t place) noexcept;
  [[nodiscard]] Result<void> report_freed() noexcept;
  void store_freed() noexcept;
  /// Of a full window: whether the peer has written since that there is room.
  [[nodiscard]] bool gains_room() noexcept;
  /// The peer says that it has freed so many of this rank's messages.
  [[nodiscard]] Result<void> update_window(std::uint32_t freed) noexcept;

  LinkOptions options_;
  // Receives, then sends: a head and bytes each; then the peer's record, and what is written to its
  // mailbox. The link knows by its handles what is on loan.
  MemoryRegion memory_;
  std::byte* place_;  // of it
  std::optional<Mailbox> mailbox_;
  SendWindow window_;
  RemoteRegion peer_status_{};        // the peer's, and its room
  verbs::PeerBytes mapped_status_{};  // the same
  PeerMailbox theirs_{};
  std::optional<PreparedChannel> prepared_{};
  std::optional<Channel> channel_{};
  std::vector<std::optional<PendingWork>> receives_;  // by slot
  std::vector<std::uint32_t> posted_;                 // slots in the order of posting: a ring
  std::size_t oldest_ = 0;                            // in posted_
  std::size_t outstanding_ = 0;
  std::vector<Arrived> arrived_{};
  std::optional<std::uint32_t> released_{};        // a slot to post again
  std::vector<std::optional<PendingWork>> sends_;  // by slot, in turn
  std::uint32_t next_send_ = 0;
  std::uint32_t freed_ = 0, reported_ = 0;                               // of the peer's parts
  std::optional<PendingWork> question_{};                                // reads the peer's record
  std::array<std::optional<PendingWork>, long_buffer_count> reading_{};  // by lane
  bool is_question_old_ = false, is_answered_ = false;
  bool has_ended_ = false, peer_has_left_ = false;
  bool has_met_ = false;  // where it was adopted
  flow::Greetings greetings_{verbs::FirstSender::either};
  std::optional<Fault> fault_{};
};

}  // namespace lend::group
