// SPDX-License-Identifier: MIT OR Apache-2.0
// All that counts in this process, and what that has counted which is no more. Any thread.
#pragma once

#include <observe/tally.hpp>
#include <observe/totals.hpp>

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string_view>

namespace lend::observe {

class CountsFile;
class Observer;

class Registry {
 public:
  /// A forked child has its own: it takes no lock that a thread of its parent may have held, and
  /// none of its parent's observers. Throws std::bad_alloc.
  [[nodiscard]] static Registry& of_this_process();
  Registry(Registry const&) = delete;
  Registry& operator=(Registry const&) = delete;

  /// Of what is observed by that name. Throws std::bad_alloc.
  [[nodiscard]] std::size_t series_of(std::string_view name);
  /// Of an Observer or a Tally.
  template <class Counting>
  void join(Counting& it) noexcept;
  /// What it has counted stays. Of no effect in a forked child, if it is the parent's.
  template <class Counting>
  void leave(Counting& it) noexcept;
  /// Throws std::bad_alloc.
  [[nodiscard]] Counts counts() const;

  /// Memory for an Observer or a Tally: in the file of counts if LEND_METRICS names a directory,
  /// which is made then. Throws std::bad_alloc.
  template <class Counting>
  [[nodiscard]] static void* allocate(std::size_t bytes);
  static void free(void* block) noexcept;

 private:
  explicit Registry(Registry* of_parent) noexcept;
  [[nodiscard]] Observer*& first_of(Observer const&) noexcept { return first_observer_; }
  [[nodiscard]] Tally*& first_of(Tally const&) noexcept { return first_tally_; }
  static void add(Observer const& observer, Counts& to) noexcept;
  static void add(Tally const& tally, Counts& to) noexcept;
  // Under the lock.
  static void begin_in(CountsFile& file, Observer const& it) noexcept;
  static void begin_in(CountsFile& file, Tally const& it) noexcept;
  void end_in(CountsFile& file, Observer const& it) const noexcept;
  void end_in(CountsFile& file, Tally const& it) const noexcept;
  [[nodiscard]] CountsFile* file() const noexcept;  ///< null: there is none
  void make_file() noexcept;
  static void leave_file_to_parent() noexcept;

  ::pid_t const process_;
  Registry* const of_parent_;  // for leak checkers
  std::mutex mutable mutex_{};
  Counts ended_{};
  Observer* first_observer_ = nullptr;
  Tally* first_tally_ = nullptr;
  bool has_tried_ = false;                  // to make a file
  std::atomic<CountsFile*> file_{nullptr};  // never destroyed: it is mapped while blocks may count
};

}  // namespace lend::observe
