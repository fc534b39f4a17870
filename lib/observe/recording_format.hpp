// SPDX-License-Identifier: MIT OR Apache-2.0
// The file of a recording, in the byte order of its host: a header, then a ring of events. One
// thread writes it, into mapped memory; others read it, mostly when that process is gone.
#pragma once

#include <lend/base/error.hpp>
#include <lend/base/work_failure.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lend::observe {

enum class EventKind : std::uint8_t {
  posted = 1,  ///< the device took a request
  completed,   ///< its completion was seen
  failed,      ///< the same, with a status that is no success; or it was given up
  broke,       ///< the channel, by `code`
  room_wait,   ///< a post found no room and waits
  unanswered,  ///< a keep-alive failed, and was not only flushed
};
inline constexpr std::uint8_t last_kind = static_cast<std::uint8_t>(EventKind::unanswered);

struct Event {
  std::uint64_t at = 0;     ///< ticks of the header's clock
  std::uint64_t bytes = 0;  ///< posted, or completed; of `broke`: the Errc
  std::uint32_t slot = 0;   ///< of the request; UINT32_MAX: none
  /// The how many-th message sent or received; 0: none. Of `broke` and `unanswered`: the device's
  /// vendor code.
  std::uint32_t message = 0;
  std::uint32_t line = 0;      ///< of the post
  std::uint8_t file = 0;       ///< of the post: from 1 in the header's list; 0: unknown
  std::uint8_t kind = 0;       ///< EventKind
  std::uint8_t operation = 0;  ///< Operation
  std::uint8_t status = 0;     ///< WorkStatus; of `broke`: 0 if no work request failed
};
static_assert(sizeof(Event) == 32);

inline constexpr std::uint32_t no_slot = UINT32_MAX;

[[nodiscard]] constexpr std::string_view name_of(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::posted: return "posted";
    case EventKind::completed: return "completed";
    case EventKind::failed: return "failed";
    case EventKind::broke: return "the channel broke";
    case EventKind::room_wait: return "a post waits for room";
    case EventKind::unanswered: return "the keep-alive failed";
  }
  return "";
}
/// "retry_exceeded (vendor code 0x81)"
[[nodiscard]] inline std::string status_of(Event const& event) {
  std::string text{lend::name_of(static_cast<WorkStatus>(event.status))};
  if (event.message == 0) return text;
  std::array<char, 12> code{};
  auto const end = std::to_chars(code.begin(), code.end(), event.message, 16).ptr;
  return text + " (vendor code 0x" + std::string{code.begin(), end} + ')';
}
/// "completed send of 8 bytes, slot 3"
[[nodiscard]] inline std::string text_of(Event const& event) {
  auto const kind = static_cast<EventKind>(event.kind);
  std::string text{name_of(kind)};
  if (kind == EventKind::room_wait) return text;
  if (kind == EventKind::unanswered) return text + ": " + status_of(event);
  if (kind == EventKind::broke) {
    text += ": " + std::string{lend::name_of(static_cast<Errc>(event.bytes))};
    return event.status == 0 ? text : text + ", " + status_of(event);
  }
  text += ' ' + std::string{lend::name_of(static_cast<Operation>(event.operation))} + " of " +
          std::to_string(event.bytes) + (event.bytes == 1 ? " byte" : " bytes");
  if (event.slot != no_slot) text += ", slot " + std::to_string(event.slot);
  if (kind == EventKind::failed)
    text += ": " + std::string{lend::name_of(static_cast<WorkStatus>(event.status))};
  return text;
}

/// One end of a connection.
struct EndName {
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t queue_pair = 0;
  std::uint32_t lid = 0;

  friend bool operator==(EndName const&, EndName const&) = default;
};

inline constexpr std::uint64_t recording_magic = 0x33'63'65'72'64'6e'65'6c;  // "lendrec3"
inline constexpr std::uint32_t ring_events = 1024;
inline constexpr std::size_t file_names = 24;  // Event::file has one byte
inline constexpr std::size_t file_name_bytes = 80;

struct RecordingHeader {
  std::uint64_t magic = recording_magic;
  std::uint32_t event_bytes = sizeof(Event);
  std::uint32_t events = ring_events;
  std::uint32_t process = 0;
  std::uint32_t channel = 0;      ///< the how many-th of the process that records
  std::uint32_t has_counter = 0;  ///< 1: ticks are the CPU's, the same in all processes
  std::uint32_t is_ordered = 0;   ///< 1: messages arrive, once and in order
  double nanoseconds_a_tick = 1;
  std::uint64_t begun_at = 0;       ///< ticks
  std::uint64_t begun_at_real = 0;  ///< the same moment, in ns of CLOCK_REALTIME
  std::array<char, 40> boot{};      ///< of the host, or empty; strings end with 0
  std::array<char, 64> host{};
  std::array<char, 64> program{};
  EndName own{};
  EndName peer{};
  /// Events written so far. The ring has the last of them but for the oldest, which the next one
  /// may be replacing. Written with release after its event.
  alignas(64) std::uint64_t next = 0;
  alignas(64) std::array<std::array<char, file_name_bytes>, file_names> files{};
};
inline constexpr std::size_t header_bytes = 4096;
static_assert(sizeof(RecordingHeader) <= header_bytes);
inline constexpr std::size_t recording_bytes = header_bytes + ring_events * sizeof(Event);

}  // namespace lend::observe
