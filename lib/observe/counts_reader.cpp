// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the file of a process that may be counting in it, or a file that is none. Any thread.
#include <base/printable.hpp>
#include <base/unique_fd.hpp>
#include <observe/counting.hpp>
#include <observe/counts_file.hpp>
#include <observe/counts_places.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <type_traits>
#include <utility>
#include <vector>

namespace lend::observe {

namespace {

static_assert(std::is_trivially_copyable_v<CountsHeader> &&
              std::is_trivially_copyable_v<OperationMetrics>);

Error refused(std::string const& path, std::string const& why) {
  return {Errc::incompatible_peer, base::shown(path, 200) + ' ' + why};
}

class Reader {
 public:
  explicit Reader(std::string const& path) : path_{path} {}

  Result<ProcessCounts> read() {
    // Nonblocking: it may be a pipe.
    file_ = base::UniqueFd{::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
    if (!file_) return Error::from_errno("open of " + path_, errno);
    struct stat facts {};
    if (::fstat(file_.get(), &facts) != 0) return Error::from_errno("fstat of " + path_, errno);
    if (!S_ISREG(facts.st_mode)) return refused(path_, "is no file");
    // Before it is read: what a process counted until its end is then told.
    bool const is_running = ::flock(file_.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::flock(file_.get(), LOCK_UN);
    if (facts.st_size < static_cast<off_t>(counts_bytes))
      return refused(path_, "is truncated, or none of metrics");
    for (int i = 0;; ++i) {
      auto read = read_once();
      std::uint32_t after = 0;
      LEND_TRYV(read_at(offsetof(CountsHeader, changes), &after, sizeof after));
      // What was read during a change may look damaged. A process killed in one left it so.
      bool const is_whole = after == header_.changes && after % 2 == 0;
      if (is_whole || !is_running || i == times_tried) {
        LEND_TRY(counts, std::move(read));
        counts.is_running = is_running;
        if (!is_running) {
          counts.counts.tallies.end_pools();
          for (auto& [name, totals] : counts.counts.series)
            totals.channels.working = totals.channels.broken = 0;
        }
        return counts;
      }
      constexpr timespec moment{0, 1'000'000};
      ::nanosleep(&moment, nullptr);
    }
  }

 private:
  static constexpr int times_tried = 100;

  Result<void> read_at(std::size_t offset, void* to, std::size_t bytes) {
    auto const got = ::pread(file_.get(), to, bytes, static_cast<off_t>(offset));
    if (got < 0) return Error::from_errno("pread of " + path_, errno);
    if (static_cast<std::size_t>(got) != bytes) return refused(path_, "is truncated");
    return success();
  }

  Result<void> check() {
    if (header_.magic != counts_magic)
      return refused(path_, "has no metrics of lend, or those of another version or byte order");
    auto const& block = header_.observer;
    bool const is_other = header_.totals_bytes != sizeof(Totals) ||
                          header_.tallies_bytes != sizeof(Tallies) ||
                          (block.bytes != 0 && block.bytes != sizeof(Observer)) ||
                          (header_.tally.bytes != 0 && header_.tally.bytes != sizeof(Tally));
    if (is_other) return refused(path_, "has metrics of another version of lend");
    auto const fits = [](std::size_t at, std::size_t bytes, std::size_t of) {
      return at <= of && bytes <= of - at;
    };
    constexpr auto whole = sizeof(Observer);
    bool are_sound = header_.names <= series_max &&
                     fits(block.operations, sizeof(ChannelMetrics::operations), whole) &&
                     fits(block.peer_loans, sizeof(PeerLoanMetrics), whole) &&
                     fits(block.room_waits, sizeof(std::uint64_t), whole) &&
                     fits(block.channels, sizeof(ChannelCounts), whole) &&
                     fits(header_.tally.counted, sizeof(Tallies), sizeof(Tally));
    auto const ends = [](auto const& text) { return std::ranges::find(text, '\0') != text.end(); };
    are_sound = are_sound && ends(header_.host) && ends(header_.program) &&
                std::ranges::all_of(header_.series, ends);
    return are_sound ? Result<void>{success()} : refused(path_, "is damaged");
  }

  Result<ProcessCounts> read_once() {
    LEND_TRYV(read_at(0, &header_, sizeof header_));
    LEND_TRYV(check());
    ProcessCounts read{.process = header_.process,
                       .host = base::shown(header_.host.data()),
                       .program = base::shown(header_.program.data()),
                       .hidden = header_.hidden};
    for (std::size_t i = 0; i < header_.names; ++i)
      read.counts.series.push_back({base::shown(header_.series[i].data()), header_.ended[i]});
    read.counts.tallies = header_.ended_tallies;
    for (std::size_t i = 0; i < observers_max; ++i) {
      if (header_.observers[i] < counting_place) continue;
      std::size_t const series = header_.observers[i] - counting_place;
      if (series >= header_.names) return refused(path_, "is damaged: a block in it has no name");
      LEND_TRYV(
          add_observer(observers_begin + i * observer_stride, read.counts.series[series].totals));
    }
    for (std::size_t i = 0; i < tallies_max; ++i) {
      if (header_.tallies[i] < counting_place) continue;
      Tallies counted;
      LEND_TRYV(read_at(tallies_begin + i * tally_stride + header_.tally.counted, &counted,
                        sizeof counted));
      read.counts.tallies += counted;
    }
    return read;
  }

  Result<void> add_observer(std::size_t at, Totals& to) {
    auto const& places = header_.observer;
    PeerLoanMetrics loans;
    std::uint64_t room_waits = 0;
    ChannelCounts channels;
    LEND_TRYV(read_at(at + places.operations, &operations_, sizeof operations_));
    LEND_TRYV(read_at(at + places.peer_loans, &loans, sizeof loans));
    LEND_TRYV(read_at(at + places.room_waits, &room_waits, sizeof room_waits));
    LEND_TRYV(read_at(at + places.channels, &channels, sizeof channels));
    for (OperationMetrics const& its : operations_) {
      double const unit = HistogramAccess::unit_of(its.latency);
      if (!std::isfinite(unit) || unit < 1e-3 || unit > 1e6)
        return refused(path_, "is damaged: its clock has no rate");
    }
    to.add_counted(operations_, loans, room_waits, channels);
    return success();
  }

  std::string const& path_;
  base::UniqueFd file_{};
  CountsHeader header_{};
  std::array<OperationMetrics, 5> operations_{};
};

}  // namespace

Result<ProcessCounts> read_counts(std::string const& path) {
  return std::make_unique<Reader>(path)->read();
}

}  // namespace lend::observe
