// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes the recording of one channel. The thread of the channel.
//
// The file is mapped, and each event complete before it counts: whatever ends the process, the file
// has all events until then, and nothing has to be written out. The file's space is allocated
// beforehand, because a store into a mapped file without space would be a SIGBUS.
#pragma once

#include <lend/base/result.hpp>
#include <lend/base/source_line.hpp>
#include <lend/base/work_failure.hpp>

#include <observe/clock.hpp>
#include <observe/recording_format.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace lend::observe {

class Recorder {
 public:
  /// In a new file of the directory `path`, which is made if it is missing.
  /// Errors:  denied         it is another user's, others may write to it, it cannot be written, or
  ///                         it is a symbolic link or no directory.
  ///          not_found      the directory above it is missing.
  ///          exhausted      its file system is full, or RLIMIT_FSIZE forbids 36 KiB.
  [[nodiscard]] static Result<Recorder> create(std::string const& path, Clock const& clock);
  Recorder(Recorder&& other) noexcept;
  Recorder& operator=(Recorder&&) = delete;
  ~Recorder();

  /// The connection is known.
  void name_ends(EndName const& own, EndName const& peer, bool is_ordered) noexcept;

  [[gnu::always_inline]] void add(Event const& event) noexcept {
    std::uint64_t const next = map_->header.next;
    map_->ring[next % ring_events] = event;
    // Release: the event is there before it counts. Pairs with the acquire of a reader of the file.
    std::atomic_ref{map_->header.next}.store(next + 1, std::memory_order_release);
  }
  /// Whether index_of() knows `file`, which is null where it is unknown. If not, learn() it.
  [[nodiscard]] bool knows(char const* file) const noexcept { return entry_of(file).file == file; }
  /// For Event::file.
  [[nodiscard]] std::uint8_t index_of(char const* file) const noexcept {
    return entry_of(file).index;
  }
  void learn(char const* file) noexcept;
  [[nodiscard]] std::uint32_t next_sent() noexcept { return ++sent_; }
  [[nodiscard]] std::uint32_t next_received() noexcept { return ++received_; }

  [[nodiscard]] bool is_of_this_process() const noexcept;
  /// The last `count` events, one line each, the latest last. Throws std::bad_alloc.
  [[nodiscard]] std::string last(std::uint64_t count, std::uint64_t now) const;

 private:
  struct Map;
  explicit Recorder(Map& map) noexcept : map_{&map} {}
  static void begin(Map& map, Clock const& clock, std::uint32_t number) noexcept;
  struct Known {
    char const* file = nullptr;
    std::uint8_t index = 0;
  };
  [[nodiscard]] Known const& entry_of(char const* file) const noexcept {
    return known_[reinterpret_cast<std::uintptr_t>(file) / 16 % known_.size()];
  }

  struct Map {
    RecordingHeader header;
    alignas(header_bytes) std::array<Event, ring_events> ring;
  };
  static_assert(sizeof(Map) == recording_bytes);

  Map* map_;  // null once it was moved from
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
  std::array<Known, 64> known_{};
  std::array<char const*, file_names> named_{};  // in the header's order
};

}  // namespace lend::observe
