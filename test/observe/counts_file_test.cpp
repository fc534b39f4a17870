// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: where LEND_METRICS names a directory, another process reads there what this one counts,
// whether it runs, hangs or was killed; a damaged file is refused or read, and nothing worse.
// Method: children of fork(), which have counts and a file of their own, and wait to be killed.
#include <lend/observe/metrics.hpp>

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <base/own_directory.hpp>
#include <observe/counts_file.hpp>
#include <observe/observer.hpp>
#include <observe/tally.hpp>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "observe/recorded.hpp"
#include "soft/forbid.hpp"
#include "support/catch.hpp"
#include "support/new_directory.hpp"
#include "support/seed.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

constexpr auto sending = static_cast<std::size_t>(Operation::send);

/// A process that counts in `directory`: does `first`, tells that it has, and waits; or does `then`
/// again and again.
class Counting {
 public:
  template <class First, class Then = std::nullptr_t>
  Counting(std::string const& directory, First first, Then then = nullptr) {
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      ::setenv("LEND_METRICS", directory.c_str(), 1);
      auto const made = first();
      if (::write(pipe[1], "!", 1) != 1) ::_exit(1);
      if constexpr (!std::is_same_v<Then, std::nullptr_t>)
        for (;;) then(*made);
      for (;;) ::pause();
    }
    ::close(pipe[1]);
    char told = 0;
    CHECK(::read(pipe[0], &told, 1) == 1);
    ::close(pipe[0]);
  }
  Counting(Counting const&) = delete;
  Counting& operator=(Counting const&) = delete;
  ~Counting() { kill(); }

  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, 0), nullptr, 0);
  }
  [[nodiscard]] pid_t id() const noexcept { return child_; }

 private:
  pid_t child_ = 0;
};

/// Two ends with a name that have exchanged ten messages.
std::unique_ptr<TwoEnds> ends_that_counted() {
  ChannelOptions options;
  options.observe.name = "counted";
  auto ends = std::make_unique<TwoEnds>(two_ends(options));
  auto memory = must(ends->domain.allocate(4096));
  for (int i = 0; i < 10; ++i) exchange(*ends, memory);
  return ends;
}

std::string only_file_in(std::string const& directory) {
  std::vector<std::string> names;
  for (auto const& each : std::filesystem::directory_iterator{directory})
    names.push_back(each.path().string());
  REQUIRE(names.size() == 1);
  CHECK(names.front().ends_with(observe::counts_ending));
  return names.front();
}

observe::Totals totals_of(observe::ProcessCounts const& process, std::string const& name) {
  for (auto const& each : process.counts.series)
    if (each.name == name) return each.totals;
  return {};
}

}  // namespace

TEST_CASE("others read what a process counts, and what it had counted when it was killed",
          "[observe]") {
  NewDirectory const folder;
  Counting counting{folder.path(), ends_that_counted};
  auto const file = only_file_in(folder.path());
  {
    auto const read = must(observe::read_counts(file));
    CHECK(read.is_running);
    CHECK(read.process == static_cast<std::uint32_t>(counting.id()));
    CHECK(read.program == "observe_test");
    CHECK(read.hidden == 0);
    auto const totals = totals_of(read, "counted");
    CHECK(totals.operations[sending].completed == 10);
    CHECK(totals.operations[sending].bytes == 80);
    CHECK(totals.operations[sending].seconds > 0);
    CHECK(totals.channels.working == 2);
    CHECK(text_of(read.counts, MetricsFormat::openmetrics)
              .find("lend_operations_posted_total{name=\"counted\",operation=\"send\"} 10\n") !=
          std::string::npos);
  }
  counting.kill();
  auto const read = must(observe::read_counts(file));
  CHECK_FALSE(read.is_running);
  CHECK(totals_of(read, "counted").operations[sending].completed == 10);
  CHECK(totals_of(read, "counted").channels.working == 0);
}

