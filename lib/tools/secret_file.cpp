// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads a secret.
#include <base/printable.hpp>
#include <base/unique_fd.hpp>
#include <network/wire/secret.hpp>
#include <tools/secret_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace lend::tools {

Result<std::string> secret_in(std::string_view path) {
  if (path.empty()) return std::string{};
  auto const about = "the secret's file " + base::shown(path);
  base::UniqueFd const file{::open(std::string{path}.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.get() < 0) return Error::from_errno(about, errno);
  std::string secret(network::secret_bytes_max + 1, '\0');
  std::size_t size = 0;  // a pipe gives it in parts
  while (size < secret.size()) {
    auto const got = ::read(file.get(), secret.data() + size, secret.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::from_errno(about, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  secret.resize(size);
  bool const is_short = secret.size() < network::secret_bytes_min;
  if (is_short || secret.size() > network::secret_bytes_max)
    return Error{Errc::invalid_argument, about + " has too " + (is_short ? "few" : "many") +
                                             " bytes: " + network::secret_recipe};
  return secret;
}

}  // namespace lend::tools
