// SPDX-License-Identifier: MIT OR Apache-2.0
// abort_test: a line for each case, its name and what it must say. abort_test NAME: runs that case.
#include <cstdio>
#include <string_view>

#include "cases.hpp"

int main(int argc, char** argv) {
  for (Case const* const one : Case::all()) {
    if (argc < 2) {
      std::printf("%s %s\n", one->name, one->stops);
    } else if (std::string_view{argv[1]} == one->name) {
      return one->provoke().has_value() ? 0 : 1;
    }
  }
  return argc < 2 ? 0 : 2;
}