TEST_CASE("a forked child leaves what its parent counts alone, and has a file of its own",
          "[observe]") {
  NewDirectory const folder;
  Counting const counting{folder.path(), [] {
                            auto ends = ends_that_counted();
                            auto const child = ::fork();
                            if (child == 0) {
                              ends.reset();  // of the parent
                              auto const own = ends_that_counted();
                              ::_exit(0);
                            }
                            ::waitpid(child, nullptr, 0);
                            return ends;
                          }};
  int of_parent = 0;
  int of_child = 0;
  for (auto const& each : std::filesystem::directory_iterator{folder.path()}) {
    auto const read = must(observe::read_counts(each.path()));
    auto const totals = totals_of(read, "counted");
    CHECK(totals.operations[sending].completed == 10);
    CHECK(totals.channels.working == (read.is_running ? 2 : 0));
    (read.process == static_cast<std::uint32_t>(counting.id()) ? of_parent : of_child) += 1;
  }
  CHECK(of_parent == 1);
  CHECK(of_child == 1);
}

TEST_CASE("counts only grow while blocks begin and end, also if the process is killed then",
          "[observe]") {
  constexpr std::uint64_t posts = 100'000;  // so that readers meet blocks that count
  auto const count_once = [] {
    auto block = std::make_unique<observe::Observer>("counted");
    for (std::uint64_t i = 0; i < posts; ++i) block->post(Operation::send);
    return block;
  };
  for (int i = 0; i < 5; ++i) {
    NewDirectory const folder;
    Counting counting{folder.path(), count_once,
                      [&](observe::Observer&) { static_cast<void>(count_once()); }};
    auto const file = only_file_in(folder.path());
    std::uint64_t last = 0;
    for (int look = 0; look < 200; ++look) {
      if (look == 199) counting.kill();
      auto const posted =
          totals_of(must(observe::read_counts(file)), "counted").operations[sending].posted;
      CHECK(posted >= last);
      last = posted;
    }
    CHECK(last >= posts);
  }
}

TEST_CASE("what finds no place in the file is seen once it has ended", "[observe]") {
  NewDirectory const folder;
  bool has_ended = false;
  SECTION("while they count") {}
  SECTION("when they have ended") {
    has_ended = true;
  }
  Counting const counting{folder.path(), [has_ended] {
                            auto blocks =
                                std::make_unique<std::vector<std::unique_ptr<observe::Observer>>>();
                            for (std::size_t i = 0; i < observe::observers_max + 6; ++i) {
                              blocks->emplace_back(new observe::Observer{"many"});
                              blocks->back()->begin_channel();
                              blocks->back()->post(Operation::send);
                            }
                            if (has_ended) blocks->clear();
                            return blocks;
                          }};
  auto const read = must(observe::read_counts(only_file_in(folder.path())));
  auto const posted = totals_of(read, "many").operations[sending].posted;
  CHECK(read.hidden == (has_ended ? 0 : 6));
  CHECK(posted == observe::observers_max + (has_ended ? 6 : 0));
}

TEST_CASE("of a process that has ended nothing of its pools is used or free", "[observe]") {
  NewDirectory const folder;
  Counting counting{folder.path(), [] {
                      auto pool = observe::Tally::if_asked();
                      pool->set_part(observe::PoolPart::drafts, 250, 6);
                      pool->lack(observe::PoolPart::drafts);
                      return pool;
                    }};
  auto const file = only_file_in(folder.path());
  auto const drafts = [&file] {
    return must(observe::read_counts(file))
        .counts.tallies.pools[static_cast<std::size_t>(observe::PoolPart::drafts)];
  };
  CHECK(drafts().used == 250);
  CHECK(drafts().free == 6);
  counting.kill();
  CHECK(drafts().used == 0);
  CHECK(drafts().free == 0);
  CHECK(drafts().lacking == 1);
}

