// SPDX-License-Identifier: MIT OR Apache-2.0
// What the transports of a MessagePool share. The thread of the set.
#pragma once

#include <flow/grants.hpp>
#include <lend/channel/receive_pool.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/transport/message_pool.hpp>
#include <observe/tally.hpp>
#include <transport/buffers.hpp>
#include <verbs/device/forking.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lend::transport {

/// Messages that one transport may be sending: with its words a power of two, which queues of sends
/// are rounded up to.
inline constexpr std::uint32_t sends_in_pool = 6;

/// A transport of the pool.
class PoolUser {
 public:
  /// Gives the drafts back that are known to be sent.
  virtual void give_back_sent() noexcept = 0;
  /// Something is free that it waited for: its set is to list it.
  virtual void wake() noexcept = 0;

  std::size_t place = 0;  ///< among those that are sending

 protected:
  PoolUser() = default;
  ~PoolUser() = default;
};

class SharedBuffers {
 public:
  /// Errors:  those of MessagePool::create().
  [[nodiscard]] static Result<std::shared_ptr<SharedBuffers>> create(
      WaitSet& set, ProtectionDomain const& domain, MessagePoolOptions const& options);

  /// The number of one more transport; nothing if there are transports_max.
  [[nodiscard]] std::optional<std::uint32_t> admit() noexcept;
  void leave(std::uint32_t number) noexcept {
    numbers_.push_back(number);
    count_transports();
  }

  /// Where no draft is free, asks all that are sending.
  void reclaim_drafts() noexcept;
  /// A buffer to send from, after reclaim_drafts().
  [[nodiscard]] std::optional<std::uint32_t> take_draft() noexcept;
  void give_back_draft(std::uint32_t draft) noexcept {
    free_drafts_.push_back(draft);
    count_drafts();
    wake_waiting();
  }
  /// `user` has sent drafts that it has not given back.
  void note_sending(PoolUser& user) noexcept {
    user.place = sending_.size();
    sending_.push_back(&user);
  }
  /// It has no more of them.
  void note_sent_all(PoolUser& user) noexcept {
    sending_[user.place] = sending_.back();
    sending_.back()->place = user.place;
    sending_.pop_back();
  }

  /// `user` is woken once a draft or a receive is free; again: nothing happens.
  void wait(PoolUser& user) noexcept;
  void wait_no_more(PoolUser& user) noexcept { std::erase(waiting_, &user); }
  /// A draft or a receive is free.
  void wake_waiting() noexcept;

  /// What shared() has has changed.
  void count_receives() noexcept {
    if (tally_) [[unlikely]]
      tally_->set_part(PoolPart::receives, options_.shared - shared_.free(), shared_.free());
  }
  /// There was none.
  void lack(observe::PoolPart part) noexcept {
    if (tally_) tally_->lack(part);
  }
  /// What the transports count, too. Null: nothing is to be counted.
  [[nodiscard]] observe::Tally* tally() const noexcept { return tally_.get(); }

  [[nodiscard]] MessagePoolOptions const& options() const noexcept { return options_; }
  [[nodiscard]] ReceivePool& pool() noexcept { return pool_; }
  [[nodiscard]] Buffers const& receives() const noexcept { return receives_; }
  [[nodiscard]] Buffers const& drafts() const noexcept { return drafts_; }
  /// Those of transport n begin at n * words_each().
  [[nodiscard]] Buffers const& words() const noexcept { return words_; }
  [[nodiscard]] std::uint32_t words_each() const noexcept { return words_each_; }
  [[nodiscard]] flow::SharedReceives& shared() noexcept { return shared_; }
  /// Whether it is the parent process's.
  [[nodiscard]] bool is_inherited() const noexcept { return origin_.is_inherited(); }

  [[nodiscard]] std::uint32_t transports() const noexcept {
    return options_.transports_max - static_cast<std::uint32_t>(numbers_.size());
  }
  [[nodiscard]] std::uint32_t free_drafts() const noexcept {
    return static_cast<std::uint32_t>(free_drafts_.size());
  }

 private:
  using PoolPart = observe::PoolPart;

  SharedBuffers(MessagePoolOptions const& options, std::uint32_t words_each, Buffers receives,
                ReceivePool pool, Buffers drafts, Buffers words);

  void count_transports() noexcept {
    if (tally_) tally_->set_part(PoolPart::transports, transports(), numbers_.size());
  }
  void count_drafts() noexcept {
    if (tally_) [[unlikely]]
      tally_->set_part(PoolPart::drafts, options_.drafts - free_drafts(), free_drafts());
  }

  MessagePoolOptions options_;
  std::uint32_t words_each_;
  Buffers receives_;
  ReceivePool pool_;  // of these
  Buffers drafts_, words_;
  flow::SharedReceives shared_;
  std::vector<std::uint32_t> numbers_;            // of no transport
  std::vector<std::uint32_t> free_drafts_;        // room for all
  std::vector<PoolUser*> sending_{}, waiting_{};  // room for all
  verbs::Inheritance origin_{};
  std::unique_ptr<observe::Tally> const tally_{observe::Tally::if_asked()};  // null: none is asked
};

}  // namespace lend::transport
