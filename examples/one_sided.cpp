// SPDX-License-Identifier: MIT OR Apache-2.0
// A guest writes to and reads from memory that its host has exposed. One thread plays both.
#include <lend/lend.hpp>

#include <algorithm>
#include <iostream>
#include <string_view>

static lend::Result<void> visit(std::string_view words) {
  LEND_TRY(device, lend::open_device());
  LEND_TRY(domain, device.allocate_protection_domain());
  LEND_TRY(memory, domain.allocate(4096));

  LEND_TRY(prepared_host, lend::channel_builder().protection_domain(domain).build());
  LEND_TRY(prepared_guest, lend::channel_builder().protection_domain(domain).build());
  LEND_TRY(both, lend::connect_local(std::move(prepared_host), std::move(prepared_guest)));
  auto& [host, guest] = both;

  // SAFETY: the host does not touch the board until the guest's immediate says it is written.
  LEND_TRY(board, domain.unsafe_allocate_exposed(1024, lend::RemoteAccess::read_write));

  // The host tells where its board is, in bytes, by an ordinary message.
  constexpr std::size_t size = lend::RemoteRegion::encoded_size;
  LEND_TRY(where, board.remote());
  LEND_TRY(letter, memory.mutable_bytes(0, size));
  std::ranges::copy(where.encode(), letter.begin());
  lend::PollingScope told{guest};
  LEND_TRY(delivery, told.post_receive(memory.scatter(64, size)));
  LEND_TRYV(host.send(memory.gather(0, size)));
  LEND_TRYV(delivery.wait());
  LEND_TRY(claim, memory.bytes(64, size));
  LEND_TRY(there, lend::RemoteRegion::decode(claim));

  // The guest writes. The immediate takes one receive of the host, and so wakes it.
  LEND_TRY(draft, memory.mutable_bytes(128, words.size()));
  std::ranges::copy(std::as_bytes(std::span{words}), draft.begin());
  lend::PollingScope awaited{host};
  LEND_TRY(bell, awaited.post_receive(lend::Receive::only_immediate()));
  lend::Write const write{memory.gather(128, words.size()), there.slice(512, words.size())};
  LEND_TRYV(guest.write(write.with_immediate(512)));
  LEND_TRY(rung, bell.wait());
  LEND_TRY(written, board.bytes(rung.immediate.value(), rung.bytes));
  std::cout << "host: \"";
  for (std::byte byte : written) std::cout << char(byte);

  // The guest reads it back. The host takes no part in that.
  LEND_TRYV(guest.read({memory.scatter(2048, words.size()), there.slice(512, words.size())}));
  LEND_TRY(copy, memory.bytes(2048, words.size()));
  bool const same = std::ranges::equal(copy, written);
  std::cout << "\"; guest: " << (same ? "the same" : "not so") << ", over " << device.name()
            << '\n';
  LEND_TRYV(told.finish());
  return awaited.finish();
}

int main() {
  auto const done = visit("I was here");
  if (!done) std::cerr << "one_sided: " << done.error().describe() << '\n';
  return done ? 0 : 1;
}
