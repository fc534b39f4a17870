// SPDX-License-Identifier: MIT OR Apache-2.0
// What `lend bench` is asked to measure. Values.
#pragma once

#include <lend/base/result.hpp>

#include <command/command_line.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lend::tools {

/// What `lend bench` knows to measure, and by which calls.
inline constexpr auto bench_operations = std::to_array<std::string_view>({"send", "write", "read"});
inline constexpr auto bench_ways =
    std::to_array<std::string_view>({"scoped", "unsafe", "blocking", "batch"});

struct BenchOptions {
  enum class Role : std::uint8_t {
    both,  ///< two processes of this host
    near,  ///< measures; a peer listens at `address`
    far,   ///< listens at `address`, and answers one peer
  };

  Role role = Role::both;
  std::string address{};
  bool latency = true, bandwidth = true;
  std::vector<std::string_view> operations{bench_operations.begin(), bench_operations.end()};
  std::string_view via = "scoped";
  std::vector<std::size_t> sizes{8, 4096, 65536, 1048576};
  std::uint64_t count = 0;    ///< of rounds or messages; 0: what takes some 0.2 s
  std::string device{};       ///< empty: what open_device() takes
  std::string secret_in{};    ///< a file; empty: none
  bool own_memory = false;    ///< registered, where lend does not allocate it
  bool histogram = false;     ///< below the table
  std::string svg{}, hgrm{};  ///< files; empty: none
  bool json = false;
  bool tcp = false;  ///< latencies of TCP, too, between two processes of this host
};

inline constexpr std::string_view listen_address = "[::]:7472";
/// Whether a word is meant as HOST:PORT or unix:PATH.
[[nodiscard]] bool is_address(std::string_view word) noexcept;
inline constexpr std::uint64_t bench_count_max = std::uint64_t{1} << 24;

/// What the words of `lend bench` are put into.
struct BenchWords {
  BenchOptions options{};
  std::string listen_at{};           ///< empty: not said
  std::vector<std::string> words{};  ///< what is measured, and an address
  std::string of_near{};             ///< an option that only the end that measures takes, if any
};

extern command::About const about_bench;
/// Borrows: `words`, until the last parse of `line`.
void add_bench_options(command::CommandLine& line, BenchWords& words);
/// Errors:  invalid_argument  the message names the nearest word that is known.
[[nodiscard]] Result<BenchOptions> bench_options(BenchWords words);

}  // namespace lend::tools
