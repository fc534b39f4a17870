// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/lend.hpp>

using namespace std::chrono_literals;

extern lend::ProtectionDomain const& domain;
extern lend::WaitSet& set;
extern lend::ReceivePool& pool;

void steps_once() {
  auto const begun = lend::channel_builder();
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
#ifdef CASE_builder_step_only_once
  // error: StepNotTakenYet
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

  static_cast<void>(begun.gid_address("10.0.0.1").send_depth(32));
  static_cast<void>(begun.gid_index(3).send_depth(32));
#ifdef CASE_builder_gid_only_once
  // error: StepNotTakenYet
  // By index or by address: one of the two.
  static_cast<void>(begun.gid_address("10.0.0.1").gid_index(3));             // refused
  static_cast<void>(begun.gid_index(3).gid_address("10.0.0.1"));             // refused
  static_cast<void>(begun.gid_address("10.0.0.1").gid_address("10.0.0.2"));  // refused
#endif

#ifdef CASE_builder_needs_a_protection_domain
  // error: ProtectionDomainIsSet
  static_cast<void>(begun.send_depth(64).build());
#endif
}

void waiting() {
  auto const begun = lend::channel_builder().protection_domain(domain);
  static_cast<void>(begun.wait(lend::Wait::event).build());
  static_cast<void>(begun.wait_set(set, 1).build());
#ifdef CASE_wait_and_wait_set_exclude_each_other
  // error: StepNotTakenYet
  static_cast<void>(begun.wait(lend::Wait::event).wait_set(set, 1));  // refused
  static_cast<void>(begun.wait_set(set, 1).wait(lend::Wait::event));  // refused
  static_cast<void>(begun.wait_set(set, 1).wait_set(set, 2));         // refused
#endif

  static_cast<void>(begun.wait_set(set, 1).receive_pool(pool).build());
#ifdef CASE_pool_needs_a_wait_set
  // error: WaitSetIsSet|StepNotTakenYet
  static_cast<void>(begun.receive_pool(pool));                                    // refused
  static_cast<void>(begun.wait_set(set, 1).receive_depth(8).receive_pool(pool));  // refused
  static_cast<void>(begun.wait_set(set, 1).receive_pool(pool).receive_depth(8));  // refused
#endif
}

void unreliable() {
  static_cast<void>(lend::channel_builder(domain).keep_alive(1s).build());
#ifdef CASE_builder_keeps_alive_what_acknowledges
  // error: Acknowledges
  static_cast<void>(lend::unreliable_channel_builder(domain).keep_alive(1s).build());
#endif

  static_cast<void>(lend::channel_builder().remote_access(lend::RemoteAccess::read));
#ifdef CASE_unreliable_builder_allows_no_reads
  // error: CanRead
  static_cast<void>(lend::unreliable_channel_builder().remote_access(lend::RemoteAccess::read));
#endif

  static_cast<void>(lend::OptionsOf<lend::Rc>{.receiver_not_ready_retries = std::uint8_t{4}});
#ifdef CASE_unreliable_retries_nothing
  // error: could not convert|does not refer to any|has no.*member named
  static_cast<void>(lend::OptionsOf<lend::Uc>{.receiver_not_ready_retries = std::uint8_t{4}});
#endif
}
