// SPDX-License-Identifier: MIT OR Apache-2.0
// What is no address is refused before any resolver or device is asked.
#include <cm/address.hpp>

#include "support/two_ends.hpp"

using namespace lend;
using namespace lend::test;

TEST_CASE("what is no address of rdma_cm is refused with a reason", "[cm]") {
  auto const [text, reason] = GENERATE(table<std::string, std::string>({
      {"", "the host is missing"},
      {"localhost", "the port is missing"},
      {"[::1:80", "a bracket is not closed"},
      {"[::1]80", "the port is missing"},
      {"localhost:65536", "0 to 65535"},
      {std::string{"localhost:8\0", 12}, "0 to 65535"},
      {"localhost:0", "no peer listens"},
      {std::string{"10.0.0.1\0evil:80", 16}, "character"},
      {std::string{"[::1\0evil]:80", 13}, "character"},
      {"local host:80", "character"},
      {"local\nhost:80", "character"},
      {"http//x:80", "character"},
      {std::string(254, 'a').append(":80"), "253"},
  }));
  auto const error = error_of(cm::CmAddress::parse(text, false, cm::HostNames::looked_up));
  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains(reason));
}

TEST_CASE("what is no local address of rdma_cm is refused with a reason", "[cm]") {
  auto const error =
      error_of(cm::CmAddress::parse({"10.0.0.1\0evil", 13}, true, cm::HostNames::looked_up));
  CHECK(error == Errc::invalid_argument);
  CHECK_THAT(error.message(), Catch::Contains("character"));
}

TEST_CASE("of a refused address of rdma_cm only the printable start is repeated", "[cm]") {
  auto const told = error_of(cm::CmAddress::parse("\x1b[2J\n" + std::string(1 << 20, 'x'), false,
                                                  cm::HostNames::looked_up));
  CHECK(told == Errc::invalid_argument);
  CHECK_THAT(told.message(), Catch::StartsWith("\"?[2J?xxx"));
  CHECK(told.message().size() < 250);
}
