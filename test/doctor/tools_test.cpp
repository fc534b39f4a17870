// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: what `lend` reads and writes is right: its command line, JSON, and the page of failures.
// Method: values; names of lend compared with the page's headings.
#include <command/command_line.hpp>
#include <command/cpus.hpp>
#include <doctor/checks.hpp>
#include <doctor/pair.hpp>
#include <tools/bench/line.hpp>
#include <tools/bench/options.hpp>
#include <tools/bench/pinning.hpp>
#include <tools/bench/results.hpp>
#include <tools/command_line.hpp>
#include <tools/json.hpp>
#include <tools/loops/comes.hpp>
#include <tools/report.hpp>
#include <tools/sections.hpp>

#include <lend/lend.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "support/catch.hpp"
#include "support/new_directory.hpp"
#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

/// What `lend` with these words is asked to do.
Result<tools::CommandLine> parsed(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  auto line = tools::parse(pointers);
  if (line.has_value()) line.value().program = {};  // which ends with `words`
  return line;
}

std::string refusal_of(std::vector<std::string> words) {
  auto const line = parsed(std::move(words));
  return line.has_error() ? line.error().message() : "none";
}

}  // namespace

TEST_CASE("JSON has a row a line, and replaces what is no UTF-8", "[tools]") {
  std::array const findings{
      Finding{.id = "a", .level = FindingLevel::warn, .subject = "\n\"", .seen = "é\xff|"},
      Finding{.id = "b", .level = FindingLevel::ok}};
  CHECK(tools::json_of(findings) ==
        R"({"schema":1,"findings":[
{"id":"a","level":"warn","subject":"\n\"","seen":"é)"
        "\xef\xbf\xbd"
        R"(|","why":"","mend":"","page":""},
{"id":"b","level":"ok","subject":"","seen":"","why":"","mend":"","page":""}
]}
)");
}

