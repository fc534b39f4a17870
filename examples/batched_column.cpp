// SPDX-License-Identifier: MIT OR Apache-2.0
// A column of a matrix goes to a neighbour: one small write for each row, all by one call of the
// device. One thread plays both.
#include <lend/lend.hpp>

#include <cstring>
#include <iostream>

constexpr std::size_t rows = 16, columns = 32, cell = sizeof(double);

/// Where a cell is, in bytes.
static constexpr std::size_t at(std::size_t row, std::size_t column) {
  return (row * columns + column) * cell;
}

static lend::Result<void> exchange() {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(ours, domain.allocate(rows * columns * cell));
  // SAFETY: the neighbour reads its column after the scope has ended, and so all writes to it.
  LEND_TRY(theirs,
           domain.unsafe_allocate_exposed(rows * columns * cell, lend::RemoteAccess::write));
  LEND_TRY(neighbour, theirs.remote());
  // By default a batch would copy cells as short as these: they would not be lent at all.
  LEND_TRY(prepared, lend::channel_builder().protection_domain(domain).inline_bytes(0).build());
  lend::Endpoint const itself = prepared.endpoint();
  LEND_TRY(channel, std::move(prepared).handshake(itself));

  for (std::size_t row = 0; row < rows; ++row) {
    LEND_TRY(last, ours.mutable_bytes(at(row, columns - 1), cell));
    auto const value = double(row * row);
    std::memcpy(last.data(), &value, cell);
  }

  // Our last column becomes its first.
  auto const sent = channel.scope([&](lend::PollingScope& scope) -> lend::Result<void> {
    auto batch = scope.batch();
    for (std::size_t row = 0; row < rows; ++row) {
      LEND_TRYV(batch.add_write(
          {ours.gather(at(row, columns - 1), cell), neighbour.slice(at(row, 0), cell)}));
    }
    std::cout << batch.size() << " writes wait for the doorbell\n";
    // Their bytes are on loan already: who would change one now is refused.
    auto const refused = ours.mutable_bytes(at(3, columns - 1), cell);
    std::cout << (refused ? "a lent cell could be changed\n" : "a lent cell stays as it is\n");
    return batch.post();
  });
  LEND_TRYV(sent);

  double sum = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    LEND_TRY(first, theirs.bytes(at(row, 0), cell));
    double value = 0;
    std::memcpy(&value, first.data(), cell);
    sum += value;
  }
  std::cout << "the neighbour's column adds up to " << sum << ", over " << device.name() << '\n';
  return lend::success();
}

int main() {
  auto const done = exchange();
  if (!done) std::cerr << "batched_column: " << done.error().describe() << '\n';
  return done ? 0 : 1;
}
