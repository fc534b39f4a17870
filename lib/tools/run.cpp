// SPDX-License-Identifier: MIT OR Apache-2.0
// lend run
#include <lend/soft/faults.hpp>

#include <base/environment.hpp>
#include <tools/commands.hpp>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace lend::tools {

namespace {

constexpr std::string_view library = "liblend-preload.so";

/// The folder of this program; empty without /proc.
std::string own_folder() {
  std::array<char, PATH_MAX> path{};
  auto const length = ::readlink("/proc/self/exe", path.data(), path.size());
  std::string const whole{path.data(), static_cast<std::size_t>(length < 0 ? 0 : length)};
  return whole.substr(0, whole.rfind('/') == whole.npos ? 0 : whole.rfind('/'));
}

/// The preload library: of this program's build, or installed as this program is, wherever both
/// were moved.
Result<std::string> preload_library() {
  auto const own = own_folder();
  std::string tried;
  for (auto const& folder : {own + "/../preload/", own + "/../" LEND_LIBRARY_FOLDER "/"}) {
    auto const path = folder + std::string{library};
    std::array<char, PATH_MAX> whole{};
    if (::realpath(path.c_str(), whole.data()) != nullptr) return std::string{whole.data()};
    tried += (tried.empty() ? "" : ", ") + path;
  }
  return Error{Errc::not_found, std::string{library} + " is at none of its places: " + tried};
}

}  // namespace

int run(CommandLine const& line) {
  if (!line.faults.empty()) {
    auto const plan = FaultPlan::parse(line.faults);
    if (plan.has_error()) return complain(plan.error(), status_of_usage);
    ::setenv("LEND_SOFT_FAULTS", plan.value().text().c_str(), 1);
  }
  if (!line.record_in.empty()) {
    std::error_code error;  // the program may change its directory
    auto const whole = std::filesystem::absolute(line.record_in, error).string();
    ::setenv("LEND_RECORD", error ? line.record_in.c_str() : whole.c_str(), 1);
  }
  auto found = preload_library();
  if (found.has_error()) return complain(found.error(), status_of_failure);
  auto preload = std::move(found).value();
  // Source: ld.so(8), LD_PRELOAD: there is no way to write such a path.
  if (preload.find_first_of(" :") != preload.npos)
    return complain(
        {Errc::unsupported, "LD_PRELOAD takes no path with a space or colon: " + preload},
        status_of_failure);
  if (auto const others = base::variable("LD_PRELOAD").text; !others.empty())
    (preload += ':') += others;
  ::setenv("LD_PRELOAD", preload.c_str(), 1);
  ::execvp(line.program.front(), line.program.data());
  int const error = errno;
  // As shells say it of a program that they cannot start.
  return complain(Error::from_errno(std::string{"start of "} + line.program.front(), error),
                  error == ENOENT ? 127 : 126);
}

}  // namespace lend::tools
