// SPDX-License-Identifier: MIT OR Apache-2.0
// The connections of a desk, and what each is sent. One thread at a time.
#pragma once

#include <launch/desk_table.hpp>
#include <network/exchange/acceptor.hpp>
#include <network/wire/socket_file.hpp>
#include <network/wire/talk.hpp>

#include <lend/base/deadline.hpp>

#include <sys/epoll.h>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lend::launch {

inline constexpr std::uint32_t event_input = EPOLLIN | EPOLLRDHUP;

class DeskState final : public network::Served {
 public:
  /// Asks for a name that is not known yet until `deadline`.
  /// Errors:  those of Desk::open(); timed_out, cancelled.
  [[nodiscard]] static Result<std::unique_ptr<DeskState>> open(std::string_view address,
                                                               std::string group,
                                                               network::Secret secret,
                                                               Deadline deadline);
  DeskState(network::SocketFile file, std::vector<network::Socket> listening, std::string group,
            network::Secret secret) noexcept;
  DeskState(DeskState const&) = delete;
  DeskState& operator=(DeskState const&) = delete;
  ~DeskState() override;

  [[nodiscard]] std::string const& address() const noexcept { return listening_.front().address; }
  /// All addresses at which it listens.
  [[nodiscard]] std::string places() const;
  [[nodiscard]] Result<void> begin(std::uint32_t size, Deadline deadline);
  [[nodiscard]] Result<bool> poll();
  [[nodiscard]] int descriptor() const noexcept override { return epoll_.get(); }
  /// poll() for a rank of this process, which learns from its own connection what became of it.
  [[nodiscard]] Result<void> serve() override;
  /// A connection from within this process.
  [[nodiscard]] Result<network::Socket> connect_within();
  /// Ends the meeting under way, if one is, and rejects all that came to it.
  void end(network::StatusCode code, std::string const& why);

  /// How many are held that do not sit.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_.size(); }

 private:
  enum class Stage : std::uint8_t { hello, proof, sit, seated, closed };
  struct Connection {
    network::Socket socket{};
    std::unique_ptr<network::Sealing> sealing{};
    network::FrameReader reader{};
    Stage stage = Stage::hello;
    Deadline::Clock::time_point since{};
    std::uint32_t rank = 0;                         // from here on of one that sits
    std::vector<Card> cards{};                      // it handed in
    std::vector<Card> theirs{};                     // it is to get
    std::size_t next_member = 0, next_card = 0;     // of `theirs`
    bool owes_members = false, owes_cards = false;  // this side does
    bool owes_again = false, owes_awaited = false;
    std::optional<network::Frame> sending{};
    std::size_t sent = 0;  // of it
    bool waits_to_write = false;
  };
  using Clock = Deadline::Clock;

  // desk_state.cpp
  [[nodiscard]] Result<void> watch(int fd, std::uint32_t events, void* what) noexcept;
  void watch_again(int fd, std::uint32_t events, void* what) noexcept;
  void watch_listening(std::uint32_t events) noexcept;
  [[nodiscard]] Result<void> serve_ready();
  /// Of those at one address.
  [[nodiscard]] Result<void> take_newcomers(int listening);
  [[nodiscard]] Result<void> add(network::Socket socket, Clock::time_point now);
  [[nodiscard]] bool make_room(Clock::time_point now);
  void excuse_delay(Clock::time_point now) noexcept;
  void expire(Clock::time_point now);
  void set_timer() noexcept;
  void reject(Connection& one, network::StatusCode code, std::string const& clause);
  void close(Connection& one) noexcept;
  void forget_closed();
  [[nodiscard]] std::string who(Connection const& one) const;
  /// What keeps the ranks waiting.
  [[nodiscard]] std::string awaited() const;

  // desk_seats.cpp
  void read(Connection& one);
  void on_frame(Connection& one);
  void on_sit(Connection& one);
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
  std::vector<network::Socket> listening_;  // one or more, at the addresses of one name
  std::string group_;
  network::Secret secret_;
  network::AcceptorLimits limits_{.pending_max = 1024};
  base::UniqueFd epoll_{}, timer_{};
  std::optional<DeskTable> table_{};  // while a meeting is under way
  std::uint32_t generation_ = 0;      // the last that was proposed at a meeting before
  Deadline others_until_ =
      Deadline::never();  // enough have come: how long they wait for the others
  Deadline deadline_ = Deadline::never();
  Clock::time_point due_ = Clock::time_point::max();  // of the timer
  std::list<Connection> pending_{};                   // oldest first
  std::list<Connection> seated_{};
  std::vector<Connection*> seats_{};  // by rank; null: empty
  bool is_full_ = false;              // newcomers wait in the kernel's queue
  std::string last_rejected_{};
};

}  // namespace lend::launch
