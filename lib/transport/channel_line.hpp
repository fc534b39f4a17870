// SPDX-License-Identifier: MIT OR Apache-2.0
// What lines over a channel have in common: receives and sends in the order of posting. The thread
// of the transport.
#pragma once

#include <base/ring.hpp>
#include <base/slot_table.hpp>
#include <channel/work/access.hpp>
#include <flow/empty_receives.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/work_request.hpp>
#include <transport/line.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lend::transport {

class PoolShare;

/// A channel that is not connected yet, and its receives.
struct PreparedReceives {
  std::shared_ptr<PoolShare> share{};  // outlives the channel; null: of no pool
  PreparedChannel channel;
  Wait wait{};                         // of the options, or of the set
  std::vector<PendingWork> handles{};  // by slot

  /// Room for so many sends and their words, and for so many receives; posts none.
  /// Errors:  those of prepare_channel().
  [[nodiscard]] static Result<PreparedReceives> prepare(ProtectionDomain const& domain,
                                                        TransportOptions const& options,
                                                        std::uint32_t sends,
                                                        std::uint32_t receives);
  /// The same with those of the options' pool, for at most `window` messages at a time.
  [[nodiscard]] static Result<PreparedReceives> prepare_in_pool(ProtectionDomain const& domain,
                                                                TransportOptions const& options,
                                                                std::uint32_t window);
  /// Posts the receive of the next slot.
  [[nodiscard]] Result<void> post(Receive const& work);
};

/// A derived line declares the memory and calls close() in its destructor: the channel ends before
/// that does.
class ChannelLine : public Line {
 public:
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept override {
    return messages_in_flight() + awaited_words_;
  }
  [[nodiscard]] Result<bool> poll() noexcept override;
  [[nodiscard]] Result<void> check_alone() const noexcept override;
  [[nodiscard]] Result<bool> arm() noexcept override;
  [[nodiscard]] Result<int> descriptor() const noexcept override;
  [[nodiscard]] Deadline look_again() const noexcept override;
  [[nodiscard]] std::vector<Setting> settings() const override;
  void close() noexcept override;

 protected:
  /// `receives` are posted, by slot. At most so many `messages` and `words` are sent at a time.
  ChannelLine(Channel channel, std::vector<PendingWork> receives, std::uint32_t messages,
              std::uint32_t words = word_receives);

  /// Of a line that has them.
  [[nodiscard]] LentReads* own_lent_reads() noexcept { return &lent_reads_; }
  [[nodiscard]] bool is_closed() const noexcept { return !channel_; }
  /// What a line says that is_closed().
  [[nodiscard]] static Error ended() noexcept;
  [[nodiscard]] PollingScope& scope() noexcept { return *scope_; }

  struct Came {
    std::uint32_t slot = 0;
    std::uint64_t bytes = 0;
    std::optional<std::uint32_t> immediate{};
  };
  /// As next().
  [[nodiscard]] Result<std::optional<Came>> take_receive() noexcept;
  void post_receive(std::uint32_t slot, Receive const& work) noexcept;
  /// Of a line without receives of its own: polls once, unless poll() has just done so.
  /// Errors:  the loss, if the channel is broken. What has come came before it.
  [[nodiscard]] Result<void> look() noexcept;
  /// The same of the slots that have been taken for longest, as receives without bytes, of `scope`,
  /// which is open. Shape: as EmptyReceives; all of the line's receives are so.
  void post_empty_receives(flow::EmptyReceives& empties, channel::ScopeRecord& scope,
                           std::uint32_t count) noexcept;

  /// Whether one more of this kind may be posted.
  [[nodiscard]] bool has_room_for(WordKind kind) noexcept {
    return has_room_as_known(kind) || finds_room_for(kind);
  }
  /// The same, as far as is known without a poll.
  [[nodiscard]] bool has_room_as_known(WordKind kind) const noexcept {
    return has_message(kind) ? messages_sent_ - messages_done_ < messages_max_ : !words_.is_full();
  }
  // Take note of a send that was posted. What Line::send() returns.
  [[nodiscard]] Result<bool> note_word(Result<PendingWork> posted, bool is_awaited) noexcept;
  /// Of a message in messages(), by post_unheld().
  [[nodiscard]] Result<bool> note_message(bool is_posted) noexcept {
    if (!is_posted) return refusal();
    ++messages_sent_;
    return true;
  }
  /// Takes the results of sends that are done.
  void take_sends() noexcept;
  /// Counts those of messages, without a poll.
  void count_done() noexcept { messages_done_ = messages_sent_ - messages_in_flight(); }
  /// Words that are not known to be done, credits as well.
  [[nodiscard]] std::uint32_t words_in_flight() const noexcept {
    return static_cast<std::uint32_t>(words_.size());
  }
  /// Messages that were sent, and of these whose sends are known to be done, of all times. They are
  /// counted by take_sends() and has_room_for().
  [[nodiscard]] std::uint64_t messages_sent() const noexcept { return messages_sent_; }
  [[nodiscard]] std::uint64_t messages_done() const noexcept { return messages_done_; }
  [[nodiscard]] channel::ScopeRecord& messages() noexcept { return messages_; }
  [[nodiscard]] channel::ChannelAccess const& inside() const noexcept { return inside_; }
  [[nodiscard]] channel::ChannelState& state() noexcept { return inside_.state(); }
  /// What broke the channel, as the end of a connection.
  [[nodiscard]] Error loss(Error const& error) const noexcept;

 private:
  // A member: g++ 12 fails on the calls if it is a second base.
  class Reads final : public LentReads {
   public:
    explicit Reads(ChannelLine& line) noexcept : line_{line} {}
    [[nodiscard]] Result<void> check(verbs::RegionState const& region) const noexcept override;
    [[nodiscard]] Result<std::size_t> begin(std::uint32_t place, ScatterElement to,
                                            RemoteRegion const& from, std::size_t offset,
                                            SourceLine where) noexcept override;
    [[nodiscard]] Result<bool> is_over(std::uint32_t place) noexcept override;

   private:
    ChannelLine& line_;
    std::array<std::optional<PendingWork>, lent_max> works_{};  // by place
  };
  struct Sent {
    std::optional<PendingWork> handle{};
    bool is_awaited = false;
  };
  [[nodiscard]] bool finds_room_for(WordKind kind) noexcept;
  [[nodiscard]] std::uint32_t messages_in_flight() const noexcept;
  [[nodiscard]] Error refusal() noexcept;

  std::optional<Channel> channel_;  // none once it was closed
  channel::ChannelAccess inside_;   // its own
  bool const is_in_set_;            // which then says what has news
  std::optional<PollingScope> scope_{};
  // Of messages, which need no handles: they are done in order. The channel's end ends it, too.
  channel::ScopeRecord messages_{};
  std::uint64_t messages_sent_ = 0, messages_done_ = 0;
  std::uint32_t messages_max_;

  std::vector<base::SlotId> receives_;  // of the channel, by slot
  base::Ring<std::uint32_t> posted_;    // slots in the order of posting
  base::Ring<Sent> words_;
  std::uint32_t awaited_words_ = 0;  // of these
  Reads lent_reads_{*this};
  bool has_failed_words_ = false;
  bool has_just_polled_ = false;  // what has come is noted: it is not worth a poll
};

}  // namespace lend::transport
