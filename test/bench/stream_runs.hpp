// SPDX-License-Identifier: MIT OR Apache-2.0
// What one run of `streams` or `asio_streams` measures: half of a round trip, or parts one way
// until the peer says that it has all. One thread.
#pragma once

#include "pair.hpp"

#include <lend/stream/byte_stream.hpp>
#include <lend/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace lend::bench {

constexpr std::size_t read_at_once = std::size_t{64} << 10;

/// KIND latency|rate BYTES COUNT [DEVICE], which is the soft device where it is not named.
struct StreamRun {
  std::string_view kind{}, what{};
  std::size_t bytes = 0;
  std::uint64_t count = 0;  ///< of rounds, or of parts
};

/// A stream between the two ends.
[[nodiscard]] Result<ByteStream> connect_stream(End const& end, TransportOptions const& options);

/// Of the rounds' microseconds.
[[nodiscard]] double median_of(std::vector<double>& took);

/// What main() of `program` does: its exit status, after it said what is wrong. `run` measures: the
/// median of half a round trip in microseconds, or parts a second.
[[nodiscard]] int run_streams(std::span<char* const> words, char const* program,
                              std::initializer_list<std::string_view> kinds,
                              Result<double> (*run)(End const&, StreamRun const&));

}  // namespace lend::bench
