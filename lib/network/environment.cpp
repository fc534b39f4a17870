// SPDX-License-Identifier: MIT OR Apache-2.0
// Seats by what launchers leave in the environment. As getenv(3) where threads are concerned.
#include <lend/network/seat.hpp>

#include <base/printable.hpp>
#include <base/unique_fd.hpp>
#include <network/desk_visit.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace lend {

namespace {

/// What a launcher calls them; `job` and `local_size` tell ranks of one host where to meet.
struct Launcher {
  char const *name, *rank, *size, *job, *step, *local_size;
};
// The innermost first: it started this process.
constexpr std::array launchers{
    Launcher{"lend-run", "LEND_RANK", "LEND_SIZE", nullptr, nullptr, nullptr},
    Launcher{"a PMI launcher", "PMI_RANK", "PMI_SIZE", nullptr, nullptr, nullptr},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", nullptr,
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID",
             "SLURM_STEP_TASKS_PER_NODE"},
};

/// Empty: not set, or to nothing.
std::string_view text_of(char const* variable) noexcept {
  char const* const text = variable == nullptr ? nullptr : ::secure_getenv(variable);
  return text == nullptr ? std::string_view{} : text;
}

Error wrong(char const* variable, std::string_view text, std::string const& reason) {
  return {Errc::invalid_argument,
          std::string{variable} + " is \"" + base::shown(text) + "\", " + reason};
}

Result<std::uint32_t> number_in(char const* variable, Launcher const& launcher) {
  auto const text = text_of(variable);
  if (text.empty()) {
    auto const* const other = variable == launcher.rank ? launcher.size : launcher.rank;
    return Error{Errc::invalid_argument,
                 std::string{other} + " is set and " + variable + " is not; set both, or neither"};
  }
  std::uint32_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return wrong(variable, text, "which is no number of a rank, or of ranks");
  return value;
}

std::string names_of_launchers() {
  std::string names;
  for (auto const& launcher : launchers)
    names += std::string{names.empty() ? "" : ", "} + launcher.rank + " (" + launcher.name + ")";
  return names;
}

Result<std::string> secret_from_file() {
  constexpr char const* variable = "LEND_SECRET_FILE";
  std::string const path{text_of(variable)};
  if (path.empty()) return std::string{};
  auto const about = "LEND_SECRET_FILE, \"" + base::shown(path) + "\"";
  base::UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
  if (!file) return Error::from_errno("open of " + about, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Error::from_errno("fstat of " + about, errno);
  if (!S_ISREG(status.st_mode)) return wrong(variable, path, "which is no regular file");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return Error{Errc::denied, about + ": other users may read it; chmod 600 it"};
  std::array<char, network::secret_bytes_max + 1> bytes;
  auto const got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return Error::from_errno("read of " + about, errno);
  std::string secret{bytes.data(), static_cast<std::size_t>(got)};
  ::explicit_bzero(bytes.data(), bytes.size());
  if (secret.empty()) return wrong(variable, path, "which is empty; write 32 random bytes to it");
  if (secret.size() > network::secret_bytes_max)
    return wrong(variable, path, "which has more than 256 bytes");
  return secret;
}

/// What ranks of this job alone have in common; empty: unknown, or it is not on one host.
std::string local_job(Launcher const& launcher, std::uint32_t size) {
  auto const job = text_of(launcher.job);
  auto const here = text_of(launcher.local_size);
  if (job.empty() || here != std::to_string(size)) return {};
  std::string name{job};
  if (launcher.step != nullptr) name += "." + std::string{text_of(launcher.step)};
  return name;
}

Result<Seat> seat_by(Launcher const& launcher) {
  Seat seat;
  LEND_TRY(rank, number_in(launcher.rank, launcher));
  LEND_TRY(size, number_in(launcher.size, launcher));
  seat.rank = rank;
  seat.size = size;
  auto const job = local_job(launcher, size);
  seat.desk = text_of("LEND_DESK");
  seat.desk_is_served = !seat.desk.empty() && text_of("LEND_DESK_SERVED") == "1";
  seat.group = text_of("LEND_GROUP");
  // The last bytes of a long name: they tell jobs apart, where the first ones name the host.
  auto const end_of_job = [&job](std::size_t most) {
    return job.substr(job.size() - std::min(job.size(), most));
  };
  if (seat.group.empty()) seat.group = end_of_job(network::group_name_max);
  if (seat.desk.empty() && !job.empty())
    seat.desk = "unix:@lend-" + std::to_string(::geteuid()) + "-" + end_of_job(80);
  LEND_TRY(secret, secret_from_file());
  seat.secret = std::move(secret);
  if (auto const checked = network::check(seat); !checked)
    return Error{Errc::invalid_argument, "by " + std::string{launcher.rank} + " and " +
                                             launcher.size + " (" + launcher.name +
                                             "): " + checked.error().message()};
  return seat;
}

}  // namespace

Result<Seat> Seat::from_environment() {
  for (auto const& launcher : launchers)
    if (!text_of(launcher.rank).empty() || !text_of(launcher.size).empty())
      return seat_by(launcher);
  return Error{Errc::not_found,
               "no launcher left a rank in the environment; looked for " + names_of_launchers() +
                   ". Start this program by lend-run -n N, or set LEND_RANK, LEND_SIZE and "
                   "LEND_DESK"};
}

}  // namespace lend