TEST_CASE("a command line that is wrong is refused with the nearest word", "[tools]") {
  CHECK(parsed({"doctor", "--strict"}).value().strict);
  CHECK_FALSE(parsed({"doctor"}).value().json);
  CHECK(parsed({"run", "--faults", "drop@1", "--", "-x"}).value().faults == "drop@1");
  CHECK(parsed({"explain", "memlock"}).value().command == tools::Command::explain);
  CHECK(refusal_of({}) == "a command is missing");
  CHECK(refusal_of({"infos"}) == "unknown command infos; the nearest is info");
  CHECK(refusal_of({"doctor", "--jsn\x1b"}) ==
        "doctor has no option --jsn?; the nearest is --json");
  CHECK(refusal_of({"run", "--fault", "x"}) ==
        "run has no option --fault; the nearest is --faults");
  CHECK(refusal_of({"run", "--faults"}) == "--faults lacks its value");
  CHECK(refusal_of({"run", "--"}) == "PROGRAM is missing");
  CHECK(refusal_of({"explain", "a", "b"}) == "explain takes one NAME");
  CHECK(parsed({"doctor", "node:7472", "--strict"}).value().address == "node:7472");
  CHECK(parsed({"doctor", "--listen", "--json"}).value().address == "[::]:7472");
  CHECK(refusal_of({"doctor", "--listen", "a:1", "b:2"}) ==
        "doctor takes one address, and no second b:2");
  CHECK(refusal_of({"doctor", "--lisen"}) ==
        "doctor has no option --lisen; the nearest is --listen");
  CHECK(refusal_of({"doctor", "node1"}).starts_with("doctor takes an address HOST:PORT, not"));
  CHECK(refusal_of({"doctor", "--secret"}) == "--secret lacks its value");
  CHECK(refusal_of({"bench", "sned"}) ==
        "bench takes an address HOST:PORT, not sned; the nearest is send");
  CHECK(refusal_of({"bench", "--hgram", "x"}) ==
        "bench has no option --hgram; the nearest is --hgrm");
  CHECK(refusal_of({"bench", "--via", "scope"}) ==
        "--via takes scoped, unsafe, blocking or batch, not scope; the nearest is scoped");
  CHECK(refusal_of({"bench", "--bytes", "8,0"}) ==
        "--bytes takes sizes from 1 to 1G such as 8,64K, not 0");
  CHECK(refusal_of({"bench", "--bytes", "8,"}) ==
        "--bytes takes sizes from 1 to 1G such as 8,64K, not ");
  CHECK(refusal_of({"bench", "--count", "99999999999"}) ==
        "--count takes a number from 1 to 16777216, not 99999999999");
  CHECK(refusal_of({"bench", "a:1", "b:2"}) == "bench takes one address, and no second b:2");
  CHECK(refusal_of({"bench", "--svg"}) == "--svg lacks its value");
  CHECK(refusal_of({"bench", "--hgrm", "x"}).starts_with("--hgrm is of one histogram"));
  CHECK(refusal_of({"bench", "lat", "--via", "batch"}).starts_with("--via batch"));
  CHECK(refusal_of({"bench", "send", "--bytes", "8", "--via", "batch", "--hgrm", "x"})
            .starts_with("--hgrm is of one histogram"));
  CHECK(refusal_of({"bench", "--via", "batch", "--svg", "x"}).starts_with("--svg draws"));
  CHECK(refusal_of({"bench", "bw", "--histogram"}).starts_with("--histogram draws"));
  CHECK(refusal_of({"bench", "--json", "--histogram"}).starts_with("--histogram draws"));
  CHECK(refusal_of({"bench", "a:1", "--listen", ":2"}).starts_with("bench takes one address"));
  CHECK(refusal_of({"bench", "lat", "--listen"}).starts_with("the end that measures takes lat"));
  CHECK(refusal_of({"bench", "--listen", "--json"}).starts_with("the end that measures takes"));
  CHECK(refusal_of({"bench", "--bytes", "8", "--listen"}) ==
        "the end that measures takes --bytes; leave out --listen");
  CHECK(refusal_of({"bench", "--svg="}) == "--svg lacks its value");
  CHECK(refusal_of({"bench", "--svg", ""}) == "a file's name is empty");
  CHECK(refusal_of({"bench", "--secret", "x"}).starts_with("--secret is for a peer"));
  CHECK(refusal_of({"bench", "--secret", "", "a:1"}) == "--secret lacks its value");
  CHECK(refusal_of({"doctor", "--secret", "x"}).starts_with("--secret is for a peer"));
  CHECK(refusal_of({"doctor", "--secret", "", "a:1"}) == "--secret lacks its value");
  CHECK(parsed({"doctor", "--capture", "x", "--json"}).value().capture_in == "x");
  CHECK(parsed({"doctor", "--replay", "x"}).value().replay_of == "x");
  CHECK(refusal_of({"doctor", "--capture"}) == "--capture lacks its value");
  CHECK(refusal_of({"doctor", "--capture", "x", "a:1"}).starts_with("doctor takes an address, --"));
  CHECK(refusal_of({"doctor", "--replay", "x", "--capture", "y"}).ends_with("--replay, not two"));
  CHECK(refusal_of({"info", "soft0"}) == "info takes no soft0");
}

TEST_CASE("a wrong word has a nearest one only where it is alike", "[tools]") {
  CHECK(refusal_of({"bogus"}) == "unknown command bogus");
  CHECK(refusal_of({"-X"}) == "there is no option -X");
  CHECK(refusal_of({"--versoin"}) == "there is no option --versoin; the nearest is --version");
  CHECK(refusal_of({"doctor", "--json=yes"}) == "--json takes no value");
  CHECK(refusal_of({"help", "bogus"}) == "unknown command bogus");
}

TEST_CASE("each command has a help of 80 columns", "[tools]") {
  for (std::string const name :
       {"doctor", "info", "bench", "run", "trace", "top", "explain", "help"}) {
    INFO(name);
    auto const help = parsed({name, "--help"}).value();
    CHECK(help.command == tools::Command::text);
    CHECK(help.text.starts_with("usage: lend " + name));
    CHECK(help.text == parsed({"help", name}).value().text);
    CHECK((name == "help" || help.text.find("\nExit status: ") != help.text.npos));
    std::istringstream lines{help.text};
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }) <= 80);
    }
  }
  CHECK(parsed({"help"}).value().text.find("\n  bench     Measures") != std::string::npos);
  CHECK(parsed({"-V"}).value().text.starts_with("lend 0."));
}

