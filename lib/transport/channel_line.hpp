// SPDX-License-Identifier: MIT OR Apache-2.0
// What lines over a channel have in common: receives and sends in the order of posting. The thread
// of the transport.
#pragma once

#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/prepared_channel.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/work_request.hpp>
#include <transport/line.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lend::transport {

/// A channel that is not connected yet, and its receives.
struct PreparedReceives {
  PreparedChannel channel;
  std::vector<PendingWork> handles{};  // by slot

  /// Room for so many sends and their words, and for so many receives; posts none.
  /// Errors:  those of prepare_channel().
  [[nodiscard]] static Result<PreparedReceives> prepare(ProtectionDomain const& domain,
                                                        TransportOptions const& options,
                                                        std::uint32_t sends,
                                                        std::uint32_t receives);
  /// Posts the receive of the next slot.
  [[nodiscard]] Result<void> post(Receive const& work);
};

/// A derived line declares the memory and calls close() in its destructor: the channel ends before
/// that does.
class ChannelLine : public Line {
 public:
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept override { return awaited_; }
  [[nodiscard]] Result<bool> poll() noexcept override;
  [[nodiscard]] Result<bool> arm() noexcept override;
  [[nodiscard]] Result<int> descriptor() const noexcept override;
  [[nodiscard]] Deadline look_again() const noexcept override;
  void close() noexcept override;

 protected:
  /// `receives` are posted, by slot. At most `messages` are sent at a time.
  ChannelLine(Channel channel, std::vector<PendingWork> receives, std::uint32_t messages);

  [[nodiscard]] bool is_closed() const noexcept { return !channel_; }
  [[nodiscard]] PollingScope& scope() noexcept { return *scope_; }

  struct Came {
    std::uint32_t slot = 0;
    WorkSuccess success{};
  };
  /// As next().
  [[nodiscard]] Result<std::optional<Came>> take_receive() noexcept;
  void post_receive(std::uint32_t slot, Receive const& work) noexcept;

  /// Whether one more of this kind may be posted.
  [[nodiscard]] bool has_room_for(WordKind kind) noexcept;
  /// Takes note of a send that was posted. What Line::send() returns.
  [[nodiscard]] Result<bool> note_sent(Result<PendingWork> posted, WordKind kind) noexcept;
  /// Takes the results of sends that are done.
  void take_sends() noexcept;
  /// All sends that are not known to be done, credits as well.
  [[nodiscard]] std::uint32_t sends_posted() const noexcept { return in_flight_; }
  /// Messages whose sends are done, of all times.
  [[nodiscard]] std::uint64_t messages_done() const noexcept { return messages_done_; }
  /// What broke the channel, as the end of a connection.
  [[nodiscard]] Error loss(Error const& error) const noexcept;

 private:
  struct Sent {
    std::optional<PendingWork> handle{};
    WordKind kind{};
  };
  [[nodiscard]] std::uint32_t& busy(WordKind kind) noexcept {
    return kind == WordKind::data ? busy_messages_ : busy_words_;
  }

  std::optional<Channel> channel_;  // none once it was closed
  std::optional<PollingScope> scope_{};

  std::vector<std::optional<PendingWork>> handles_;  // of receives, by slot
  std::vector<std::uint32_t> posted_;                // slots in the order of posting: a ring
  std::size_t oldest_ = 0, outstanding_ = 0;         // in posted_
  std::uint32_t messages_max_;
  std::vector<Sent> sent_;  // a ring
  std::size_t oldest_sent_ = 0;
  std::uint32_t in_flight_ = 0;  // of sent_
  std::uint32_t awaited_ = 0;    // of these, all but credits
  std::uint32_t busy_messages_ = 0, busy_words_ = 0;
  std::uint64_t messages_done_ = 0;
  bool has_failed_sends_ = false;
  bool has_just_polled_ = false;  // what has come is noted: a handle need not poll for it
};

}  // namespace lend::transport
