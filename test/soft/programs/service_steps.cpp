// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests of any service by lot, alone and in batches; and those that lend must refuse. One
// thread.
#include <algorithm>
#include <utility>

#include "soft/programs/service_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

/// In a place that no other receive of this end has; none: all are taken.
ServiceRun::Asked ServiceRun::receive_asked(std::size_t link) {
  Asked asked;
  asked.operation = Operation::receive;
  asked.id = next_id_++;
  auto const is_in = [&](std::deque<Room> const& rooms, std::size_t place) {
    return std::ranges::any_of(
        rooms, [&](Room const& room) { return room.bytes.offset / bytes_of_room == place; });
  };
  std::size_t place = 0;
  while (place < rooms_of_end &&
         (is_in(ends_[link % 2].shared_rooms, place) || is_in(links_[link].rooms, place) ||
          is_in(links_[link ^ 2].rooms, place)))
    ++place;
  asked.is_refused = place == rooms_of_end;
  // Mostly room for any message.
  constexpr auto most = static_cast<std::uint32_t>(bytes_of_room) - 7;
  auto const least = is_datagram() ? static_cast<std::uint32_t>(datagram_header_bytes) + 1 : 0;
  bool const is_short = one_in(is_reliable() ? 16 : 3);
  asked.here = {place * bytes_of_room + below(8), is_short ? least + below(most - least) : most};
  return asked;
}

/// The elements of what is sent or received.
void ServiceRun::fill(Asked& asked, std::size_t link) {
  auto const [offset, length] = asked.here;
  auto& region = asked.is_long ? *long_region_ : *ends_[link % 2].own;
  bool const is_receive = asked.operation == Operation::receive;
  auto const first = is_datagram() && is_receive ? length : below(2) * length / 2;
  auto const add = [&](std::size_t from, std::size_t count) {
    if (is_receive)
      asked.scattered.push_back(region.scatter(from, count));
    else
      asked.gathered.push_back(region.gather(from, count));
  };
  add(offset, first);
  if (first != length) add(offset + first, length - first);
}

/// `rooms`: the peer's, when this request comes.
ServiceRun::Asked ServiceRun::asked(std::size_t link, std::size_t rooms) {
  Asked asked;
  asked.id = next_id_++;
  bool const must_write = is_reliable() && rooms == 0 && !one_in(24);
  asked.operation =
      !is_datagram() && (must_write || one_in(3)) ? Operation::write : Operation::send;
  if (one_in(3) && !must_write) asked.immediate = below(99);
  constexpr std::uint32_t lengths[] = {1, 33, 48, 48, 88};
  asked.here = {sent_from + below(128), below(lengths[below(5)])};
  asked.to = link ^ 1;
  if (asked.operation == Operation::write) aim(asked, link);
  if (is_datagram()) choose_way(asked);
  if ((asked.operation == Operation::send || asked.immediate) && one_in(3))
    asked.options = RequestOption::solicited;
  if (!is_reliable() && one_in(48)) {
    asked.options = asked.options | RequestOption::fenced;
    asked.is_refused = true;
  }
  fill(asked, link);
  return asked;
}

/// At what the peer shows, with its key or another one.
void ServiceRun::aim(Asked& asked, std::size_t link) {
  auto const& remote = ends_[1 - link % 2].remote;
  asked.there = below(static_cast<std::uint32_t>(bytes_of_region - asked.here.length));
  asked.remote = remote.slice(asked.there, asked.here.length);
  asked.is_permitted = !one_in(16);
  if (!asked.is_permitted) asked.remote.key = 0xbad'0bad;
}

/// To any link, or to nobody.
void ServiceRun::choose_way(Asked& asked) {
  auto way = ways_.begin();
  std::advance(way, below(static_cast<std::uint32_t>(ways_.size())));
  asked.way = way->destination;
  asked.to = way->to;
  if (!one_in(24)) return;
  auto const length = static_cast<std::uint32_t>(bytes_of_long_region) - below(2);
  asked.is_long = true;
  asked.here = {0, length};
  asked.is_refused = length == bytes_of_long_region;
}

namespace {

template <class Work>
Work with_options(Work work, auto const& asked) {
  work.immediate = asked.immediate;
  work.options = asked.options;
  return work;
}

}  // namespace

template <class S>
Result<void> ServiceRun::give(QueuePairOf<S>& pair, Asked const& asked) {
  if (asked.operation == Operation::receive) {
    if constexpr (IsAddressed<S>)
      return pair.unsafe_post_receive(asked.id, must(DatagramRoom::in(asked.scattered[0])));
    else
      return pair.unsafe_post_receive(asked.id, Receive{ScatterList{asked.scattered}});
  }
  if constexpr (CanWrite<S>) {
    if (asked.operation == Operation::write) {
      return pair.unsafe_post_write(
          asked.id, with_options(Write{GatherList{asked.gathered}, asked.remote}, asked));
    }
  }
  auto const work = with_options(Send{GatherList{asked.gathered}}, asked);
  if constexpr (IsAddressed<S>)
    return pair.unsafe_post_send(asked.id, work, *asked.way);
  else
    return pair.unsafe_post_send(asked.id, work);
}

