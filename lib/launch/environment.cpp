// SPDX-License-Identifier: MIT OR Apache-2.0
// Seats by what launchers leave in the environment. As getenv(3) where threads are concerned.
#include <lend/launch/seat.hpp>

#include <base/environment.hpp>
#include <base/printable.hpp>
#include <base/unique_fd.hpp>
#include <launch/asking.hpp>
#include <launch/desk_visit.hpp>
#include <launch/host_list.hpp>
#include <launch/launchers.hpp>
#include <launch/pmi_meeting.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
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

using launch::Launcher;

/// Empty: not set, or to nothing. from_environment() refuses them all at once.
std::string_view own_value(char const* variable) noexcept {
  return variable == nullptr ? std::string_view{} : base::variable(variable).text;
}

Error wrong(char const* variable, std::string_view text, std::string const& reason) {
  return {Errc::invalid_argument,
          std::string{variable} + " is \"" + base::shown(text) + "\", " + reason};
}

Result<std::uint32_t> number_in(char const* variable, Launcher const& launcher) {
  auto const text = own_value(variable);
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
  for (auto const* const one : launch::launchers)
    names += std::string{names.empty() ? "" : ", "} + one->rank + " (" + one->name + ")";
  return names;
}

Result<std::string> secret_from_file() {
  constexpr char const* variable = "LEND_SECRET_FILE";
  std::string const path{own_value(variable)};
  if (path.empty()) return std::string{};
  auto const about = "LEND_SECRET_FILE, \"" + base::shown(path) + "\"";
  base::UniqueFd const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)};
  if (!file) return Error::from_errno("open of " + about, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Error::from_errno("fstat of " + about, errno);
  if (!S_ISREG(status.st_mode)) return wrong(variable, path, "which is no regular file");
  // Volumes of containers give a secret as root's, to a group that only the container has. So does
  // PostgreSQL decide. Source: PostgreSQL manual, libpq, sslkey.
  bool const is_roots = status.st_uid == 0;
  if ((status.st_mode & (is_roots ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO)) != 0)
    return Error{Errc::denied, about +
                                   ": other users may read it; chmod 600 it, or copy it to a file "
                                   "that you may chmod (root's may be 640, too)"};
  std::array<char, network::secret_bytes_max + 1> bytes;
  auto const got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0) return Error::from_errno("read of " + about, errno);
  std::string secret{bytes.data(), static_cast<std::size_t>(got)};
  ::explicit_bzero(bytes.data(), bytes.size());
  if (secret.size() < network::secret_bytes_min)
    return wrong(variable, path,
                 "which has " + std::to_string(secret.size()) + " bytes; " +
                     std::to_string(network::secret_bytes_min) +
                     " are the fewest: " + network::secret_recipe);
  if (secret.size() > network::secret_bytes_max)
    return wrong(variable, path, "which has more than 256 bytes");
  return secret;
}

/// Whether an MPI is in this process, by whatever means it was loaded. Not one that is linked
/// statically.
bool has_mpi() {
  if (::dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr) return true;
  auto const is_mpi = [](dl_phdr_info* object, std::size_t, void*) {
    std::string_view name{object->dlpi_name != nullptr ? object->dlpi_name : ""};
    name.remove_prefix(name.rfind('/') + 1);
    return name.starts_with("libmpi") ? 1 : 0;
  };
  return ::dl_iterate_phdr(is_mpi, nullptr) != 0;
}

/// Errors:  unsupported  both would take the other's answers, or end the other's connection.
Result<void> check_that_mpi_does_not_ask(std::string_view by) {
  if (!has_mpi()) return success();
  return Error{Errc::unsupported, "this program has MPI, which talks to the launcher by " +
                                      std::string{by} +
                                      ": join by join_over() of lend/group/mpi.hpp, or set "
                                      "LEND_DESK"};
}

/// The address by which the launcher is asked; empty: it has no descriptor.
/// Errors:  invalid_argument, unsupported.
Result<std::string> desk_by_pmi(char const* variable) {
  auto const text = own_value(variable);
  if (text.empty()) return std::string{};
  int descriptor = -1;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), descriptor);
  if (error != std::errc{} || end != text.data() + text.size() || descriptor < 0)
    return wrong(variable, text, "which is no descriptor");
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode))
    return wrong(variable, text,
                 "which is no socket in this process: something between it and the launcher closed "
                 "the descriptor; set LEND_DESK");
  LEND_TRYV(check_that_mpi_does_not_ask("PMI_FD"));
  return launch::pmi_desk(descriptor);
}

