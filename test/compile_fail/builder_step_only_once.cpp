// error: StepNotTakenYet
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

using namespace std::chrono_literals;

void rule(lend::ProtectionDomain const& domain) {
  auto const begun = lend::channel_builder();
#ifdef MUST_COMPILE
  static_cast<void>(begun.protection_domain(domain)
                        .send_depth(8)
                        .receive_depth(8)
                        .elements(2)
                        .inline_bytes(8)
                        .ack_timeout(1ms)
                        .ack_retries(1)
                        .receiver_not_ready_retries(1)
                        .receiver_not_ready_delay(1ms)
                        .wait(lend::Wait::spin)
                        .gid_index(1)
                        .keep_alive(1s)
                        .build());
#else
  static_cast<void>(begun.protection_domain(domain).protection_domain(domain));          // refused
  static_cast<void>(begun.send_depth(8).send_depth(9));                                  // refused
  static_cast<void>(begun.receive_depth(8).receive_depth(9));                            // refused
  static_cast<void>(begun.elements(2).elements(3));                                      // refused
  static_cast<void>(begun.inline_bytes(8).inline_bytes(9));                              // refused
  static_cast<void>(begun.ack_timeout(1ms).ack_timeout(2ms));                            // refused
  static_cast<void>(begun.ack_retries(1).ack_retries(2));                                // refused
  static_cast<void>(begun.receiver_not_ready_retries(1).receiver_not_ready_retries(2));  // refused
  static_cast<void>(begun.receiver_not_ready_delay(1ms).receiver_not_ready_delay(2ms));  // refused
  static_cast<void>(begun.wait(lend::Wait::spin).wait(lend::Wait::event));               // refused
  static_cast<void>(begun.gid_index(1).gid_index(2));                                    // refused
  static_cast<void>(begun.keep_alive(1s).keep_alive(2s));                                // refused
#endif
}
