// SPDX-License-Identifier: MIT OR Apache-2.0
// A transport in an execution context: receives and sends, which wait by turns. For `messages.hpp`.
// The executor of the messages, but for what Turning says.
#pragma once

#include <lend/asio/connection_core.hpp>
#include <lend/asio/error.hpp>
#include <lend/asio/operation.hpp>
#include <lend/base/source_line.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/lent_message.hpp>
#include <lend/transport/received.hpp>
#include <lend/transport/transport.hpp>
#include <lend/transport/waiting.hpp>
#include <lend/verbs/memory_piece.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

namespace lend::asio::implementation {

class MessagesCore final : public ConnectionCore<AnyTransport> {
 public:
  MessagesCore(boost::asio::any_io_executor const& executor, AnyTransport&& transport)
      : ConnectionCore{executor, std::move(transport)}, limits_{held_->limits()} {}

  [[nodiscard]] TransportLimits const& limits() const noexcept { return limits_; }

  /// An operation of one direction, by what it came to.
  template <Direction direction>
  class Operating {
   public:
    explicit Operating(MessagesCore* core) noexcept : core_{core} {}
    void end(boost::system::error_code why) noexcept { code_ = why; }
    [[nodiscard]] OperationRoom* room() const noexcept { return &core_->room_of(direction); }

   protected:
    /// Of a first attempt: whether it is not to be made.
    [[nodiscard]] bool is_refused() noexcept {
      if (core_->is_occupied(direction)) end(boost::asio::error::already_started);
      return code_.failed();
    }
    /// Of each: whether there is no transport any more.
    [[nodiscard]] bool is_late() noexcept {
      if (core_->is_closed()) end(boost::asio::error::bad_descriptor);
      return code_.failed();
    }

    MessagesCore* core_;
    boost::system::error_code code_{};
  };

  class Receive : public Operating<Direction::read> {
   public:
    using Operating::Operating;
    [[nodiscard]] bool begin() noexcept { return is_refused() || attempt(); }
    [[nodiscard]] bool attempt() noexcept {
      if (is_late()) return true;
      auto received = core_->held_->try_receive();
      if (received && !received.value()) return false;
      if (!received)
        end(core_->failed(received.error()));
      else if (received.value().is_end())
        end(boost::asio::error::eof);
      else
        message_ = std::move(received).value();
      return true;
    }
    /// Once: the message is moved out.
    [[nodiscard]] auto values() noexcept { return std::tuple{code_, std::move(message_)}; }

   private:
    Received message_{};
  };

  class Send : public Operating<Direction::write> {
   public:
    Send(MessagesCore* core, boost::asio::const_buffer message) noexcept
        : Operating{core}, message_{message} {}
    [[nodiscard]] bool begin() noexcept { return is_refused() || attempt(); }
    [[nodiscard]] bool attempt() noexcept {
      if (is_late()) return true;
      std::span const piece{static_cast<std::byte const*>(message_.data()), message_.size()};
      auto const sent = try_send(*core_->held_, SendPieces{&piece, 1});
      if (sent) return sent.value();
      end(core_->failed(sent.error()));
      if (sent.error() == Errc::invalid_argument) end(boost::asio::error::message_size);
      return true;
    }
    [[nodiscard]] auto values() const noexcept { return std::tuple{code_}; }

   private:
    boost::asio::const_buffer message_;
  };

  class SendLent : public Operating<Direction::write> {
   public:
    SendLent(MessagesCore* core, GatherElement const& bytes, SourceLine where) noexcept
        : Operating{core}, bytes_{bytes}, where_{where} {}
    [[nodiscard]] bool begin() noexcept { return is_refused() || attempt(); }
    [[nodiscard]] bool attempt() noexcept {
      if (is_late()) return true;
      auto sent = core_->held_->try_send_lent(bytes_, where_);
      if (!sent)
        end(core_->failed(sent.error()));
      else if (!sent.value())
        return false;
      else
        lent_ = std::move(sent).value();
      return true;
    }
    /// Once: the message is moved out.
    [[nodiscard]] auto values() noexcept { return std::tuple{code_, std::move(lent_)}; }

   private:
    GatherElement bytes_;
    SourceLine where_;
    LentMessage lent_{};
  };

  class Fetch : public Operating<Direction::read> {
   public:
    Fetch(MessagesCore* core, Received const* message, ScatterElement const& target,
          SourceLine where) noexcept
        : Operating{core}, message_{message}, target_{target}, where_{where} {}
    [[nodiscard]] bool begin() noexcept { return is_refused() || attempt(); }
    [[nodiscard]] bool attempt() noexcept {
      if (is_late()) return true;
      auto const fetched = core_->held_->try_fetch(*message_, target_, where_);
      if (fetched) return fetched.value();
      end(core_->failed(fetched.error()));
      return true;
    }
    [[nodiscard]] auto values() const noexcept { return std::tuple{code_}; }

   private:
    Received const* message_;
    ScatterElement target_;
    SourceLine where_;
  };

  /// Of neither direction: any number of these may wait.
  class UntilOver : public Operating<Direction::write> {
   public:
    UntilOver(MessagesCore* core, LentMessage lent) noexcept
        : Operating{core}, lent_{std::move(lent)} {}
    [[nodiscard]] bool begin() noexcept { return attempt(); }
    [[nodiscard]] bool attempt() noexcept {
      if (is_late()) return true;
      auto const is_over = lent_.is_over();
      if (is_over) return is_over.value();
      end(core_->failed(is_over.error()));
      return true;
    }
    // NOLINTNEXTLINE(readability-convert-member-functions-to-static): as of the other operations.
    [[nodiscard]] OperationRoom* room() const noexcept { return nullptr; }
    [[nodiscard]] auto values() const noexcept { return std::tuple{code_}; }

   private:
    LentMessage lent_;
  };

 private:
  TransportLimits limits_;
};

}  // namespace lend::asio::implementation
