// error: is an lvalue|discards qualifiers|passing .* as .this. argument
// SPDX-License-Identifier: MIT OR Apache-2.0
// What a call uses up is named as moved where the call is.
#include <lend/cm/listener.hpp>
#include <lend/lend.hpp>

struct Things {
  lend::Channel channel;
  lend::PreparedChannel prepared;
  lend::PreparedQueuePair bare;
  lend::QueuePair connected;
  lend::CmRequest request;
  lend::Endpoint peer;
};

void rule(Things& of) {
#ifdef MUST_COMPILE
  static_cast<void>(std::move(of.channel).prepare_again());
  static_cast<void>(std::move(of.prepared).adopt(std::move(of.connected)));
  static_cast<void>(std::move(of.bare).connect(of.peer));
  static_cast<void>(std::move(of.request).accept(std::move(of.bare), lend::Deadline::never()));
  static_cast<void>(
      std::move(of.request).begin_accept(std::move(of.bare), lend::Deadline::never()));
  static_cast<void>(std::move(of.request).reject("no"));
#else
  static_cast<void>(of.channel.prepare_again());                                      // refused
  static_cast<void>(of.prepared.adopt(std::move(of.connected)));                      // refused
  static_cast<void>(of.bare.connect(of.peer));                                        // refused
  static_cast<void>(of.request.accept(std::move(of.bare), lend::Deadline::never()));  // refused
  static_cast<void>(
      of.request.begin_accept(std::move(of.bare), lend::Deadline::never()));  // refused
  static_cast<void>(of.request.reject("no"));                                 // refused
#endif
}
