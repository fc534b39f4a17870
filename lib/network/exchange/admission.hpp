// SPDX-License-Identifier: MIT OR Apache-2.0
// Listening sockets, and their clients until each has proved that it knows the secret and has sent
// one frame more. One thread at a time.
#pragma once

#include <network/wire/poller.hpp>
#include <network/wire/talk.hpp>
#include <observe/tally.hpp>

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace lend::network {

/// Bounds on the clients that are held before they are known to be peers.
struct AdmissionLimits {
  std::size_t pending_max = 128;  ///< held at once; further ones wait in the kernel's queue
  std::chrono::milliseconds patience{2000};        ///< for a client's first three frames
  std::chrono::milliseconds crowded_patience{10};  ///< for a hello, while others wait
  std::chrono::milliseconds crowded_answer{100};   ///< for each further frame, while others wait
};

/// Takes the clients of listening sockets and hands on those that may be peers.
///
/// Connections that send nothing take no place: the kernel keeps them to itself for a second
/// (TCP_DEFER_ACCEPT). Those that send too little keep theirs for `crowded_patience` while others
/// wait, so that a peer behind n of them waits for n / pending_max * crowded_patience; those that
/// sent a hello, which a peer's answer to ours must be let to follow, for `crowded_answer` from
/// each answer of ours on. A peer that gave way, as a slow host's may, comes again.
class Admission {
 public:
  using Clock = Deadline::Clock;
  enum class Stage : std::uint8_t {
    hello,  ///< its hello is incomplete
    proof,  ///< was sent our hello and proof; its own proof is incomplete
    frame,  ///< proved what it has to; its next frame is incomplete
    closed,
  };
  struct Client {
    Socket socket{};
    std::unique_ptr<Sealing> sealing{};  ///< null where there is no secret
    FrameReader reader{};
    Stage stage = Stage::hello;
    Clock::time_point since{};  ///< it came
    Clock::time_point asked{};  ///< its next frame may come
  };
  /// Takes a client that has proved what it has to, with its frame in the reader: agreed, and its
  /// socket, sealing and reader were moved out; or the status to reject it with.
  using Admit = std::function<Status(Client& client)>;

  /// Errors:  exhausted, system_failed.
  [[nodiscard]] LEND_EXPORT static Result<std::unique_ptr<Admission>> open(
      std::vector<Socket> listening, Secret secret, Purpose purpose, AdmissionLimits limits);
  Admission(std::vector<Socket> listening, Secret secret, Purpose purpose, AdmissionLimits limits,
            Poller poller) noexcept;
  Admission(Admission const&) = delete;
  Admission& operator=(Admission const&) = delete;

  [[nodiscard]] std::string const& address() const noexcept { return listening_.front().address; }
  /// All addresses at which it listens.
  [[nodiscard]] LEND_EXPORT std::string places() const;
  /// Readable when serve() has something to do.
  [[nodiscard]] int descriptor() const noexcept { return poller_.descriptor(); }
  [[nodiscard]] AdmissionLimits const& limits() const noexcept { return limits_; }
  /// Shape:   as open(); before the next serve().
  void set_limits(AdmissionLimits const& limits) noexcept { limits_ = limits; }

  /// Serves all clients as far as it goes without waiting, and takes 64 new ones at most of each
  /// address. The time since descriptor() should have been looked at counts against none.
  /// Errors:  exhausted, system_failed  a listening socket; all clients are as before.
  [[nodiscard]] LEND_EXPORT Result<void> serve(Admit const& admit);
  /// Whether new clients are taken at all.
  LEND_EXPORT void listen(bool does) noexcept;
  /// A connection that came by other ways.
  /// Errors:  exhausted, system_failed.
  [[nodiscard]] LEND_EXPORT Result<void> add(Socket socket);
  /// So many clients that were handed on take places of pending_max.
  void hold(std::size_t count) noexcept;
  /// The time that counts against no client, of one who last looked at `served`.
  [[nodiscard]] static Clock::duration unattended(Clock::time_point now, Clock::time_point due,
                                                  Clock::time_point served,
                                                  Clock::duration patience) noexcept;
  /// In this time no client was served: it counts against none.
  void excuse(Clock::duration time) noexcept;
  /// Rejects all.
  LEND_EXPORT void reject_all(StatusCode code, std::string const& clause);

  [[nodiscard]] std::size_t clients() const noexcept { return clients_.size(); }

  /// Ends the connection with a client, and remembers why in last_rejected().
  LEND_EXPORT void reject(Socket& socket, Sealing* sealing, StatusCode code, std::string clause);
  /// One that was handed on is connected.
  void note_connected() noexcept {
    if (tally_) tally_->end_client(observe::ClientEnd::connected);
  }
  /// The last that was rejected, and why; empty: none since forget_rejected().
  [[nodiscard]] std::string const& last_rejected() const noexcept { return last_rejected_; }
  void forget_rejected() noexcept { last_rejected_.clear(); }

 private:
  [[nodiscard]] Clock::time_point replaceable_from(Client const& one) const noexcept;
  [[nodiscard]] bool has_place() const noexcept {
    return clients_.size() + held_ < limits_.pending_max;
  }
  [[nodiscard]] Result<void> take_newcomers(int listening);
  [[nodiscard]] bool make_room(Clock::time_point now);
  void pause(Clock::time_point at_latest) noexcept;
  void watch_listening() noexcept;
  void expire(Clock::time_point now);
  void set_timer() noexcept;
  void read(Client& one, Admit const& admit);
  [[nodiscard]] Status on_frame(Client& one, Admit const& admit);
  void close(Client& one, StatusCode code, std::string clause);
  void forget_closed();

  std::vector<Socket> listening_;  // one or more, at the addresses of one name
  Secret secret_;
  Purpose purpose_;
  AdmissionLimits limits_;
  Poller poller_;
  std::list<Client> clients_{};  // oldest first
  std::size_t held_ = 0;
  bool is_listening_ = true;
  bool is_paused_ = false;  // newcomers wait in the kernel's queue
  Clock::time_point resumes_ = Clock::time_point::max();
  Clock::time_point due_ = Clock::time_point::max();  // when the oldest has had its time
  Clock::time_point served_{};                        // the last time
  std::string last_rejected_{};
  std::unique_ptr<observe::Tally> tally_{};  // null: none is asked, or ranks come
};

/// How others know the client: by its address, or at a local socket by its process.
[[nodiscard]] LEND_EXPORT std::string name_of(Socket const& client);

}  // namespace lend::network
