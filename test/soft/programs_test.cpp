// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: whatever a program does with scopes, handles and channels, and whatever goes wrong, no
// loan, slot or completion is lost or comes back early, and each failure is told once.
// Method: random programs on the soft device, compared after each step with what a spy between lend
// and the device has seen. LEND_TEST_SEED replays one; LEND_TEST_PROGRAMS says how many, from
// LEND_TEST_FIRST_SEED on. A thorough run has ten times as many, others each time.
#include <cstdio>
#include <random>
#include <string>

#include "soft/programs/datagram_run.hpp"
#include "soft/programs/hand_run.hpp"
#include "soft/programs/loan_run.hpp"
#include "soft/programs/run.hpp"
#include "soft/programs/service_run.hpp"
#include "support/catch.hpp"
#include "support/sanitizers.hpp"
#include "support/seed.hpp"
#include "support/thorough.hpp"

using namespace lend;
using namespace lend::test;

namespace {

#if LEND_TEST_ASAN || LEND_TEST_TSAN
constexpr std::uint64_t programs_of_ci = 1'500;  // each takes about ten times as long
#else
constexpr std::uint64_t programs_of_ci = 20'000;
#endif

std::uint64_t programs() {
  char const* const wanted = std::getenv("LEND_TEST_PROGRAMS");
  if (wanted != nullptr) return std::stoull(wanted);
  return thorough() ? 10 * programs_of_ci : programs_of_ci;
}

std::uint64_t first_seed() {
  char const* const wanted = std::getenv("LEND_TEST_FIRST_SEED");
  if (wanted != nullptr) return std::stoull(wanted);
  return thorough() ? std::random_device{}() : 1;
}

template <class AnyRun>
std::string told_of(Workplace& workplace, Program const& program) {
  AnyRun run{workplace, program};
  auto const violation = run.execute();
  auto const& options = program;
  return "  " + std::string{options.is_unreliable ? "unreliable, " : ""} +
         (options.service == Service{} ? "" : std::string{name_of(options.service)} + ", ") +
         (options.is_loop_back ? "loop-back" : "two ends") +
         (options.has_pool    ? " in a set with a pool"
          : options.is_in_set ? " in a set"
                              : "") +
         ", depths " + std::to_string(options.send_depth) + " and " +
         std::to_string(options.receive_depth) + ", wait " +
         std::to_string(static_cast<int>(options.wait)) + ", faults \"" + options.faults + "\"\n" +
         run.story() + "  => " + (violation.empty() ? "it went well this time" : violation);
}

template <class AnyRun>
void run_all(Program (&program_of_seed)(std::uint64_t), std::uint64_t count) {
  Workplace workplace;
  auto const fails = [&](Program const& program) {
    AnyRun run{workplace, program};
    return !run.execute().empty();
  };
  auto const seeds = test::seeds(count, first_seed());
  std::printf("%zu random programs from seed %llu\n", seeds.size(),
              seeds.empty() ? 0ull : static_cast<unsigned long long>(seeds.front()));
  for (auto const seed : seeds) {
    auto const program = program_of_seed(seed);
    AnyRun run{workplace, program};
    auto const violation = run.execute();
    if (violation.empty()) continue;
    auto const shorter = shortened(program, fails);
    FAIL("LEND_TEST_SEED=" << seed << ": " << violation << "\nshortened:\n"
                           << told_of<AnyRun>(workplace, shorter));
  }
}

}  // namespace

TEST_CASE("no program loses a loan, a slot, a completion or a failure", "[soft]") {
  run_all<Run>(program_of, programs());
}

TEST_CASE("no program of datagrams loses a room, a slot or a datagram, or tears one", "[soft]") {
  run_all<DatagramRun>(program_of_datagrams, programs() / 4);
}

TEST_CASE("no program of peer loans loses a byte or a slot, or leaves the peer one", "[soft]") {
  run_all<LoanRun>(program_of_loans, programs() / 8);
}

TEST_CASE("no program by hand finds a request, window or wake-up otherwise than asked", "[soft]") {
  run_all<HandRun>(program_by_hand, programs() / 4);
}

TEST_CASE("no program of services finds a message or event otherwise than due", "[soft]") {
  run_all<ServiceRun>(program_of_services, programs() / 8);
}
