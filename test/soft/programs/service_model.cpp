// SPDX-License-Identifier: MIT OR Apache-2.0
// What becomes of a request of any service, by the rules of verbs, one after the other. One thread.
#include <cstring>

#include "soft/programs/service_run.hpp"

namespace lend::test {

std::deque<Room>& ServiceRun::rooms_of(std::size_t link) {
  End& end = ends_[link % 2];
  return end.shared ? end.shared_rooms : links_[link].rooms;
}

/// Its receives come back, but not those that others share.
void ServiceRun::break_link(std::size_t link) {
  Link& it = links_[link];
  if (!it.is_broken) it.has_last_receive = ends_[link % 2].shared.has_value();
  it.is_broken = true;
  for (auto const& room : it.rooms)
    ends_[link % 2].lanes[1].told.push_back(
        {.id = room.id, .link = link, .status = WorkStatus::flushed});
  it.rooms.clear();
}

void ServiceRun::apply(std::size_t link, Asked const& asked) {
  Link& here = links_[link];
  End& end = ends_[link % 2];
  if (asked.operation == Operation::receive) {
    rooms_of(link).push_back({asked.id, asked.here});
    if (here.is_broken && !end.shared) break_link(link);
    return;
  }
  auto const status = here.is_broken ? WorkStatus::flushed : deliver(link, asked);
  if (status != WorkStatus::success || !asked.is_silent)
    end.lanes[0].told.push_back({.id = asked.id, .link = link, .status = status});
  if (status != WorkStatus::success) break_link(link);
}

/// What cannot be taken breaks a reliable connection, and is lost on any other service. `room`: one
/// that it took.
WorkStatus ServiceRun::lose(std::size_t to, Room const* room, WorkStatus at_sender,
                            WorkStatus at_room) {
  bool const is_shared = ends_[to % 2].shared.has_value();
  if (room != nullptr && (is_reliable() || is_shared))
    ends_[to % 2].lanes[1].told.push_back(
        {.id = room->id,
         .link = to,
         .status = is_reliable() ? at_room : WorkStatus::remote_aborted});
  else if (room != nullptr)
    rooms_of(to).push_front(*room);
  if (!is_reliable()) return WorkStatus::success;
  break_link(to);
  return at_sender;
}

WorkStatus ServiceRun::deliver(std::size_t from, Asked const& asked) {
  if (!asked.to || links_[*asked.to].is_broken)
    return is_reliable() ? WorkStatus::retry_exceeded : WorkStatus::success;
  auto const to = *asked.to;
  End& here = ends_[from % 2];
  End& there = ends_[to % 2];
  bool const is_send = asked.operation == Operation::send;
  std::optional<Room> room;
  if (is_send || asked.immediate) {
    auto& rooms = rooms_of(to);
    if (rooms.empty())
      return is_reliable() ? WorkStatus::receiver_not_ready_exceeded : WorkStatus::success;
    room = rooms.front();
    rooms.pop_front();
    if (there.shared && there.limit > rooms.size()) {
      there.limit = 0;
      there.is_low = true;
    }
  }
  std::size_t const header = is_datagram() ? datagram_header_bytes : 0;
  auto const length = header + asked.here.length;
  if (is_send && length > room->bytes.length)
    return lose(to, &*room, WorkStatus::remote_invalid_request, WorkStatus::local_length);
  // Nobody asks for the key of no bytes.
  if (!is_send && !asked.is_permitted && asked.here.length != 0)
    return lose(to, room ? &*room : nullptr, WorkStatus::remote_access, WorkStatus::flushed);
  std::memcpy(is_send ? there.own_bytes.data() + room->bytes.offset + header
                      : there.shown_bytes.data() + asked.there,
              here.own_bytes.data() + asked.here.offset, asked.here.length);
  if (room)
    there.lanes[1].told.push_back({.id = room->id,
                                   .link = to,
                                   .bytes = static_cast<std::uint32_t>(length),
                                   .immediate = asked.immediate,
                                   .is_solicited = has(asked.options, RequestOption::solicited),
                                   .sender = is_datagram() ? std::optional{from} : std::nullopt,
                                   .room = room->bytes});
  return WorkStatus::success;
}

}  // namespace lend::test