template <class S>
Result<void> ServiceRun::add(UnsafeBatchOf<S>& batch, Asked const& asked) {
  auto const how = asked.is_silent ? Completes::silently : Completes::aloud;
  if (asked.operation == Operation::receive) {
    if constexpr (IsAddressed<S>)
      return batch.add_receive(asked.id, must(DatagramRoom::in(asked.scattered[0])));
    else
      return batch.add_receive(asked.id, Receive{ScatterList{asked.scattered}});
  }
  if constexpr (CanWrite<S>) {
    if (asked.operation == Operation::write) {
      return batch.add_write(
          asked.id, with_options(Write{GatherList{asked.gathered}, asked.remote}, asked), how);
    }
  }
  auto const work = with_options(Send{GatherList{asked.gathered}}, asked);
  if constexpr (IsAddressed<S>)
    return batch.add_send(asked.id, work, *asked.way, how);
  else
    return batch.add_send(asked.id, work, how);
}

void ServiceRun::check_answer(Asked const& asked, Result<void> const& result) {
  tell("  " + std::string{name_of(asked.operation)} + ' ' + std::to_string(asked.id) + " of " +
       std::to_string(asked.here.length) + " bytes" + (asked.immediate ? " and immediate" : "") +
       (asked.way && !asked.to ? " to nobody"
        : asked.to             ? " to " + std::to_string(*asked.to)
                               : "") +
       (asked.is_permitted ? "" : ", with a bad key") + (asked.is_silent ? ", silent" : "") +
       (result.has_value() ? "" : ": refused"));
  if (result.has_value() == asked.is_refused ||
      (asked.is_refused && result.error() != Errc::invalid_argument))
    complain("a request was taken, or refused, against what it asks");
}

Result<void> ServiceRun::post_one(Link& link, Asked const& asked) {
  return std::visit(
      [&](auto& pair) -> Result<void> {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(pair)>, std::monostate>)
          return Errc::stale_handle;
        else
          return give(pair, asked);
      },
      link.pair);
}

void ServiceRun::post(std::size_t link) {
  auto const request = asked(link, rooms_of(link ^ 1).size());
  tell("link " + std::to_string(link) + ':');
  auto const result = post_one(links_[link], request);
  check_answer(request, result);
  if (result.has_value()) apply(link, request);
  settle();
}

void ServiceRun::batch(std::size_t link) {
  std::visit(
      [&](auto& pair) {
        if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(pair)>, std::monostate>)
          batch_of(link, pair);
      },
      links_[link].pair);
}

/// The last request that is taken completes aloud.
template <class S>
void ServiceRun::batch_of(std::size_t link, QueuePairOf<S>& pair) {
  tell("link " + std::to_string(link) + ", a batch:");
  auto batch = pair.unsafe_batch();
  std::vector<Asked> requests;
  std::size_t rooms = rooms_of(link ^ 1).size();
  for (auto count = 1 + below(6); count > 0; --count) {
    requests.push_back(asked(link, rooms));
    if (rooms != 0 && (requests.back().operation == Operation::send || requests.back().immediate))
      --rooms;
  }
  std::optional<Asked> received;
  if (!ends_[link % 2].shared && one_in(3)) {
    received = receive_asked(link);
    if (received->is_refused) received.reset();
  }
  if (received) {
    fill(*received, link);
    check_answer(*received, add(batch, *received));
    apply(link, *received);
  }
  auto const last = std::ranges::find_if(requests.rbegin(), requests.rend(),
                                         [](Asked const& one) { return !one.is_refused; });
  std::uint32_t taken = received ? 1 : 0;
  for (auto& request : requests) {
    request.is_silent = last != requests.rend() && &request < &*last && one_in(2);
    auto const result = add(batch, request);
    check_answer(request, result);
    if (result.has_value()) {
      ++taken;
      apply(link, request);
    }
  }
  if (batch.size() != taken) complain("a batch miscounts what is in it");
  if (auto const result = batch.post(); !result.has_value())
    complain("a batch was not posted: " + result.error().message());
  settle();
}

/// Own receives, or shared ones up to the depth of their queue, and one more.
void ServiceRun::receive(std::size_t link) {
  End& end = ends_[link % 2];
  for (auto count = 1 + below(4); count > 0; --count) {
    auto request = receive_asked(link);
    if (request.is_refused) break;
    fill(request, link);
    bool const is_full = end.shared && end.shared_rooms.size() == end.shared->depth();
    auto const result = end.shared ? end.shared->unsafe_post_receive(
                                         request.id, Receive{ScatterList{request.scattered}})
                                   : post_one(links_[link], request);
    if (result.has_value() == is_full || (is_full && result.error() != Errc::queue_full))
      complain("a receive was posted, or not, against the room there is");
    if (result.has_value()) apply(link, request);
  }
  if (end.shared && one_in(16)) {
    auto request = receive_asked(link);
    fill(request, link);
    if (post_one(links_[link], request).has_value())
      complain("a queue pair with shared receives took one of its own");
  }
  tell("link " + std::to_string(link) + ": " + std::to_string(rooms_of(link).size()) +
       " receives wait");
  settle();
}

/// A write of no bytes, which takes no receive and needs no key.
void ServiceRun::probe(std::size_t link) {
  auto* const pair = std::get_if<QueuePair>(&links_[link].pair);
  if (pair == nullptr) return;
  Asked request;
  request.operation = Operation::write;
  request.id = next_id_++;
  request.to = link ^ 1;
  request.is_refused = pair->unsafe_post_probe(request.id) != QueuePair::Probe::posted;
  tell("link " + std::to_string(link) + ": a probe");
  if (request.is_refused) return complain("a probe was refused");
  apply(link, request);
  settle();
}

}  // namespace lend::test
