// SPDX-License-Identifier: MIT OR Apache-2.0
// N processes meet as the ranks of a group and pass a token around, to which each adds its rank.
// The last one's token is what an allreduce of all ranks says:
//
//   lend-run -n 4 ring
#include <lend/group.hpp>

#include <chrono>
#include <cstdint>
#include <iostream>

using namespace std::chrono_literals;

namespace {

lend::Result<void> run() {
  LEND_TRY(seat, lend::Seat::from_environment());
  LEND_TRY(context, lend::open_device());
  LEND_TRY(domain, context.allocate_protection_domain());
  lend::GroupOptions options;
  options.message_bytes = 256;  // little is sent: with many ranks this saves memory
  options.window = 4;

  auto const start = std::chrono::steady_clock::now();
  LEND_TRY(group, lend::Group::join(domain, seat, lend::within(60s), options));
  std::chrono::duration<double, std::milli> const joined = std::chrono::steady_clock::now() - start;
  LEND_TRYV(group.barrier(lend::within(60s)));

  std::uint32_t token = 0;
  for (std::uint32_t holder = 0; holder < group.size(); ++holder) {
    if (holder == group.rank()) token += group.rank();
    LEND_TRYV(group.broadcast(holder, std::span{&token, 1}, lend::within(60s)));
  }
  LEND_TRY(sum, group.allreduce(lend::sum<std::uint32_t>, group.rank(), lend::within(60s)));
  if (token != sum) return lend::Error{lend::Errc::disagreement, "the token is wrong"};
  std::cout << "rank " << group.rank() << " of " << group.size() << ": token " << token
            << ", joined in " << joined.count() << " ms, over " << context.name() << std::endl;
  return group.barrier(lend::within(60s));
}

}  // namespace

int main() {
  auto const done = run();
  if (done) return 0;
  std::cerr << done.error().message() << std::endl;
  return 1;
}
