// SPDX-License-Identifier: MIT OR Apache-2.0
// A rendezvous directory and shared memory for one test of the soft device. One thread.
#pragma once

#include <stdlib.h>
#include <soft/peers/slot.hpp>
#include <soft/platform/shared_memory.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/catch.hpp"
#include "support/new_directory.hpp"
#include "support/seed.hpp"

namespace lend::test {

/// Where soft devices meet that are opened now.
inline soft::RendezvousDirectory meeting_place() {
  soft::RendezvousDirectory chosen;
  REQUIRE(chosen.choose() == 0);
  return chosen;
}

/// While it lives, soft devices of this process and its children meet in a directory of their own.
class Rendezvous {
 public:
  Rendezvous() { REQUIRE(::setenv("LEND_SOFT_DIRECTORY", directory_.path().c_str(), 1) == 0); }
  Rendezvous(Rendezvous const&) = delete;
  Rendezvous& operator=(Rendezvous const&) = delete;
  ~Rendezvous() { ::unsetenv("LEND_SOFT_DIRECTORY"); }

  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path slot(std::uint32_t number) const {
    return path_ / ("slot." + std::to_string(number));
  }
  [[nodiscard]] std::size_t slot_files() const {
    std::size_t count = 0;
    for (auto const& entry : std::filesystem::directory_iterator{path_})
      if (entry.path().filename().string().starts_with("slot.")) ++count;
    return count;
  }

 private:
  NewDirectory directory_{};
  std::filesystem::path path_{directory_.path()};
};

/// A zeroed T that forked children share.
template <class T>
class Shared {
 public:
  Shared() : file_{soft::make_memory_file("lend.test", sizeof(T))} {
    REQUIRE(file_);
    mapping_ = soft::Mapping::of(file_.get(), sizeof(T));
    REQUIRE(mapping_);
  }
  T& operator*() const noexcept { return *reinterpret_cast<T*>(mapping_.base()); }
  T* operator->() const noexcept { return &**this; }
  [[nodiscard]] int file() const noexcept { return file_.get(); }

 private:
  base::UniqueFd file_;
  soft::Mapping mapping_;
};

/// What a process holds open and maps, as the kernel tells it.
struct Holdings {
  std::size_t descriptors = 0;
  std::size_t memory_files = 0;  // mapped
  bool operator==(Holdings const&) const = default;

  static Holdings now() {
    Holdings held;
    for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator{"/proc/self/fd"})
      ++held.descriptors;
    std::ifstream maps{"/proc/self/maps"};
    for (std::string line; std::getline(maps, line);)
      if (line.find("memfd:lend.") != std::string::npos) ++held.memory_files;
    return held;
  }
};

}  // namespace lend::test