std::string port_of_step(std::string const& job) {
  auto const reserved = own_value("SLURM_STEP_RESV_PORTS");
  if (!reserved.empty()) return std::string{reserved.substr(0, reserved.find_first_of(",-"))};
  // FNV-1a, to below the ports that systems choose.
  std::uint32_t hash = 2'166'136'261;
  for (char const c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619;
  return std::to_string(20'000 + hash % 10'000);
}

/// Where ranks on several hosts of a step of Slurm meet: at a port of the first host.
/// Errors:  invalid_argument.
Result<std::string> desk_by_slurm(char const* variable, std::uint32_t rank,
                                  std::string const& job) {
  auto const list = own_value(variable);
  if (list.empty() || job.empty()) return std::string{};
  auto const host = launch::first_host(list);
  if (!host) return wrong(variable, list, host.error().message());
  auto const port = ":" + port_of_step(job);
  if (rank != 0) return host.value() + port;
  auto const here = own_value("SLURMD_NODENAME");
  if (!here.empty() && here != host.value())
    return wrong(variable, list,
                 "and rank 0 is on " + base::shown(here) +
                     ", not on the first of these hosts; set LEND_DESK");
  return "[::]" + port;  // the own name may be an address of the loopback device
}

/// The last bytes of a long name: they tell jobs apart, where the first ones name the host.
std::string end_of(std::string const& name, std::size_t most) {
  return name.substr(name.size() - std::min(name.size(), most));
}

/// Where ranks meet for which the user named no desk; empty: unknown.
Result<std::string> desk_by(Launcher const& launcher, Seat const& seat, std::string const& job) {
  if (seat.size == 1) return std::string{};
  if (!job.empty() && own_value(launcher.local_size) == std::to_string(seat.size))
    return "unix:@lend-" + std::to_string(::geteuid()) + "-" + end_of(job, 80);
  if (launcher.descriptor != nullptr) return desk_by_pmi(launcher.descriptor);
  if (launch::has_pmix(launcher, own_value)) {
    LEND_TRYV(check_that_mpi_does_not_ask("PMIx"));
    return std::string{launch::pmix_desk};
  }
  if (launcher.hosts != nullptr) return desk_by_slurm(launcher.hosts, seat.rank, job);
  return std::string{};
}

/// `asks_more`: the launcher is asked for the desk, too.
Result<std::uint32_t> size_by(Launcher const& launcher, bool asks_more) {
  if (launcher.size != nullptr) return number_in(launcher.size, launcher);
  LEND_TRYV(check_that_mpi_does_not_ask("PMIx"));
  return launch::ask_size(asks_more);
}

Result<Seat> seat_by(Launcher const& launcher) {
  Seat seat;
  LEND_TRY(rank, number_in(launcher.rank, launcher));
  seat.rank = rank;
  auto const job = launch::job_of(launcher, own_value);
  // A lend-run around the launcher meant its own ranks.
  bool const is_of_another =
      &launcher != &launch::lend_run && own_value("LEND_DESK").starts_with(launch::lend_run_desk);
  if (!is_of_another) {
    seat.desk = own_value("LEND_DESK");
    seat.desk_is_served = !seat.desk.empty() && own_value("LEND_DESK_SERVED") == "1";
    seat.group = own_value("LEND_GROUP");
  }
  LEND_TRY(size, size_by(launcher, seat.desk.empty()));
  seat.size = size;
  if (seat.group.empty()) seat.group = end_of(job, network::group_name_max);
  if (seat.desk.empty()) {
    LEND_TRY(desk, desk_by(launcher, seat, job));
    seat.desk = std::move(desk);
  }
  LEND_TRY(secret, secret_from_file());
  seat.secret = std::move(secret);
  if (auto const checked = launch::check(seat); !checked)
    return Error{Errc::invalid_argument,
                 "by " + std::string{launcher.rank} +
                     (launcher.size == nullptr ? "" : std::string{" and "} + launcher.size) + " (" +
                     launcher.name + "): " + checked.error().message()};
  return seat;
}

}  // namespace

Result<Seat> Seat::from_environment() {
  LEND_TRY(launcher, launch::starter_of(own_value, launch::environments_of_ancestors));
  if (launcher != nullptr) {
    LEND_TRYV(without_value(base::text_of_variable(launcher->rank)));
    if (launcher->size != nullptr) {
      LEND_TRYV(without_value(base::text_of_variable(launcher->size)));
    }
    return seat_by(*launcher);
  }
  std::string const by_srun =
      own_value(launch::slurm.job).empty()
          ? ""
          : "srun (this is a job of Slurm's, and no step of it that has ranks), ";
  return Error{Errc::not_found, "no launcher left a rank in the environment; looked for " +
                                    names_of_launchers() + ". Start this program by " + by_srun +
                                    "lend-run -n N, or set LEND_RANK, LEND_SIZE and LEND_DESK"};
}

}  // namespace lend
