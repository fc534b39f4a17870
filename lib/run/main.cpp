// SPDX-License-Identifier: MIT OR Apache-2.0
// lend-run: starts a program as N ranks of a group on this host.
#include <base/standard_reserved.hpp>
#include <run/launcher.hpp>

#include <cerrno>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

namespace {

int status_of(lend::Error const& error) {
  // As shells say it of a program that they cannot start.
  if (error.os_error() == ENOENT) return 127;
  if (error.os_error() == EACCES || error.os_error() == ENOEXEC) return 126;
  return lend::run::status_of_own_failure;
}

int complain(lend::Error const& error, int status) {
  std::fprintf(stderr, "lend-run: %s\n", error.message().c_str());
  return status;
}

}  // namespace

int main(int count, char* words[]) {
  lend::base::StandardReserved const reserved;
  auto options = lend::run::parse(std::span{words, static_cast<std::size_t>(count)}.subspan(1));
  if (!options) {
    auto const status = complain(options.error(), 2);
    std::fputs("`lend-run --help` says more\n", stderr);
    return status;
  }
  if (auto const& text = options.value().text; !text.empty())
    return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
  return lend::run::run_guarded([&](lend::run::Guarded const& guarded) {
    auto launcher = lend::run::Launcher::make(std::move(options).value(), guarded);
    if (!launcher) return complain(launcher.error(), lend::run::status_of_own_failure);
    auto const status = launcher.value().run();
    return status ? status.value() : complain(status.error(), status_of(status.error()));
  });
}
