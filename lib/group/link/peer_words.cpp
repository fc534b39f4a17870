// SPDX-License-Identifier: MIT OR Apache-2.0
// The thread of the group.
#include <group/link/peer_words.hpp>
#include <lend/channel/unsafe.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lend::group {

Result<PeerWords> PeerWords::create(ProtectionDomain const& domain, std::size_t peers) {
  auto const bytes = std::max<std::size_t>(peers, 1) * word_bytes;
  // SAFETY: it is read as words that another thread writes.
  LEND_TRY(from, domain.unsafe_allocate_exposed(bytes, RemoteAccess::write));
  LEND_TRY(words, from.mutable_bytes());
  std::ranges::fill(words, std::byte{});  // no word_of()
  LEND_TRY(remote, from.remote());
  LEND_TRY(to, domain.allocate(bytes));
  return PeerWords{std::move(from), remote, words.data(), std::move(to), peers};
}

PeerWords::PeerWords(MemoryRegion theirs, RemoteRegion const& remote, std::byte const* begin,
                     MemoryRegion ours, std::size_t peers)
    : from_{std::move(theirs)},
      remote_{remote},
      begin_{begin},
      to_{std::move(ours)},
      peers_(peers) {}

RemoteRegion PeerWords::remote(std::size_t place) const noexcept {
  return {remote_.address() + place * word_bytes, word_bytes, remote_.key(), remote_.access()};
}

bool PeerWords::has_heard(std::size_t place) noexcept {
  Peer& peer = peers_[place];
  auto const word = ReadSlot{begin_}.load(place);
  auto const posted = static_cast<std::uint32_t>(word);
  if (word == Mailbox::word_of(posted)) {  // else a part of it has come
    peer.heard = posted;
    peer.has_greeted = true;
  }
  return peer.has_greeted;
}

bool PeerWords::finds_receive(std::size_t place) noexcept {
  return has_heard(place) &&
         static_cast<std::int32_t>(peers_[place].heard - peers_[place].sent) > 0;
}

Result<bool> PeerWords::tell(std::size_t place, Channel& channel) noexcept {
  Peer& peer = peers_[place];
  if (peer.word) {  // whose bytes a device that copies none still reads
    LEND_TRY(done, peer.word->poll());
    if (!done) return false;
    peer.word.reset();
  }
  auto const offset = place * word_bytes;
  auto const word = Mailbox::word_of(peer.posted);
  LEND_TRY(bytes, to_.mutable_bytes(offset, word_bytes));
  std::memcpy(bytes.data(), &word, word_bytes);
  // SAFETY: these bytes stay as they are until the handle has the result, or the channel has ended.
  auto posted = unsafe_post_write(channel, {to_.gather(offset, word_bytes), peer.theirs});
  if (!posted.has_value()) {
    if (posted.error() == Errc::queue_full) return false;
    return posted.error();
  }
  peer.word.emplace(std::move(posted).assume_value());
  peer.told = peer.posted;
  return true;
}

}  // namespace lend::group
