// SPDX-License-Identifier: MIT OR Apache-2.0
// The file of what a process counts where LEND_METRICS names a directory, in the byte order of its
// host: names, what has ended, and the blocks in which channels, transports, groups, listeners and
// pools count. It is mapped: nothing has to be written out, and it is whole where a process hangs
// or was killed.
#pragma once

#include <lend/base/export.hpp>
#include <lend/base/result.hpp>

#include <base/unique_fd.hpp>
#include <observe/totals.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lend::observe {

class Observer;
class Tally;

inline constexpr std::uint64_t counts_magic = 0x32'74'65'6d'64'6e'65'6c;  // "lendmet2"
inline constexpr char counts_ending[] = ".metrics";
inline constexpr std::size_t series_max = names_max + 1;
inline constexpr std::size_t observers_max = 1024;
inline constexpr std::size_t tallies_max = 4096;

struct CountsHeader {
  std::uint64_t magic = counts_magic;
  std::uint32_t totals_bytes = sizeof(Totals);
  std::uint32_t tallies_bytes = sizeof(Tallies);
  std::uint32_t process = 0;
  /// Of a block of channels: its size, and where in it are OperationMetrics, PeerLoanMetrics, room
  /// waits and ChannelCounts. 0 until there is one.
  struct {
    std::uint32_t bytes, operations, peer_loans, room_waits, channels;
  } observer{};
  /// Of one of a transport or group: likewise its Tallies.
  struct {
    std::uint32_t bytes, counted;
  } tally{};
  /// Odd while names, places or what has ended are being changed.
  std::uint32_t changes = 0;
  std::uint32_t names = 0;
  std::uint32_t hidden = 0;  ///< blocks that found no place: they are seen once they have ended
  std::array<char, 64> host{}, program{};  // strings end with 0
  std::array<std::array<char, 64>, series_max> series{};
  std::array<Totals, series_max> ended{};
  Tallies ended_tallies{};
  /// By place: free_place, held_place, or counting_place and the block's series.
  std::array<std::uint16_t, observers_max> observers{};
  std::array<std::uint16_t, tallies_max> tallies{};
};
inline constexpr std::uint16_t free_place = 0, held_place = 1, counting_place = 2;

/// All of it is locked by the registry but has() and be_private().
class CountsFile {
 public:
  /// Never null. It stays until the process ends, because blocks may count in it.
  /// Errors:  those of make_own_file().
  [[nodiscard]] static Result<CountsFile*> create(std::string const& directory);
  CountsFile(CountsFile const&) = delete;
  CountsFile& operator=(CountsFile const&) = delete;
  ~CountsFile() = delete;

  /// For a block. Null: none is free, or the file system is full.
  [[nodiscard]] void* place_for(Observer const*) noexcept { return take(observers()); }
  [[nodiscard]] void* place_for(Tally const*) noexcept { return take(tallies()); }
  /// Whether it is one of these.
  [[nodiscard]] bool has(void const* block) noexcept;
  void give_back(void* block) noexcept;

  void name(std::size_t series, std::string const& text) noexcept;
  /// The block counts, or does no more, with what is now the sum of those that have ended.
  void begin(Observer const& block, std::size_t series) noexcept;
  void begin(Tally const& block) noexcept;
  void end(Observer const& block, std::size_t series, Totals const& ended) noexcept;
  void end(Tally const& block, Tallies const& ended) noexcept;

  /// In a forked child: its blocks are a copy from now on. Async-signal-safe.
  void be_private() noexcept;

 private:
  struct Places {
    std::span<std::uint16_t> states;
    std::byte* first;
    std::size_t bytes;  ///< of each
  };
  class Change;

  CountsFile(void* mapped, base::UniqueFd file) noexcept;
  [[nodiscard]] Places observers() noexcept;
  [[nodiscard]] Places tallies() noexcept;
  [[nodiscard]] void* take(Places const& places) noexcept;
  /// Null: it is in none.
  [[nodiscard]] static std::uint16_t* state_of(Places const& places, void const* block) noexcept;
  void set(std::uint16_t* state, std::uint16_t to) noexcept;

  CountsHeader& header_;
  base::UniqueFd file_;
};

/// What one file says.
struct ProcessCounts {
  std::uint32_t process = 0;
  std::string host{}, program{};
  bool is_running = false;
  std::uint32_t hidden = 0;  ///< blocks that are not in it
  Counts counts{};
};
/// Errors:  incompatible_peer  no such file, one of another version, or a damaged one; the message
///                             says what is wrong.
///          else               as open(2) and pread(2) fail.
[[nodiscard]] LEND_EXPORT Result<ProcessCounts> read_counts(std::string const& path);

}  // namespace lend::observe
