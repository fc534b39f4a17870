// SPDX-License-Identifier: MIT OR Apache-2.0
// The other process of a test: connects to the listener at argv[2] and does what argv[1] says.
//
//   sit   nothing more, until it is killed
//   send  one message after another
//   end   ends in order, at the end of its standard input
#include <sys/prctl.h>
#include <unistd.h>
#include <lend/cm/connector.hpp>
#include <lend/lend.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace lend;
using namespace std::chrono_literals;

namespace {

Result<void> serve(std::string_view task, std::string_view address) {
  LEND_TRY(context, open_device(DeviceChoice::named(std::getenv("LEND_TEST_DEVICE"))));
  LEND_TRY(domain, context.allocate_protection_domain());
  LEND_TRY(prepared, channel_builder().protection_domain(domain).build());
  LEND_TRY(connected, cm_connect(address, prepared.take_queue_pair(), within(60s)));
  LEND_TRY(channel, std::move(prepared).adopt(std::move(connected.queue_pair)));
  LEND_TRY(memory, domain.allocate(64));
  while (task == "send") {
    LEND_TRYV(channel.send(memory.gather()));
  }
  char unused = 0;
  while (::read(0, &unused, 1) > 0) continue;
  while (task == "sit") ::pause();
  return success();
}

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 3) return 2;
  auto const result = serve(argv[1], argv[2]);
  if (result.has_value()) return 0;
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  return 1;
}