TEST_CASE("a program's words are its own", "[tools]") {
  std::vector<std::string> words{"run", "--faults=drop@1", "p", "--json", "--", "[a,b]", "-h"};
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  auto const line = tools::parse(pointers).value();
  CHECK(line.faults == "drop@1");
  CHECK(line.program.data() == pointers.data() + 2);
  CHECK(line.program.size() == 5);
}

TEST_CASE("a report begins with its conclusion and folds what was skipped", "[tools]") {
  std::array const findings{
      Finding{.id = "a", .level = FindingLevel::ok, .subject = "s", .seen = "good"},
      Finding{.id = "b", .level = FindingLevel::skipped, .subject = "s", .why = "no device"},
      Finding{.id = "c", .level = FindingLevel::skipped, .subject = "s", .why = "no \x1b[port"},
      Finding{.id = "d",
              .level = FindingLevel::fail,
              .subject = "s",
              .seen = "one two three",
              .why = "words that are wrapped at the margin",
              .mend = "a command that is long\nb"},
      Finding{.id = "use", .level = FindingLevel::fail, .subject = "this", .seen = "nothing"}};
  command::Look const narrow{40, false};
  CHECK(tools::report_of(findings, narrow, false) ==
        "fail     use, this: nothing\n"
        "\n"
        "fail     d, s: one two three\n"
        "         why:  words that are wrapped at\n"
        "               the margin\n"
        "         mend: a command that is long\n"
        "               b\n"
        "ok       a, s: good\n"
        "skipped  b, c (--verbose says why)\n");
  auto const whole = tools::report_of(findings, narrow, true);
  CHECK_THAT(whole, Catch::EndsWith("skipped  b, s: no device\nskipped  c, s: no ?[port\n"));
  auto const coloured = tools::report_of(findings, {40, true}, false);
  CHECK_THAT(coloured, Catch::StartsWith("\x1b[31mfail\x1b[0m     use, this"));
}

TEST_CASE("a page's section is plain text, as wide as the terminal", "[tools]") {
  CHECK(tools::plain_text_of("Ends `by` [a\nlink](x.md#y), see.\n\n> It said: no\n> and more.\n",
                             20) == "Ends by a link, see.\n\n    It said: no and\n    more.\n");
  CHECK(tools::plain_text_of("One.\n\n> failed:\n> no \\\n> do: try it\n> again\n\nTwo.\n", 80) ==
        "One.\n\n    failed: no\n      do: try it again\n\nTwo.\n");
  CHECK(command::wrapped("  --é ", "two words", 6, 12) == "  --é two\n      words\n");
  CHECK(command::wrapped("", "unbreakable", 2, 5) == "unbreakable\n");
}

