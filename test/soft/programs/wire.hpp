// SPDX-License-Identifier: MIT OR Apache-2.0
// A serial model of what goes from queue pair to queue pair: messages, each received once and whole
// or lost. One program at a time, one thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "soft/programs/accepted.hpp"

namespace lend::test {

/// A message that the device was given to send.
struct Sent {
  std::uint32_t from = 0;
  std::uint32_t to = 0;  ///< queue pair
  std::size_t work = 0;  ///< in Spy::works()
  std::vector<std::byte> bytes{};
  std::optional<std::uint32_t> immediate{};
  bool is_write = false;    ///< with an immediate: its bytes go elsewhere
  bool has_right = true;    ///< its key is the target's
  bool has_header = false;  ///< a datagram's, before its bytes
};

class Wire {
 public:
  explicit Wire(std::vector<Accepted>& works) : works_{works} {}

  /// Forgets all. `is_exact`: no fault delays or loses a message, so that the poster's call
  /// delivers an unreliable one, or nobody does.
  void begin(bool is_exact);

  // ---- queue pairs ----
  void note_made(ibv_qp const& pair);
  void note_moved(std::uint32_t pair, ibv_qp_attr const& attributes, int mask);
  void note_gone(std::uint32_t pair);

  // ---- requests ----
  /// Before the device has it; nothing if it takes no receive.
  [[nodiscard]] std::optional<Sent> describe(ibv_qp const& pair, ibv_send_wr const& request) const;
  void note_sent(Sent sent);
  void note_receive(std::uint32_t pair, std::size_t work);
  /// Whom the success of a receive concerns; `work`: none of a shared queue. What is wrong with it,
  /// or empty.
  [[nodiscard]] std::string note_received(Accepted& receive, std::optional<std::size_t> work,
                                          ibv_wc const& entry);
  /// A send is over, and was told so.
  [[nodiscard]] std::string note_left(std::size_t work);
  /// `queue` has no completion left.
  [[nodiscard]] std::string note_drained(ibv_cq const* queue) const;

 private:
  struct Pair {
    ibv_qp_type type{};
    ibv_cq const* sends = nullptr;
    ibv_cq const* receives = nullptr;
    ibv_qp_state state = IBV_QPS_RESET;
    std::uint32_t peer = 0;
    std::uint32_t key = 0;
    std::deque<std::size_t> waiting{};  // receives, in Spy::works(); counted where it is exact
  };
  [[nodiscard]] bool is_exact(Pair const& pair) const noexcept {
    return is_exact_ && pair.type != IBV_QPT_RC;
  }
  [[nodiscard]] std::size_t room_of(std::size_t work) const;
  void deliver(std::size_t sent);
  [[nodiscard]] std::string compare(Sent const& sent, Accepted const& receive,
                                    ibv_wc const& entry) const;
  [[nodiscard]] std::string match(Accepted const& receive, ibv_wc const& entry);

  std::vector<Accepted>& works_;
  bool is_exact_ = false;
  std::map<std::uint32_t, Pair> pairs_{};
  std::vector<Sent> sent_{};
  std::map<std::size_t, std::size_t> awaited_{};  // where it is exact: of a receive its message
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> matched_{};  // from, to: up to
  std::map<std::size_t, std::size_t> skipped_{};  // sends of reliable messages not seen to arrive
};

}  // namespace lend::test
