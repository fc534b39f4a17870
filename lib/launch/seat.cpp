// SPDX-License-Identifier: MIT OR Apache-2.0
// What makes a seat impossible. Any thread.
#include <base/printable.hpp>
#include <launch/asking.hpp>
#include <launch/desk_visit.hpp>

namespace lend::launch {

Result<void> check(Seat const& seat) {
  auto const wrong_seat = [](std::string why) { return Error{Errc::invalid_argument, why}; };
  if (seat.size == 0 || seat.size > group_size_max)
    return wrong_seat("a group has 1 to " + std::to_string(group_size_max) + " ranks, not " +
                      std::to_string(seat.size));
  if (seat.rank >= seat.size)
    return wrong_seat("there is no rank " + std::to_string(seat.rank) + " among " +
                      std::to_string(seat.size) + ": the first is 0");
  if (seat.group.size() > network::group_name_max)
    return wrong_seat("the name of the group has " + std::to_string(seat.group.size()) +
                      " bytes; " + std::to_string(network::group_name_max) + " is the most");
  if (seat.desk.empty()) {
    if (seat.size == 1) return success();
    return wrong_seat(
        "no desk is named (LEND_DESK): name a host:port of rank 0's host at all ranks, or "
        "unix:PATH for ranks of one host");
  }
  if (is_asked(seat.desk)) {
    if (!seat.desk_is_served) return success();
    return wrong_seat("the desk \"" + base::shown(seat.desk) +
                      "\" is rank 0's: no other process can serve it");
  }
  if (network::is_local_address(seat.desk)) {
    LEND_TRYV(without_value(network::parse_local_address(seat.desk)));
    return success();
  }
  LEND_TRY(parsed, network::parse_address(seat.desk));
  if (parsed.port != 0) return success();
  return wrong_seat("the desk \"" + base::shown(seat.desk) +
                    "\" has port 0, which the other ranks cannot know");
}

}  // namespace lend::launch
