// stops: ^lend: error\(\) of a Result that holds a value
// SPDX-License-Identifier: MIT OR Apache-2.0
// The error of a Result is taken without asking whether it has one.
#include <lend/base/result.hpp>

int main() {
  lend::Result<int> const result = 1;
  return result.error() == lend::Errc::not_found ? 0 : 1;
}
