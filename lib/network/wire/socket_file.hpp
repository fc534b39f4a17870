// SPDX-License-Identifier: MIT OR Apache-2.0
// The file of a local listening socket. One thread at a time.
#pragma once

#include <network/wire/address.hpp>

#include <unistd.h>

#include <string>
#include <utility>

namespace lend::network {

/// Removed when the listener ends, but not by a forked child, whose parent listens on.
class SocketFile {
 public:
  SocketFile() = default;
  explicit SocketFile(SocketAddress const& address)
      : path_{address.is_local() ? address.to_text().substr(5) : std::string{}} {
    if (path_.starts_with('@')) path_.clear();  // has no file
  }
  SocketFile(SocketFile&& other) noexcept
      : path_{std::exchange(other.path_, {})}, owner_{other.owner_} {}
  SocketFile& operator=(SocketFile&&) = delete;
  ~SocketFile() {
    if (!path_.empty() && ::getpid() == owner_) ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  pid_t owner_ = ::getpid();
};

}  // namespace lend::network
