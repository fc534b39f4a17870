// SPDX-License-Identifier: MIT OR Apache-2.0
// Words and messages through memory of one process. Each end one thread at a time.
#pragma once

#include <base/unique_fd.hpp>
#include <lend/transport/memory.hpp>
#include <transport/line.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace lend::transport {

/// What two lines share.
struct MemoryWire {
  struct Word {
    std::uint32_t bits = 0, slot = 0, length = 0;
    std::uint32_t late_polls = 0;
  };
  /// Of one end.
  struct Side {
    std::vector<std::byte> buffers{};
    std::vector<std::uint32_t> posted{};  // slots that take a message
    std::vector<Word> words{};            // that came: a ring
    std::size_t first = 0, count = 0;     // in words
    base::UniqueFd event{};
    bool is_armed = false;
    bool has_news = false;
    bool is_closed = false;
  };

  MemoryFaults faults{};
  std::uint32_t message_bytes = 0;
  std::mutex mutex{};  // of all below
  std::array<Side, 2> sides{};

  /// Errors:  exhausted  no descriptor.
  [[nodiscard]] static Result<std::shared_ptr<MemoryWire>> make(MemoryFaults const& faults,
                                                                std::uint32_t receives,
                                                                std::uint32_t message_bytes);
  /// Tells a side that something came.
  void wake(Side& side) const noexcept;
};

class MemoryLine final : public Line {
 public:
  MemoryLine(std::shared_ptr<MemoryWire> wire, std::size_t side);
  ~MemoryLine() override { close(); }

  [[nodiscard]] Result<std::optional<Arrival>> next() noexcept override;
  [[nodiscard]] Message message(Arrival const& arrival, std::uint32_t cell) noexcept override;
  void post_again(std::uint32_t slot) noexcept override;
  [[nodiscard]] std::optional<std::span<std::byte>> room(std::size_t least, std::size_t most,
                                                         std::uint32_t cell) noexcept override;
  [[nodiscard]] Result<bool> send(Word const& word, std::uint32_t cell) noexcept override;
  [[nodiscard]] std::uint32_t sends_in_flight() const noexcept override { return 0; }
  [[nodiscard]] Result<bool> poll() noexcept override;
  [[nodiscard]] Result<bool> arm() noexcept override;
  [[nodiscard]] Result<int> descriptor() const noexcept override { return own_.event.get(); }
  [[nodiscard]] Deadline look_again() const noexcept override;
  void close() noexcept override;
  [[nodiscard]] std::shared_ptr<void const> keeps() const noexcept override { return wire_; }

 private:
  std::shared_ptr<MemoryWire> wire_;
  MemoryWire::Side& own_;
  MemoryWire::Side& peers_;
  bool is_first_;
  std::vector<std::byte> draft_;
  std::uint64_t words_sent_ = 0;
  bool has_died_ = false;  // by a fault
};

}  // namespace lend::transport
