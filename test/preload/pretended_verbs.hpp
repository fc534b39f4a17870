// SPDX-License-Identifier: MIT OR Apache-2.0
// What the library that pretends to be libibverbs tells the test. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lend::test {

/// A call that reached it, as the six registers in which whole numbers and pointers are passed;
/// what lies in those that the call does not use, or above a narrower number, is nobody's.
struct ForwardedCall {
  std::string name;
  std::uint64_t arguments[6];
};

/// What every call but those of the device list answers.
inline constexpr std::uint64_t pretended_answer = 0x5a'3c10;

}  // namespace lend::test

/// Every call since this was last asked.
extern "C" std::vector<lend::test::ForwardedCall>* pretended_verbs_calls();
