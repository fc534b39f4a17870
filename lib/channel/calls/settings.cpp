// SPDX-License-Identifier: MIT OR Apache-2.0
// What is in force of a channel's options. The thread of the channel.
#include <channel/state/channel_state.hpp>
#include <lend/channel/channel.hpp>
#include <verbs/queue/connection_settings.hpp>

#include <string>
#include <vector>

namespace lend {

using channel::ChannelState;

std::vector<Setting> channel::Connection::settings() const {
  auto const handle = handed_out_.lock();
  return handle == nullptr ? std::vector<Setting>{} : verbs::settings_of(*handle);
}

std::vector<Setting> ChannelState::settings() const {
  auto all = connection.settings();
  if (all.empty() || connection.service().service != Service::reliable_connection) return all;
  auto const interval = watch.interval();
  all.push_back({"keep_alive", interval.count() == 0 ? "off" : verbs::text_of(interval),
                 std::string{verbs::name_of(keep_alive_from, "LEND_KEEP_ALIVE")}});
  return all;
}

std::vector<Setting> Channel::settings() const {
  ChannelState& channel = ChannelState::of(*this);
  ChannelState::Use const use{channel};
  return channel.settings();
}

}  // namespace lend
