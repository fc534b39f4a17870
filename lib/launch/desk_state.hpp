// SPDX-License-Identifier: MIT OR Apache-2.0
// The connections of a desk, and what each is sent. One thread at a time.
#pragma once

#include <launch/desk_table.hpp>
#include <network/exchange/admission.hpp>
#include <network/wire/poller.hpp>
#include <network/wire/socket_file.hpp>
#include <network/wire/talk.hpp>

#include <lend/base/deadline.hpp>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lend::launch {

class DeskState final : public network::Served {
 public:
  /// Asks for a name that is not known yet until `deadline`.
  /// Errors:  those of Desk::open(); timed_out, cancelled.
  [[nodiscard]] static Result<std::unique_ptr<DeskState>> open(std::string_view address,
                                                               std::string group,
                                                               network::Secret secret,
                                                               Deadline deadline);
  DeskState(network::SocketFile file, std::unique_ptr<network::Admission> admission,
            network::Poller poller, std::string group) noexcept;
  DeskState(DeskState const&) = delete;
  DeskState& operator=(DeskState const&) = delete;
  ~DeskState() override;

  [[nodiscard]] std::string const& address() const noexcept { return admission_->address(); }
  /// All addresses at which it listens.
  [[nodiscard]] std::string places() const { return admission_->places(); }
  [[nodiscard]] Result<void> begin(std::uint32_t size, Deadline deadline);
  [[nodiscard]] Result<bool> poll();
  [[nodiscard]] int descriptor() const noexcept override { return poller_.descriptor(); }
  /// poll() for a rank of this process, which learns from its own connection what became of it.
  [[nodiscard]] Result<void> serve() override;
  /// A connection from within this process.
  [[nodiscard]] Result<network::Socket> connect_within();
  /// Ends the meeting under way, if one is, and rejects all that came to it.
  void end(network::StatusCode code, std::string const& why);

 private:
  /// A rank that sits.
  struct Connection {
    network::Socket socket{};
    std::unique_ptr<network::Sealing> sealing{};
    network::FrameReader reader{};
    bool is_closed = false;  // to be erased
    std::uint32_t rank = 0;
    std::vector<Card> cards{};                      // it handed in
    std::vector<Card> theirs{};                     // it is to get
    std::size_t next_member = 0, next_card = 0;     // of `theirs`
    bool owes_members = false, owes_cards = false;  // this side does
    bool owes_again = false, owes_awaited = false;
    std::optional<network::Frame> sending{};
    std::size_t sent = 0;  // of it
    bool waits_to_write = false;
  };

  // desk_state.cpp
  [[nodiscard]] Result<void> serve_ready();
  void set_timer() noexcept;
  void reject(Connection& one, network::StatusCode code, std::string const& clause);
  void close(Connection& one) noexcept;
  void forget_closed();
  /// What keeps the ranks waiting.
  [[nodiscard]] std::string awaited() const;

  // desk_seats.cpp
  void read(Connection& one);
  [[nodiscard]] network::Status admit(network::Admission::Client& client);
  void on_frame(Connection& one);
  void on_cards(Connection& one);
  void on_status(Connection& one);
  /// The others are late, and those that have come are enough.
  void begin_if_due();
  void hand_out_cards();
  void let_go();
  void leave(Connection& one, std::string const& why);
  void push(Connection& one);
  [[nodiscard]] std::optional<network::Frame> next_frame(Connection& one);

  network::SocketFile file_;
  std::unique_ptr<network::Admission> admission_;
  network::Poller poller_;  // of admission_ and seated_
  std::string group_;
  std::optional<DeskTable> table_{};  // while a meeting is under way
  std::uint32_t generation_ = 0;      // the last that was proposed at a meeting before
  Deadline others_until_ =
      Deadline::never();  // enough have come: how long they wait for the others
  Deadline deadline_ = Deadline::never();
  std::list<Connection> seated_{};
  std::vector<Connection*> seats_{};  // by rank; null: empty
};

}  // namespace lend::launch
