// SPDX-License-Identifier: MIT OR Apache-2.0
// Where rank 0 opens the desk, for launchers that tell the other ranks. Any thread.
#pragma once

#include <base/unique_fd.hpp>

#include <lend/base/result.hpp>

#include <string>
#include <string_view>

namespace lend::launch {

/// Under this name rank 0 gives its place to the launcher.
inline constexpr std::string_view desk_key = "lend-desk";
/// Between the address and the secret of a place.
inline constexpr char secret_follows = ',';

/// Where ranks meet, as rank 0 tells the others.
struct MeetingPlace {
  std::string desk{};
  std::string secret{};  ///< letters and digits, or empty

  [[nodiscard]] std::string to_value() const;
  [[nodiscard]] static MeetingPlace of_value(std::string_view value);
};

/// Rank 0's own.
struct OwnPlace {
  MeetingPlace place{};
  std::string listens_at{};
  base::UniqueFd reserved{};  ///< bound to its port, which no other program gets meanwhile
};

/// Of ranks on one host a name by `job`, else a port and, unless the ranks `have_secret`, a secret.
/// Errors:  unsupported  lend was built without libsodium, or the host has a name by which no other
///                       can reach it.
///          exhausted, system_failed.
[[nodiscard]] Result<OwnPlace> choose_place(std::string const& job, bool is_one_host,
                                            bool have_secret);

/// The end of `job` that tells jobs apart, with characters that names may have.
[[nodiscard]] std::string name_of_job(std::string job, std::size_t most);

}  // namespace lend::launch
