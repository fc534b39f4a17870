// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a message that a thread stores in a mailbox is whole once its number is seen, whatever its
// slot had before, and a slot has a new one only after the old one was read; under every schedule,
// and wherever the writer dies. Method: the library's own stores and looks, on words of the
// explorer. A writer has a window of one or two messages, and goes on as it learns that they were
// freed.
#include <group/link/mailbox.hpp>
#include <group/link/send_window.hpp>
#include <group/link/written_message.hpp>

#include "interleave/explorer.hpp"
#include "interleave/slot.hpp"
#include "support/catch.hpp"

#include <array>
#include <cstring>
#include <memory>

using namespace lend::interleave;
using namespace lend::group;

namespace {

using Look = WrittenMessage::Look;
constexpr std::size_t words = WrittenMessage::bytes / sizeof(std::uint64_t);

/// One direction of a link: a mailbox, and the word by which its reader tells what it has freed.
class Line {
 public:
  explicit Line(std::uint32_t window) : window_{window}, sent_{window} {}

  void write(std::uint32_t messages) {
    for (std::uint32_t number = 1; number <= messages; ++number) {
      if (sent_.is_full()) {
        auto const freed = ModelSlot{&freed_}.load(0);
        expect(sent_.update(static_cast<std::uint32_t>(freed)), "more was freed than was sent");
        if (sent_.is_full()) return;  // it would look again
        ModelSlot::fence();           // where a slot is free it was read
      }
      auto const value = value_of(number);
      std::array<std::byte, sizeof value> bytes{};
      std::memcpy(bytes.data(), &value, sizeof value);
      WrittenMessage::store(slot_of(number), number, note_of(number), bytes.data());
      sent_.note_sent(1);
    }
  }
  /// Looks so often.
  void read(std::uint32_t looks) {
    std::uint32_t next = 1;
    for (std::uint32_t i = 0; i < looks; ++i) {
      bool const has_come = slot_of(next).load(0) >> 32 == next;
      std::uint32_t freed = 0;
      std::array<std::byte, sizeof(std::uint64_t)> bytes{};
      auto const found =
          WrittenMessage::look(slot_of(next), next, note_of(next), freed, bytes.data());
      expect(!has_come || found == Look::expected, "a message whose number has come is not whole");
      if (found != Look::expected) continue;
      std::uint64_t value = 0;
      std::memcpy(&value, bytes.data(), sizeof value);
      expect(value == value_of(next), "a message has values of another");
      expect(freed == next, "a message says what another does");
      ModelSlot{&freed_}.store(0, Mailbox::word_of(next++), std::memory_order_release);
    }
  }

 private:
  static std::uint64_t value_of(std::uint32_t number) { return 0x0101'0101'0101'0101u * number; }
  static MessageHead note_of(std::uint32_t number) {
    return {.freed = number, .signature = 3, .number = number, .length = sizeof(std::uint64_t)};
  }
  ModelSlot slot_of(std::uint32_t number) { return {&words_[(number & (window_ - 1)) * words]}; }

  std::uint32_t window_;
  SendWindow sent_;
  std::array<ModelWord, 2 * words> words_{};
  ModelWord freed_{Mailbox::word_of(0)};
};

}  // namespace

TEST_CASE(
    "a stored message is whole once its number is seen, and its slot is used after it was read",
    "[interleave]") {
  auto const window = GENERATE(1u, 2u);
  bool const dies = GENERATE(false, true);
  CAPTURE(window, dies);
  auto const report = explore(
      [&](History& history) {
        auto const line = std::make_shared<Line>(window);
        std::function<void()> const write = [=] { line->write(3); };
        dies ? history.mortal(write) : history.actor(write);
        history.actor([=] { line->read(4); });
      },
      {2'000'000, 0, 2});
  INFO(report.histories << " histories");
  CHECK(report.failure == "");
  CHECK(report.is_complete);
  CHECK((report.with_deaths > 0) == dies);
}