TEST_CASE("a damaged file of metrics is refused or read", "[observe]") {
  NewDirectory const folder;
  std::string file;
  {
    Counting const counting{folder.path(), ends_that_counted};
    file = only_file_in(folder.path());
  }
  std::vector<char> good(sizeof(observe::CountsHeader));
  std::ifstream{file, std::ios::binary}.read(good.data(),
                                             static_cast<std::streamsize>(good.size()));
  auto const with_header = [&file](std::vector<char> const& header) {
    std::fstream{file, std::ios::binary | std::ios::in | std::ios::out}.write(
        header.data(), static_cast<std::streamsize>(header.size()));
    return observe::read_counts(file);
  };
  REQUIRE(with_header(good).has_value());
  SECTION("any byte of its start") {
    for (std::size_t at = 0; at < offsetof(observe::CountsHeader, changes); ++at)
      for (int const bits : {0x01, 0x80, 0xff}) {
        auto bad = good;
        bad[at] = static_cast<char>(bad[at] ^ bits);
        auto const read = with_header(bad);
        if (at < 12) CHECK(error_of(read) == Errc::incompatible_peer);
      }
  }
  SECTION("random ones") {
    for (auto const seed : seeds(200)) {
      INFO("LEND_TEST_SEED=" << seed);
      std::mt19937 random{static_cast<unsigned>(seed)};
      auto bad = good;
      for (int i = 0; i < 20; ++i) bad[random() % bad.size()] = static_cast<char>(random());
      auto const read = with_header(bad);
      if (read.has_error()) CHECK(read.error() == Errc::incompatible_peer);
    }
  }
  SECTION("its end is missing") {
    for (std::uintmax_t const bytes : {0u, 8u, 4096u, 1'000'000u}) {
      std::filesystem::resize_file(file, bytes);
      CHECK(error_of(observe::read_counts(file)) == Errc::incompatible_peer);
    }
  }
  SECTION("no file") {
    CHECK(error_of(observe::read_counts(folder.path())) == Errc::incompatible_peer);
    CHECK(error_of(observe::read_counts("/dev/null")) == Errc::incompatible_peer);
    CHECK(error_of(observe::read_counts(file + "x")) == Errc::not_found);
  }
}

TEST_CASE("where metrics cannot be written channels work, and the reason is known", "[observe]") {
  NewDirectory const folder;
  std::string const wish = folder.path() + "/metrics";
  std::string words;
  SECTION("the directory above is missing") {
    ::rmdir(folder.path().c_str());
    words = "No such file";
  }
  SECTION("a symbolic link") {
    std::filesystem::create_directory(folder.path() + "/own");
    std::filesystem::create_symlink(folder.path() + "/own", wish);
    words = "symbolic link";
  }
  SECTION("others may write there") {
    std::filesystem::create_directory(wish);
    REQUIRE(::chmod(wish.c_str(), 0777) == 0);
    words = "chmod go-w";
  }
  SECTION("a file") {
    std::ofstream{wish};
    words = "no directory";
  }
  CHECK(base::defect_of_own_directory(wish, "metrics", true).find(words) != std::string::npos);
  Counting const counting{wish, ends_that_counted};
  std::error_code ignored;
  CHECK((!std::filesystem::is_directory(wish) || std::filesystem::is_empty(wish, ignored)));
}

TEST_CASE("no file of metrics is made where there are no locks, and the reason is known",
          "[observe]") {
  NewDirectory const folder;
  std::string const wish = folder.path() + "/metrics";
  auto const told = folder.path() + "/told";
  Counting const counting{wish, [&] {
                            std::filesystem::create_directory(wish);
                            REQUIRE(forbid({__NR_flock}));
                            std::ofstream{told}
                                << base::defect_of_own_directory(wish, "metrics", true);
                            return ends_that_counted();
                          }};
  std::string reason;
  std::getline(std::ifstream{told}, reason);
  CHECK(reason.find("without locks") != std::string::npos);
  CHECK(std::filesystem::is_empty(wish));
}

TEST_CASE("a directory that can be made or is one's own has no defect", "[observe]") {
  NewDirectory const folder;
  for (std::string const end : {"", "/", "/new", "/new/"})
    CHECK(base::defect_of_own_directory(folder.path() + end, "metrics", true) == "");
}
