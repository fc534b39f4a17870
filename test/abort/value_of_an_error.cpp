// stops: ^lend: value\(\) of a Result that holds an error: .*no such device
// SPDX-License-Identifier: MIT OR Apache-2.0
// The value of a Result is taken without asking whether it has one.
#include <lend/base/result.hpp>

int main() {
  lend::Result<int> const result = lend::Error{lend::Errc::not_found, "no such device"};
  return result.value();
}
