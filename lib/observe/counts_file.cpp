// SPDX-License-Identifier: MIT OR Apache-2.0
// Makes the file and keeps its list of blocks.
#include <base/first_line.hpp>
#include <observe/counts_file.hpp>
#include <observe/counts_places.hpp>
#include <observe/observer.hpp>
#include <observe/own_file.hpp>
#include <observe/tally.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

namespace lend::observe {

/// A reader that comes meanwhile looks again.
class CountsFile::Change {
 public:
  explicit Change(CountsHeader& header) noexcept : changes_{header.changes} {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // Release: who sees a part of the change sees that it has begun.
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Change() {
    changes_.store(changes_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  Change(Change const&) = delete;
  Change& operator=(Change const&) = delete;

 private:
  std::atomic_ref<std::uint32_t> changes_;
};

Result<CountsFile*> CountsFile::create(std::string const& directory) {
  static std::atomic<std::uint32_t> numbers{0};
  FileKind const kind{.many = "metrics",
                      .one = "file of metrics",
                      .ending = counts_ending,
                      .bytes = counts_bytes,
                      .with_space = sizeof(CountsHeader),
                      .numbers = numbers};
  auto const host = host_name();
  auto const program = base::first_line_of("/proc/self/comm");
  LEND_TRY(made, make_own_file(directory, kind, [&](OwnFile const& file, std::uint32_t) {
             auto& header = *new (file.mapped) CountsHeader;
             header.process = static_cast<std::uint32_t>(::getpid());
             keep_end(header.host, host);
             keep_end(header.program, program);
             // Held until this process ends, however it does: a reader asks for it.
             if (::flock(file.file.get(), LOCK_EX | LOCK_NB) == 0) return Result<void>{success()};
             return Result<void>{Error::from_errno("flock of a file of metrics", errno)};
           }));
  return new CountsFile{made.mapped, std::move(made.file)};
}

CountsFile::CountsFile(void* mapped, base::UniqueFd file) noexcept
    : header_{*static_cast<CountsHeader*>(mapped)}, file_{std::move(file)} {}

CountsFile::Places CountsFile::observers() noexcept {
  return {header_.observers, reinterpret_cast<std::byte*>(&header_) + observers_begin,
          observer_stride};
}
CountsFile::Places CountsFile::tallies() noexcept {
  return {header_.tallies, reinterpret_cast<std::byte*>(&header_) + tallies_begin, tally_stride};
}

void* CountsFile::take(Places const& places) noexcept {
  auto const state = std::ranges::find(places.states, free_place);
  if (state == places.states.end()) return nullptr;
  std::byte* const place =
      places.first + places.bytes * static_cast<std::size_t>(state - places.states.begin());
  // A store without space would be a SIGBUS.
  auto const at = static_cast<off_t>(place - reinterpret_cast<std::byte*>(&header_));
  if (::posix_fallocate(file_.get(), at, static_cast<off_t>(places.bytes)) != 0) return nullptr;
  set(&*state, held_place);
  return place;
}

std::uint16_t* CountsFile::state_of(Places const& places, void const* block) noexcept {
  // As numbers: the block may be none of the file. One before the first is far behind the last.
  auto const at =
      reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(places.first);
  auto const place = at / places.bytes;
  return place < places.states.size() ? &places.states[place] : nullptr;
}

void CountsFile::set(std::uint16_t* state, std::uint16_t to) noexcept {
  Change const change{header_};
  *state = to;
}

bool CountsFile::has(void const* block) noexcept {
  return state_of(observers(), block) != nullptr || state_of(tallies(), block) != nullptr;
}

void CountsFile::give_back(void* block) noexcept {
  auto* const of_observer = state_of(observers(), block);
  set(of_observer != nullptr ? of_observer : state_of(tallies(), block), free_place);
}

void CountsFile::name(std::size_t series, std::string const& text) noexcept {
  Change const change{header_};
  header_.series[series] = {};
  keep_end(header_.series[series], text);
  header_.names = std::max(header_.names, static_cast<std::uint32_t>(series + 1));
}

void CountsFile::begin(Observer const& block, std::size_t series) noexcept {
  auto const offset = [&block](auto const& member) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::byte const*>(&member) -
                                      reinterpret_cast<std::byte const*>(&block));
  };
  Change const change{header_};
  header_.observer = {sizeof(Observer), offset(block.metrics.operations),
                      offset(block.metrics.peer_loans), offset(block.metrics.room_waits),
                      offset(block.channels_)};
  if (auto* const state = state_of(observers(), &block))
    *state = static_cast<std::uint16_t>(counting_place + series);
  else
    ++header_.hidden;
}

void CountsFile::begin(Tally const& block) noexcept {
  Change const change{header_};
  header_.tally = {sizeof(Tally),
                   static_cast<std::uint32_t>(reinterpret_cast<std::byte const*>(&block.counted_) -
                                              reinterpret_cast<std::byte const*>(&block))};
  if (auto* const state = state_of(tallies(), &block))
    *state = counting_place;
  else
    ++header_.hidden;
}

void CountsFile::end(Observer const& block, std::size_t series, Totals const& ended) noexcept {
  Change const change{header_};
  header_.ended[series] = ended;
  if (auto* const state = state_of(observers(), &block))
    *state = held_place;
  else
    --header_.hidden;
}

void CountsFile::end(Tally const& block, Tallies const& ended) noexcept {
  Change const change{header_};
  header_.ended_tallies = ended;
  if (auto* const state = state_of(tallies(), &block))
    *state = held_place;
  else
    --header_.hidden;
}

void CountsFile::be_private() noexcept {
  // Source: mmap(2), MAP_FIXED and MAP_PRIVATE. Where it fails the child counts in its parent's
  // blocks if it ends the parent's channels.
  ::mmap(&header_, counts_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_.get(), 0);
  ::close(file_.release());  // and with it its part of the lock
}

}  // namespace lend::observe
