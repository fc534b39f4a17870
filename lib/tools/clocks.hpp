// SPDX-License-Identifier: MIT OR Apache-2.0
// Places the events of recordings of several hosts on one clock. Values.
#pragma once

#include <tools/recording.hpp>

#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lend::tools {

/// The recording of the peer of each, if there is one.
[[nodiscard]] std::vector<std::optional<std::size_t>> peers_of(std::vector<Recording> const& all);

/// Recordings of one host share its clock. Clocks of two hosts are first as far apart as their
/// clocks of real time say. Then no message may be received before it was sent: each one from the
/// first host to the second bounds from below how far the second clock is ahead, each one back from
/// above. In between is the offset, and the middle is taken. If nothing is in between, one clock
/// runs faster, or a post was interrupted before its time was taken.
class Clocks {
 public:
  /// Borrows: `all`, as long as it exists.
  explicit Clocks(std::vector<Recording> const& all);

  /// In ns, on the clock of the first recording.
  [[nodiscard]] double time_of(std::size_t recording, observe::Event const& event) const;
  /// A sentence about each further host, and about each two whose messages contradict.
  [[nodiscard]] std::vector<std::string> text() const;

 private:
  /// How far the second of two clocks is to be moved relative to the first, in ns.
  struct Bounds {
    double least = -std::numeric_limits<double>::infinity();
    double most = std::numeric_limits<double>::infinity();

    [[nodiscard]] bool has_both() const noexcept;
    [[nodiscard]] double best() const noexcept;
    /// By how much an offset is beyond them.
    [[nodiscard]] double misses(double offset) const noexcept;
    [[nodiscard]] Bounds reversed() const noexcept { return {-most, -least}; }
  };
  struct Host {
    std::size_t reference;       // its first recording
    double offset = 0;           // what its times are moved by, in ns
    std::size_t to = 0;          // the host that it was aligned to
    std::optional<Bounds> by{};  // relative to that; none: no message
  };

  void bound(std::vector<Recording> const& all);
  [[nodiscard]] std::optional<Bounds> between(std::size_t one, std::size_t other) const;
  /// Aligns each host to one that is aligned, where they are known best.
  void align();
  [[nodiscard]] std::string name_of(std::size_t host) const;

  std::vector<Recording> const& all_;
  std::vector<Host> hosts_{};
  std::vector<std::size_t> host_of_{};                              // of each recording
  std::map<std::pair<std::size_t, std::size_t>, Bounds> bounds_{};  // of hosts, the lower first
};

}  // namespace lend::tools
