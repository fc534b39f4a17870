// SPDX-License-Identifier: MIT OR Apache-2.0
// Goal: who waits at a terminal sees that work goes on, and nothing of it is left. Method: a
// pseudoterminal.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <base/unique_fd.hpp>
#include <command/terminal.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "support/catch.hpp"
#include "support/new_directory.hpp"

using namespace lend;
using namespace lend::test;
using namespace std::chrono_literals;

TEST_CASE("long work says on a terminal alone how far it is, and takes that back", "[tools]") {
  base::UniqueFd const own{::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  REQUIRE((own && ::grantpt(own.get()) == 0 && ::unlockpt(own.get()) == 0));
  std::array<char, 64> name{};
  REQUIRE(::ptsname_r(own.get(), name.data(), name.size()) == 0);
  base::UniqueFd const terminal{::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC)};
  NewDirectory const folder;
  base::UniqueFd const file{
      ::open((folder.path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  {
    command::Progress soon{terminal.get(), 0s}, late{terminal.get(), 1h}, none{file.get(), 0s};
    for (auto* const one : {&soon, &late, &none}) one->show("row 1 of 9");
  }
  // A terminal may pass on in pieces what was written at once.
  std::string_view const wanted = "\r\x1b[Krow 1 of 9\r\x1b[K";
  std::string said;
  pollfd more{own.get(), POLLIN, 0};
  while (said.size() < wanted.size() && ::poll(&more, 1, 10'000) == 1) {
    std::array<char, 64> part{};
    auto const bytes = ::read(own.get(), part.data(), part.size());
    REQUIRE(bytes > 0);
    said.append(part.data(), static_cast<std::size_t>(bytes));
  }
  CHECK(said == wanted);
  CHECK(std::filesystem::file_size(folder.path() + "/f") == 0);
}
