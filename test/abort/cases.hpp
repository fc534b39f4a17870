// SPDX-License-Identifier: MIT OR Apache-2.0
// What must stop the process, case by case. One thread registers and runs them.
#pragma once

#include <lend/base/result.hpp>

#include <vector>

/// Breaks one promise: its process must end by SIGABRT, with `stops`, a regular expression of
/// Python's, on standard error. An object of static storage duration, which all() has.
struct Case {
  char const* name;
  char const* stops;
  lend::Result<void> (*provoke)();

  Case(char const* its_name, char const* expected, lend::Result<void> (*breaks)())
      : name{its_name}, stops{expected}, provoke{breaks} {
    all().push_back(this);
  }
  Case(Case const&) = delete;
  Case& operator=(Case const&) = delete;

  static std::vector<Case const*>& all() {
    static std::vector<Case const*> cases;
    return cases;
  }
};

/// `ABORT_CASE(name, "what it must say") { what breaks the promise, and returns a Result<void> }`
#define ABORT_CASE(name, stops)               \
  lend::Result<void> name();                  \
  Case const case_##name{#name, stops, name}; \
  lend::Result<void> name()
