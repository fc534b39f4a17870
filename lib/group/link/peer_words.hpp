// SPDX-License-Identifier: MIT OR Apache-2.0
// How many receives a rank has posted for each peer, as both tell each other where a message that
// finds none breaks its connection (iWARP). Their devices write; the thread of the group reads.
#pragma once

#include <group/link/mailbox.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/remote_region.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lend::group {

/// A word from each peer, and one for it. The first word that comes is the peer's greeting. Only
/// those receives count of which note_posted() learned, and the sends that meet them.
class PeerWords {
 public:
  /// Errors:  those of ProtectionDomain::allocate().
  [[nodiscard]] static Result<PeerWords> create(ProtectionDomain const& domain, std::size_t peers);

  /// Where peer number `place` writes.
  [[nodiscard]] RemoteRegion remote(std::size_t place) const noexcept;
  /// Where this rank writes for it.
  void set_target(std::size_t place, RemoteRegion const& theirs) noexcept {
    peers_[place].theirs = theirs;
  }

  /// Whether that peer has written.
  [[nodiscard]] bool has_heard(std::size_t place) noexcept;
  /// Whether the next send to it finds a receive.
  [[nodiscard]] bool finds_receive(std::size_t place) noexcept;
  void note_sent(std::size_t place) noexcept { ++peers_[place].sent; }

  void note_posted(std::size_t place) noexcept { ++peers_[place].posted; }
  /// Whether that peer does not know of all.
  [[nodiscard]] bool owes(std::size_t place) const noexcept {
    return peers_[place].posted != peers_[place].told;
  }
  /// Tells it, over `channel`. False: there is no room now; try again when something has come.
  [[nodiscard]] Result<bool> tell(std::size_t place, Channel& channel) noexcept;

 private:
  /// Counts wrap.
  struct Peer {
    RemoteRegion theirs{};
    std::optional<PendingWork> word{};  // that was written last
    std::uint32_t posted = 0, told = 0;
    std::uint32_t heard = 0, sent = 0;
    bool has_greeted = false;
  };
  static constexpr std::size_t word_bytes = sizeof(std::uint64_t);

  PeerWords(MemoryRegion theirs, RemoteRegion const& remote, std::byte const* begin,
            MemoryRegion ours, std::size_t peers);

  MemoryRegion from_;  // words of the peers, by their numbers
  RemoteRegion remote_;
  std::byte const* begin_;  // of from_
  MemoryRegion to_;         // words for them: what is posted from there is not lent
  std::vector<Peer> peers_;
};

}  // namespace lend::group
