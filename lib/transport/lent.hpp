// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages that are lent and not copied: a small message says where the bytes lie, the peer reads
// them there, and a word says that they are not read any more. The thread of the transport.
//
//   of this end   LentMessages   lent ──the peer's word──▶ over     the connection ends ──▶ over
//   of the peer   Fetches        waiting ──try_fetch()──▶ reading ──▶ over, and to be told
//                                   └───dropped──────────────────▶ over, and to be told
#pragma once

#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/transport/received.hpp>
#include <lend/verbs/exposure.hpp>
#include <lend/verbs/memory_piece.hpp>
#include <lend/verbs/remote_region.hpp>
#include <transport/line.hpp>
#include <transport/word.hpp>
#include <verbs/memory/loan_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace lend::transport {

/// Bytes of this end that the peer may read, as a LentMessage sees them.
struct Lent {
  Lent() = default;
  Lent(Lent const&) = delete;
  Lent& operator=(Lent const&) = delete;
  ~Lent() { static_cast<void>(end()); }

  /// Lends the bytes, and lets a peer read them.
  /// Shape: they are bytes of their region, one or more.
  /// Errors:  already_borrowed; those of MemoryRegion::unsafe_expose().
  [[nodiscard]] static Result<std::shared_ptr<Lent>> make(GatherElement const& bytes,
                                                          SourceLine where);
  /// Takes them back. Again: nothing happens.
  /// Errors:  system_failed  the device did not invalidate their key.
  Result<void> end() noexcept;

  verbs::LentPiece loan{};
  std::optional<Exposure> exposure{};  // none: the region is exposed as it is
  RemoteRegion remote{};
  bool is_over = false;
  std::optional<Error> failure{};  // why it is over, but for the peer
};

class LentMessages {
 public:
  [[nodiscard]] std::uint32_t count() const noexcept;
  /// A place for one more.
  [[nodiscard]] std::optional<std::uint32_t> free_place() const noexcept;
  void keep(std::uint32_t place, std::shared_ptr<Lent> lent) noexcept {
    places_[place] = std::move(lent);
  }
  /// The peer says which are over, a bit for each place. False, and nothing changed: one of them
  /// was not lent.
  [[nodiscard]] bool end(std::uint32_t places) noexcept;
  /// The connection has ended.
  void end_all(Error const& cause) noexcept;

 private:
  std::array<std::shared_ptr<Lent>, lent_max> places_{};
};

class Fetches {
 public:
  /// Messages of at most so many bytes, of a line that has these, if it has.
  Fetches(LentReads* reads, std::uint64_t bytes_max) noexcept
      : reads_{reads}, bytes_max_{bytes_max} {}

  /// One has come, in this slot of the line: what its note says. Or what is wrong with it.
  [[nodiscard]] char const* take(Line::Message const& message) noexcept;
  /// Whether there is one that is not over.
  [[nodiscard]] bool is_any() const noexcept { return count_ > 0; }
  /// The place of the message in this slot. Nothing: it was read, or was not lent.
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint32_t slot) const noexcept;
  [[nodiscard]] std::size_t length(std::uint32_t place) const noexcept {
    return places_[place]->bytes.size();
  }
  /// Begins or goes on to read it. True: it is there.
  /// Errors:  those of LentReads.
  [[nodiscard]] Result<bool> read(std::uint32_t place, ScatterElement const& target,
                                  SourceLine where) noexcept;
  /// The program lets go of the message in this slot, which may be one of these.
  void drop(std::uint32_t slot) noexcept;
  /// Ends those that were dropped while they were read, once that is over.
  void end_dropped() noexcept;
  /// That the peer is still to be told of, but for those that the program has.
  [[nodiscard]] std::uint32_t owed() const noexcept;

  /// Those that are over and that the peer was not told of: a bit for each place.
  [[nodiscard]] std::uint32_t untold() const noexcept { return untold_; }
  void note_told() noexcept { untold_ = 0; }

 private:
  struct Fetch {
    RemoteRegion bytes{};
    std::uint32_t slot = 0;
    ScatterElement target{};  // no region: not begun
    std::size_t asked = 0;    // bytes
    bool is_reading = false;  // those asked for are not known to be there
    bool is_dropped = false;
  };
  void end(std::uint32_t place) noexcept;
  /// The same once its READ is over.
  void end_read(std::uint32_t place) noexcept;

  LentReads* reads_;
  std::uint64_t bytes_max_;
  std::array<std::optional<Fetch>, lent_max> places_{};
  std::uint32_t count_ = 0;  // of these
  std::uint32_t untold_ = 0;
};

/// Errors:  invalid_argument  no message, or one of another length than the target's.
[[nodiscard]] Result<void> check_target(Received const& message,
                                        ScatterElement const& target) noexcept;

/// What a `lent` word comes with.
void store_note(std::span<std::byte> note, RemoteRegion const& bytes, std::uint32_t place) noexcept;

}  // namespace lend::transport
