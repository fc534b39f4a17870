// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: a seat is what the innermost launcher left, or an error that says what was looked at.
// Method: environments that are set for one call.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <base/unique_fd.hpp>
#include <launch/host_list.hpp>
#include <lend/launch/seat.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

constexpr auto looked_at = {"LEND_RANK",
                            "LEND_SIZE",
                            "LEND_DESK",
                            "LEND_DESK_SERVED",
                            "LEND_GROUP",
                            "LEND_SECRET_FILE",
                            "PMI_RANK",
                            "PMI_SIZE",
                            "PMI_FD",
                            "PMI_JOBID",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            "PMIX_NAMESPACE",
                            "PMIX_RANK",
                            "SLURM_PROCID",
                            "SLURM_NTASKS",
                            "SLURM_STEP_NUM_TASKS",
                            "SLURM_JOB_ID",
                            "SLURM_STEP_ID",
                            "SLURM_STEP_TASKS_PER_NODE",
                            "SLURM_STEP_NODELIST",
                            "SLURM_STEP_RESV_PORTS",
                            "SLURMD_NODENAME"};

/// The seat of a process with these variables, and none else that count.
Result<Seat> seat_by(Variables const& variables) {
  Variables before;
  for (auto const* const name : looked_at) {
    if (char const* const old = std::getenv(name)) before.emplace_back(name, old);
    ::unsetenv(name);
  }
  for (auto const& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  auto seat = Seat::from_environment();
  for (auto const& [name, value] : variables) ::unsetenv(name.c_str());
  for (auto const& [name, value] : before) ::setenv(name.c_str(), value.c_str(), 1);
  return seat;
}

Variables joined(Variables first, Variables const& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

std::string why(Variables const& variables) {
  auto const error = error_of(seat_by(variables));
  CHECK(error == Errc::invalid_argument);
  return error.message();
}

Variables const by_lend{{"LEND_RANK", "2"}, {"LEND_SIZE", "4"}, {"LEND_DESK", "node1:4000"}};
Variables const by_open_mpi{{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                            {"PMIX_NAMESPACE", "3523411969"}};
Variables const by_slurm{{"SLURM_PROCID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2"},
                         {"SLURM_JOB_ID", "17"},
                         {"SLURM_STEP_ID", "3"}};

}  // namespace

TEST_CASE("a seat is what lend-run or a user set", "[network]") {
  auto const seat = must(seat_by(joined(by_lend, {{"LEND_GROUP", "solver"}})));
  CHECK(seat.rank == 2);
  CHECK(seat.size == 4);
  CHECK(seat.desk == "node1:4000");
  CHECK(seat.group == "solver");
  CHECK(seat.secret.empty());
  CHECK_FALSE(seat.desk_is_served);

  CHECK(must(seat_by(joined(by_lend, {{"LEND_DESK_SERVED", "1"}}))).desk_is_served);
  CHECK(must(seat_by({{"LEND_RANK", "0"}, {"LEND_SIZE", "1"}})).size == 1);
}

TEST_CASE("without any launcher the error says what was looked for", "[network]") {
  auto const error = error_of(seat_by({}));

  CHECK(error == Errc::not_found);
  for (auto const* const name :
       {"LEND_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "lend-run -n N"})
    CHECK_THAT(error.message(), Catch::Contains(name));
}

TEST_CASE("an environment that is incomplete or contradicts itself is refused", "[network]") {
  CHECK_THAT(why({{"LEND_RANK", "1"}}), Catch::Contains("LEND_RANK is set and LEND_SIZE is not"));
  CHECK_THAT(why({{"LEND_SIZE", "1"}}), Catch::Contains("LEND_SIZE is set and LEND_RANK is not"));
  CHECK_THAT(why({{"LEND_RANK", "3x"}, {"LEND_SIZE", "4"}}),
             Catch::Contains("LEND_RANK is \"3x\", which is no number"));
  CHECK_THAT(why({{"LEND_RANK", "-1"}, {"LEND_SIZE", "4"}}), Catch::Contains("LEND_RANK"));
  CHECK_THAT(why({{"LEND_RANK", "0"}, {"LEND_SIZE", "0"}}), Catch::Contains("1 to 65536"));
  CHECK_THAT(why({{"LEND_RANK", "0"}, {"LEND_SIZE", "65537"}}), Catch::Contains("1 to 65536"));
  CHECK_THAT(why({{"LEND_RANK", "4"}, {"LEND_SIZE", "4"}, {"LEND_DESK", "node1:4000"}}),
             Catch::Contains("there is no rank 4 among 4") && Catch::Contains("LEND_RANK"));
  CHECK_THAT(why({{"LEND_RANK", "1"}, {"LEND_SIZE", "4"}}),
             Catch::Contains("no desk is named (LEND_DESK)"));
  CHECK_THAT(why({{"LEND_RANK", "1"}, {"LEND_SIZE", "4"}, {"LEND_DESK", "node1:0"}}),
             Catch::Contains("has port 0"));
  CHECK_THAT(why({{"LEND_RANK", "1"}, {"LEND_SIZE", "4"}, {"LEND_DESK", "node1"}}),
             Catch::Contains("has no port"));
  CHECK_THAT(why(joined(by_lend, {{"LEND_GROUP", std::string(65, 'g')}})),
             Catch::Contains("65 bytes; 64 is the most"));
}

TEST_CASE("ranks of one host meet without a desk being named, by what their launcher calls the job",
          "[network]") {
  auto const user = std::to_string(::geteuid());
  auto const of_open_mpi = must(seat_by(by_open_mpi));
  CHECK(of_open_mpi.rank == 1);
  CHECK(of_open_mpi.size == 3);
  CHECK(of_open_mpi.desk == "unix:@lend-" + user + "-3523411969");
  CHECK(of_open_mpi.group == "3523411969");
  auto const of_slurm = must(seat_by(by_slurm));
  CHECK(of_slurm.rank == 0);
  CHECK(of_slurm.desk == "unix:@lend-" + user + "-17.3");

  auto several_hosts = by_open_mpi;
  several_hosts.resize(2);  // of a launcher without PMIx
  CHECK_THAT(why(several_hosts), Catch::Contains("OMPI_COMM_WORLD_RANK") &&
                                     Catch::Contains("Open MPI") &&
                                     Catch::Contains("no desk is named (LEND_DESK)"));
  CHECK(must(seat_by(joined(several_hosts, {{"LEND_DESK", "node1:4000"}}))).desk == "node1:4000");
}

TEST_CASE("a launcher with PMI is asked at its descriptor, which is an open socket", "[network]") {
  Variables const by_pmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};
  CHECK_THAT(why(by_pmi), Catch::Contains("no desk is named (LEND_DESK)"));
  base::UniqueFd const open{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  auto const number = std::to_string(open.get());
  auto const seat = must(seat_by(joined(by_pmi, {{"PMI_FD", number}})));
  CHECK(seat.rank == 1);
  CHECK(seat.desk == "pmi:fd=" + number);

  CHECK_THAT(why(joined(by_pmi, {{"PMI_FD", "seven"}})), Catch::Contains("no descriptor"));
  CHECK_THAT(why(joined(by_pmi, {{"PMI_FD", "-1"}})), Catch::Contains("no descriptor"));
  base::UniqueFd const file{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  for (auto const& other : {std::to_string(file.get()), std::string{"1048575"}})
    CHECK_THAT(why(joined(by_pmi, {{"PMI_FD", other}})),
               Catch::Contains("no socket in this process") && Catch::Contains("LEND_DESK"));
  CHECK(must(seat_by(joined(by_pmi, {{"PMI_FD", number}, {"LEND_DESK", "node1:4000"}}))).desk ==
        "node1:4000");
  CHECK(must(seat_by({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}, {"PMI_FD", number}})).desk.empty());
}

TEST_CASE("ranks on several hosts ask the PMIx of their launcher where they meet", "[network]") {
  auto by_mpirun = by_open_mpi;
  by_mpirun[2].second = "2";
  CHECK(must(seat_by(by_mpirun)).desk == "pmix:");
  CHECK(must(seat_by(joined(by_mpirun, {{"LEND_DESK", "node1:4000"}}))).desk == "node1:4000");
  auto by_srun = joined(by_slurm, {{"PMIX_NAMESPACE", "slurm.pmix.17.3"}, {"PMIX_RANK", "0"}});
  by_srun[2].second = "1(x2)";
  CHECK(must(seat_by(by_srun)).desk == "pmix:");
}

TEST_CASE("ranks of a step of Slurm on several hosts meet at a port of the first one",
          "[network]") {
  auto several_hosts = joined(by_slurm, {{"SLURM_STEP_NODELIST", "n[01-03,7],login1"}});
  several_hosts[2].second = "1(x2)";
  auto const first = must(seat_by(several_hosts));
  CHECK(first.group == "17.3");
  CHECK_THAT(first.desk, Catch::StartsWith("[::]:2"));
  several_hosts[0].second = "1";
  auto const other = must(seat_by(several_hosts));
  CHECK(other.desk == "n01" + first.desk.substr(first.desk.rfind(':')));
  CHECK(must(seat_by(joined(several_hosts, {{"SLURM_STEP_RESV_PORTS", "12345-12348"}}))).desk ==
        "n01:12345");

  several_hosts[0].second = "0";
  auto const here = [&](char const* name) {
    return joined(several_hosts, {{"SLURMD_NODENAME", name}});
  };
  CHECK(must(seat_by(here("n01"))).desk == first.desk);
  CHECK_THAT(why(here("n02")), Catch::Contains("rank 0 is on n02"));
  several_hosts.back().second = "n[";
  CHECK_THAT(why(several_hosts), Catch::Contains("SLURM_STEP_NODELIST is \"n[\", which is no"));
  several_hosts.pop_back();
  CHECK_THAT(why(several_hosts), Catch::Contains("no desk is named (LEND_DESK)"));
}

TEST_CASE("the first host of a list of Slurm's is found, or the list refused", "[network]") {
  using launch::first_host;
  CHECK(must(first_host("n1")) == "n1");
  CHECK(must(first_host("n1,n2")) == "n1");
  CHECK(must(first_host("n[007-120]")) == "n007");
  CHECK(must(first_host("n[7]-ib.site.org,n[8-9]")) == "n7-ib.site.org");
  CHECK(must(first_host("rack[0-1]n[12,14-15]")) == "rack0n12");
  for (std::string const bad :
       {"", ",n1", "n[", "n[]", "n[x]", "n[-3]", "n]", "n 1", "n/1", "[::1]", "n\n", "a:1"}) {
    INFO(bad);
    CHECK(error_of(first_host(bad)) == Errc::invalid_argument);
  }
  CHECK(error_of(first_host(std::string(254, 'n'))) == Errc::invalid_argument);
}

TEST_CASE("outside its steps Slurm leaves no rank, and the error says what starts one",
          "[network]") {
  // As a script of sbatch -n 4, one of sbatch without -n, and a shell of salloc -n 4 have it.
  for (auto const& job : {Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}},
                          Variables{{"SLURM_PROCID", "0"}}, Variables{{"SLURM_NTASKS", "4"}}}) {
    auto const error = error_of(seat_by(joined(job, {{"SLURM_JOB_ID", "17"}})));
    CHECK(error == Errc::not_found);
    CHECK_THAT(error.message(), Catch::Contains("by srun (this is a job of Slurm's, and no step"));
  }
  CHECK_THAT(error_of(seat_by({})).message(), !Catch::Contains("srun"));
}

TEST_CASE("the interactive, batch and extern steps of Slurm have no ranks", "[network]") {
  // Source: Slurm slurm/slurm.h.
  for (auto const* const step : {"4294967290", "4294967291", "4294967292", "4294967293"}) {
    auto in_step = joined(by_slurm, {{"SLURM_NTASKS", "2"}});
    in_step[4].second = step;
    CAPTURE(step);
    auto const error = error_of(seat_by(in_step));
    CHECK(error == Errc::not_found);
    CHECK_THAT(error.message(), Catch::Contains("no step of it that has ranks"));
    CHECK(must(seat_by(joined(in_step, by_lend))).size == 4);  // lend-run in that step
  }
  auto last = by_slurm;
  last[4].second = "4294967280";
  CHECK(must(seat_by(last)).size == 2);
}

TEST_CASE("a step of Slurm has as many ranks as its tasks, however many the job asked for",
          "[network]") {
  CHECK(must(seat_by(joined(by_slurm, {{"SLURM_NTASKS", "8"}}))).size == 2);
  CHECK_THAT(why({{"SLURM_JOB_ID", "17"},
                  {"SLURM_STEP_ID", "3"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "8"}}),
             Catch::Contains("SLURM_PROCID is set and SLURM_STEP_NUM_TASKS is not"));
}

TEST_CASE("what two launchers left is refused where no ancestor shows which was the inner one",
          "[network]") {
  CHECK_THAT(why(joined(by_slurm, by_open_mpi)),
             Catch::Contains("OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=3 (Open MPI)") &&
                 Catch::Contains("SLURM_PROCID=0 and SLURM_STEP_NUM_TASKS=2 (Slurm)") &&
                 Catch::Contains("unset"));
  CHECK_THAT(why(joined(by_open_mpi, by_lend)),
             Catch::Contains("LEND_RANK=2") && Catch::Contains("(Open MPI)"));
}

TEST_CASE("what lend-run told its ranks of their desk does not count for those of others",
          "[network]") {
  auto const around =
      Variables{{"LEND_DESK", "unix:@lend-run-7"}, {"LEND_DESK_SERVED", "1"}, {"LEND_GROUP", "7"}};
  auto const seat = must(seat_by(joined(by_open_mpi, around)));
  CHECK(seat.desk == "unix:@lend-" + std::to_string(::geteuid()) + "-3523411969");
  CHECK_FALSE(seat.desk_is_served);
  CHECK(seat.group == "3523411969");
  auto own = joined(around, {{"LEND_RANK", "1"}, {"LEND_SIZE", "2"}});
  CHECK(must(seat_by(own)).desk == "unix:@lend-run-7");
}

TEST_CASE("a secret comes from a file that no other user may read", "[network]") {
  auto const path =
      std::filesystem::temp_directory_path() / ("lend-secret-test-" + std::to_string(::getpid()));
  auto const variables = joined(by_lend, {{"LEND_SECRET_FILE", path}});
  CHECK(error_of(seat_by(variables)) == Errc::not_found);
  std::ofstream{path} << "some random bytes";
  ::chmod(path.c_str(), 0644);
  auto const readable = error_of(seat_by(variables));
  CHECK(readable == Errc::denied);
  CHECK_THAT(readable.message(), Catch::Contains("chmod 600"));
  CHECK_THAT(readable.message(), Catch::Contains("copy it"));
  for (auto const mode : {0640u, 0440u}) {  // of a volume: root's, and its group may read it
    ::chmod(path.c_str(), mode);
    if (::geteuid() == 0)
      CHECK(must(seat_by(variables)).secret == "some random bytes");
    else
      CHECK(error_of(seat_by(variables)) == Errc::denied);
  }
  for (auto const mode : {0660u, 0650u, 0604u}) {
    ::chmod(path.c_str(), mode);
    CHECK(error_of(seat_by(variables)) == Errc::denied);
  }
  ::chmod(path.c_str(), 0600);
  CHECK(must(seat_by(variables)).secret == "some random bytes");
  std::ofstream{path} << std::string(257, 's');
  CHECK_THAT(why(variables), Catch::Contains("more than 256 bytes"));
  for (std::size_t const length : {std::size_t{0}, std::size_t{15}}) {
    std::ofstream{path} << std::string(length, 's');
    CHECK_THAT(why(variables),
               Catch::Contains("has " + std::to_string(length) + " bytes; 16 are the fewest") &&
                   Catch::Contains("head -c 32 /dev/urandom | base64"));
  }
  std::filesystem::remove(path);
  CHECK_THAT(why(joined(by_lend, {{"LEND_SECRET_FILE", "/proc"}})),
             Catch::Contains("no regular file"));
}
