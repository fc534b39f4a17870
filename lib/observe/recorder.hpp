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
#include <memory>
#include <string>

namespace lend::observe {

class Recorder {
 public:
  /// In a new file of the directory `path`, which is made if it is missing.
  /// Errors:  denied         it is another user's, others may write to it, it cannot be written, or
  ///                         it is a symbolic link or no directory.
  ///          not_found      the directory above it is missing.
  ///          exhausted      its file system is full, or RLIMIT_FSIZE forbids 36 KiB.
  [[nodiscard]] static Result<std::unique_ptr<Recorder>> create(std::string const& path,
                                                                Clock const& clock);
  Recorder(Recorder const&) = delete;
  Recorder& operator=(Recorder const&) = delete;
  ~Recorder();

  /// The connection is known.
  void name_ends(EndName const& own, EndName const& peer, bool is_ordered) noexcept;

  void add(Event const& event) noexcept {
    ring_[next_ % ring_events] = event;
    publish();
  }
  /// The same of a post by a line of `file`, which is null if that is unknown.
  [[gnu::always_inline]] void add(Event const& event, char const* file) noexcept {
    if (file == nullptr) return add(event);
    Event& place = ring_[next_ % ring_events];
    place = event;
    Known const& known = known_[reinterpret_cast<std::uintptr_t>(file) / 16 % known_.size()];
    if (known.file != file) [[unlikely]]
      return name_and_publish(file);
    place.file = known.index;
    publish();
  }
  [[nodiscard]] std::uint32_t next_sent() noexcept { return ++sent_; }
  [[nodiscard]] std::uint32_t next_received() noexcept { return ++received_; }

  [[nodiscard]] bool is_of_this_process() const noexcept;
  /// The last `count` events, one line each, the latest last. Throws std::bad_alloc.
  [[nodiscard]] std::string last(std::uint64_t count, std::uint64_t now) const;

 private:
  struct Known {
    char const* file = nullptr;
    std::uint16_t index = 0;
  };

  void publish() noexcept {
    // Release: the event is there before it counts. Pairs with the acquire of a reader of the file.
    std::atomic_ref{header_.next}.store(++next_, std::memory_order_release);
  }
  void name_and_publish(char const* file) noexcept;
  Recorder(void* mapped, Clock const& clock, std::uint32_t number) noexcept;
  [[nodiscard]] std::uint16_t find_index_of(char const* file) noexcept;

  RecordingHeader& header_;
  Event* ring_;
  std::uint64_t next_ = 0;
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
  std::array<Known, 64> known_{};
  std::array<char const*, file_names> named_{};  // in the header's order
};

}  // namespace lend::observe