TEST_CASE("the ends of a bench have CPUs of the device's node and of two cores", "[tools]") {
  // Four cores of two threads: 0 and 4, 1 and 5, and on node 1: 2 and 6, 3 and 7.
  test::NewDirectory const directory;
  auto const system = directory.path();
  auto const write = [&](std::string const& path, std::string const& text) {
    std::filesystem::create_directories(std::filesystem::path{system + path}.parent_path());
    std::ofstream{system + path} << text << '\n';
  };
  for (int cpu = 0; cpu < 8; ++cpu)
    write("/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  write("/node/node0/cpulist", "0-1,4-5");
  write("/node/node1/cpulist", "2-3,6-7");
  using Cpus = std::vector<int>;
  Cpus const all{0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(tools::bench_cpus(all, std::nullopt, system) == Cpus{1, 2});
  CHECK(tools::bench_cpus(all, 1, system) == Cpus{2, 3});
  CHECK(tools::bench_cpus(all, 7, system) == Cpus{1, 2});  // there is no such node
  CHECK(tools::bench_cpus(Cpus{1, 5, 6}, std::nullopt, system) == Cpus{1, 6});
  CHECK(tools::bench_cpus(Cpus{1, 5}, std::nullopt, system) == Cpus{1, 5});
  CHECK(tools::bench_cpus(Cpus{0, 2}, 1, system) == Cpus{0, 2});
  CHECK(tools::bench_cpus(Cpus{3}, 1, system) == Cpus{3});
  CHECK(tools::bench_cpus(all, std::nullopt, system + "/none") == Cpus{1, 2});
  CHECK(command::part_of(all, 0, 4, system) == Cpus{0, 4});
  CHECK(command::part_of(all, 3, 4, system) == Cpus{3, 7});
  CHECK(command::part_of(all, 2, 3, system) == Cpus{6, 3, 7});
  CHECK(command::part_of(all, 0, 9, system).empty());
}

TEST_CASE("sizes and times have units", "[tools]") {
  using command::size_in;
  using command::time_in;
  using std::chrono::milliseconds;
  CHECK(size_in("0") == 0u);
  CHECK(size_in("17B") == 17u);
  CHECK(size_in("64k") == 65536u);
  CHECK(size_in("64KiB") == 65536u);
  CHECK(size_in("2MB") == 2u << 20);
  CHECK(size_in("1G") == 1u << 30);
  for (auto const* text : {"", "K", "-1", "1KK", "1 K", "1kb ", "1x", "99999999999G", "0x10"}) {
    INFO(text);
    CHECK_FALSE(size_in(text));
  }
  CHECK(time_in("500ms") == milliseconds{500});
  CHECK(time_in("30") == milliseconds{30'000});
  CHECK(time_in("5m") == milliseconds{300'000});
  CHECK(time_in("1h") == milliseconds{3'600'000});
  for (auto const* text : {"", "0s", "2w", "s", "-1s", "9999999999999999999h", "1.5s"}) {
    INFO(text);
    CHECK_FALSE(time_in(text));
  }
}

TEST_CASE("what bench is to measure is what its words say", "[tools]") {
  auto const options = [](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    return parsed(std::move(words)).value().bench;
  };
  using Role = tools::BenchOptions::Role;

  auto const all = options({});
  CHECK((all.latency && all.bandwidth && all.operations.size() == 3 && all.role == Role::both));
  auto const some = options({"lat", "write", "send", "write", "--bytes", "8,64", "node:7"});
  CHECK((some.latency && !some.bandwidth && some.role == Role::near && some.address == "node:7"));
  CHECK(some.operations == std::vector<std::string_view>{"write", "send"});
  CHECK(some.sizes == std::vector<std::size_t>{8, 64});
  CHECK(options({"--bytes=2K,1M"}).sizes == std::vector<std::size_t>{2048, 1 << 20});
  CHECK(options({"--device=soft0", "lat"}).device == "soft0");
  CHECK(options({"--listen"}).address == "[::]:7472");
  CHECK(options({"--listen", "[::1]:0", "--device", "soft0"}).address == "[::1]:0");
  CHECK_FALSE(options({"--via", "batch"}).latency);
}

TEST_CASE("no round of writes ends before the other end has answered", "[tools]") {
  auto ends = two_ends();
  std::barrier both{2};
  std::atomic<bool> near_is_done{false}, was_early{false};
  auto const end_of = [&](Channel channel, bool near) {
    return tools::End{near,
                      true,
                      must(ends.domain.allocate(4096)),
                      must(ends.domain.unsafe_allocate_exposed(4096, RemoteAccess::read_write)),
                      std::move(channel),
                      {},
                      {}};
  };
  auto near = end_of(std::move(ends.a), true), far = end_of(std::move(ends.b), false);
  near.remote = must(far.exposed.remote());
  far.remote = must(near.exposed.remote());
  near.meet = [&] { return both.arrive_and_wait(), success(); };
  far.meet = [&]() -> Result<void> {
    auto const written = must(far.exposed.bytes(7, 1));
    both.arrive_and_wait();
    // The near end's first round has begun when its write is there. Then long enough for a near end
    // that does not wait for this one.
    CHECK(tools::comes(written.front(), true, [](std::byte byte) { return byte != std::byte{}; }));
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    if (near_is_done) was_early = true;
    return success();
  };
  for (std::uint64_t const count : {1u, 1u, 600u, 5u}) {
    CAPTURE(count);
    tools::Load const load{"write", "scoped", 8, count};
    near_is_done = false;
    std::thread answers{[&] { must(tools::measure_rounds(far, load)); }};
    auto const rounds = must(tools::measure_rounds(near, load));
    near_is_done = true;
    answers.join();
    CHECK_FALSE(was_early);
    CHECK(rounds.size() == count);
    CHECK(rounds.back() > 5e6);  // ns, of the first one's 10 ms
  }
}

TEST_CASE("a latency's percentiles are exact, and its pictures have all rounds", "[tools]") {
  tools::BenchRow row{.is_latency = true, .load = {"send", "scoped", 8, 1000}};
  for (int i = 1; i <= 1000; ++i) row.rounds.push_back(i * 10.0);
  CHECK(row.percentile(0) == 10.0);
  CHECK(row.percentile(50) == 5000.0);
  CHECK(row.percentile(99.9) == 9990.0);
  CHECK(row.percentile(100) == 10000.0);
  CHECK(row.histogram().count() == 1000);
  CHECK(row.is_sure(99));  // 10 rounds were slower
  CHECK_FALSE(row.is_sure(99.9));
  CHECK(row.is_sure(100));
  CHECK_THAT(tools::text_of(row), Catch::Contains("     9.90        -    10.00     1000\n"));

  auto const hgrm = tools::hgrm_of(row);
  CHECK(hgrm.find("\n       5.000 0.500000000000        500           2.00\n") != hgrm.npos);
  CHECK(hgrm.find("\n      10.000 1.000000000000       1000\n#[Mean    =        5.005, ") !=
        hgrm.npos);
  auto const bars = tools::bars_of(row);
  std::istringstream lines{bars};
  std::uint64_t sum = 0;
  for (std::string line; std::getline(lines, line);)
    if (auto const at = line.find(" us "); at != line.npos) sum += std::stoull(line.substr(at + 4));
  CHECK(sum == 1000);
}

TEST_CASE("every code, status and finding has its section on the page of failures", "[tools]") {
  std::size_t names = 0;
  auto const check = [&](std::string_view name) {
    INFO(name);
    auto const section = tools::section_of(name);
    REQUIRE(section.has_value());
    CHECK_FALSE(section->text.empty());
    ++names;
    return section->text;
  };
  for (int code = 1; name_of(static_cast<Errc>(code)) != name_of(Errc{}); ++code)
    check(name_of(static_cast<Errc>(code)));
  for (int i = 0; name_of(static_cast<WorkStatus>(i)) != "unknown"; ++i) {
    auto const by_number = check(std::to_string(i));
    CHECK(by_number.data() == check(name_of(static_cast<WorkStatus>(i))).data());
    ++names;  // that of the verbs
  }
  for (auto const& one : doctor::checks()) check(one.id);
  for (auto const& one : doctor::pair_ids()) check(one.id);
  std::size_t on_page = 0;
  for (auto const& section : tools::sections()) on_page += section.names.size();
  CHECK(on_page == names);  // and the page has no others
  CHECK(tools::section_of("12")->chapter == "Statuses of completions");
  CHECK_FALSE(tools::section_of("nothing").has_value());
}

TEST_CASE("a bench gives a peer up that connects and then says nothing", "[tools]") {
  using namespace std::chrono_literals;
  auto listener = must(Listener::open("127.0.0.1:0"));
  auto far = std::async(std::launch::async, [&]() -> Result<void> {
    LEND_TRY(line, tools::BenchLine::accept(listener, {.device = "soft0"},
                                            {.one_core = true, .patience = 50ms}));
    return line.give(std::nullopt);
  });

  auto const context = must(open_device(DeviceChoice::soft()));
  auto prepared = must(prepare_channel(must(context.allocate_protection_domain()), {}));
  auto const silent = must(connect(listener.address(), std::move(prepared), within(20s)));

  CHECK(far.wait_for(20s) == std::future_status::ready);
  CHECK(far.get().error() == Errc::timed_out);
}
