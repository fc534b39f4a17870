// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes and reads a capture.
#include <base/printable.hpp>
#include <tools/capture_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace lend::tools {

namespace {

std::string about_capture(std::string_view path) {
  return "the capture's file " + base::shown(path);
}

}  // namespace

Result<NewFile> NewFile::create(std::string_view path) {
  std::string name{path};
  constexpr int only_new = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  base::UniqueFd file{::open(name.c_str(), only_new, 0600)};
  if (!file)
    return Error::from_errno(Errc::invalid_argument, about_capture(path), errno,
                             errno == EEXIST ? "Name a file that is not there." : "");
  return NewFile{std::move(name), std::move(file)};
}

Result<void> NewFile::write(std::string_view text) const {
  while (!text.empty()) {
    auto const put = ::write(file_.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      auto const error = errno;
      ::unlink(path_.c_str());
      return Error::from_errno(about_capture(path_), error);
    }
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return success();
}

Result<std::string> text_in_file(std::string_view path) {
  constexpr std::size_t bytes_max = 8 * 1024 * 1024 + 1;
  base::UniqueFd const file{::open(std::string{path}.c_str(), O_RDONLY | O_CLOEXEC)};
  std::string text;
  for (char buffer[65'536]; text.size() < bytes_max;) {
    auto const most = std::min(sizeof buffer, bytes_max - text.size());
    auto const got = file ? ::read(file.get(), buffer, most) : -1;
    if (got < 0 && file && errno == EINTR) continue;
    if (got < 0) return Error::from_errno(Errc::invalid_argument, about_capture(path), errno);
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace lend::tools
