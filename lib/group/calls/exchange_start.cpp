// SPDX-License-Identifier: MIT OR Apache-2.0
// The first start of an exchange: its rows are described, and compared with those of the peers. The
// thread of the group.
#include <base/giving_up.hpp>
#include <group/calls/exchange_state.hpp>
#include <launch/desk_table.hpp>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lend {

using group::PeerBox;
using group::Row;
using group::RowsNote;
using group::WrittenRow;

namespace {

Error is_late(Deadline deadline, std::vector<std::uint32_t> const& missing) {
  return base::gave_up(deadline,
                       launch::list_of(missing) + " did not start an exchange with this rank",
                       ": start() again");
}

}  // namespace

/// Posts nothing, so that it can be repeated.
Result<void> group::ExchangeState::describe() {
  partners.clear();
  std::map<std::uint32_t, Partner> by_rank;
  auto const add = [&](auto const& row, group::RowsDigest RowsNote::*rows) -> Partner& {
    auto& partner = by_rank.try_emplace(row.rank, Partner{row.rank}).first->second;
    (partner.ours.*rows).add(row.bytes);
    partner.copies = partner.copies && (row.bytes > short_row_max() || row.is_of_host());
    return partner;
  };
  for (auto const& row : sent) add(row, &RowsNote::sent);
  for (auto const& row : received) {
    auto& partner = add(row, &RowsNote::received);
    if (row.bytes <= short_row_max()) partner.box_bytes += WrittenRow::place_bytes(row.bytes);
  }
  bool const sleeps = group().links().options().wait == Wait::event;
  std::size_t box_bytes = 0;
  for (auto& [rank, partner] : by_rank) {
    LEND_TRYV(join(rank, partner.ours.received.count));
    bool const both_ways = partner.ours.sent.count > 0 && partner.ours.received.count > 0;
    partner.ours.writes = both_ways && partner.copies && !sleeps ? 1 : 0;
    if (partner.ours.writes == 0) partner.box_bytes = 0;
    partner.box_at = std::exchange(box_bytes, box_bytes + partner.box_bytes);
    partners.push_back(std::move(partner));
  }
  if (box_bytes > 0) {
    LEND_TRYV(written.make_box(box_bytes));
    for (Partner& partner : partners)
      if (partner.box_bytes > 0)
        partner.ours.box = written.box().remote(partner.box_at, partner.box_bytes).encode();
  }
  for (auto& row : received) {
    auto const& channel = channel::ChannelState::of(peers[row.rank]);
    LEND_TRYV(prepare(row, channel.connection.raw().receive_elements));
  }
  for (auto& row : sent) {
    auto const& channel = channel::ChannelState::of(peers[row.rank]);
    LEND_TRYV(prepare(row, channel.connection.raw().elements));
  }
  works.resize(received.size() + sent.size());
  if (!partners.empty()) {
    LEND_TRY(memory, group().links().domain().allocate(2 * sizeof(RowsNote) * partners.size()));
    notes = std::move(memory);
    LEND_TRY(bytes, notes->mutable_bytes());
    for (std::size_t i = 0; i < partners.size(); ++i)
      std::memcpy(bytes.data() + (2 * i + 1) * sizeof(RowsNote), &partners[i].ours,
                  sizeof(RowsNote));
  }
  phase = Phase::comparing;
  return success();
}

std::size_t group::ExchangeState::short_row_max() const noexcept {
  // A card writes no words that a thread could store.
  return group().links().domain().context().kind() == DeviceKind::soft ? WrittenRow::stored_max
                                                                       : WrittenRow::written_max;
}

/// Whether `rank` is a peer whose channel takes so many rows.
Result<void> group::ExchangeState::join(std::uint32_t rank, std::uint64_t rows) {
  LEND_TRYV(without_value(scope.on(rank)));
  auto const& channel = channel::ChannelState::of(peers[rank]);
  if (channel.has_pool)
    return Error{Errc::invalid_argument,
                 "these peers share their receives, and each row needs one of its own: connect "
                 "Peers without PeerOptions::shared_receives for an exchange"};
  if (rows > channel.receive_depth)
    return Error{Errc::invalid_argument, std::to_string(rows) + " rows come from rank " +
                                             std::to_string(rank) + ", and its channel takes " +
                                             std::to_string(channel.receive_depth) +
                                             " receives: say more in PeerOptions"};
  return success();
}

template <class Element>
Result<void> group::ExchangeState::prepare(Row<Element>& row, std::uint32_t most) {
  LEND_TRY(own, scope.on(row.rank));
  row.scope = own;
  if (!row.packed) {
    LEND_TRY(are_elements, row.take_elements(most));
    if (!are_elements) {
      LEND_TRY(memory, peers[row.rank].protection_domain().allocate(row.bytes));
      row.packed = std::move(memory);
    }
  }
  if (!row.packed) {
    if (row.elements.size() == 1) row.only = row.elements.front();
  } else if constexpr (std::is_same_v<Element, GatherElement>) {
    row.only = row.packed->gather(0, row.bytes);
  } else {
    row.only = row.packed->scatter(0, row.bytes);
  }
  return success();
}

Result<void> group::ExchangeState::post_notes(Deadline deadline) {
  constexpr std::size_t size = sizeof(RowsNote);
  auto& state = peers.state();
  for (; notes_awaited < partners.size(); ++notes_awaited) {
    auto& partner = partners[notes_awaited];
    auto const into = notes->scatter(2 * notes_awaited * size, size);
    LEND_TRY(work, scope.post_receive(partner.rank, into, deadline));
    partner.from = std::move(work);
    state.note_posted(partner.rank);
  }
  LEND_TRYV(state.tell_posted(deadline));
  for (; notes_sent < partners.size(); ++notes_sent) {
    auto& partner = partners[notes_sent];
    auto const found = state.await_receive(partner.rank, deadline);
    if (found.has_error() && base::is_given_up(found.error())) {
      std::vector<std::uint32_t> missing;
      for (auto const& other : std::span{partners}.subspan(notes_sent))
        if (!state.finds_receive(other.rank)) missing.push_back(other.rank);
      return lend::is_late(deadline, missing);
    }
    LEND_TRYV(found);
    auto const note = notes->gather((2 * notes_sent + 1) * size, size);
    LEND_TRY(work, scope.post_send(partner.rank, note, deadline));
    partner.to = std::move(work);
    state.note_sent(partner.rank);
  }
  return success();
}

Result<void> group::ExchangeState::compare(Deadline deadline) {
  std::vector<std::uint32_t> missing;
  for (Partner& partner : partners)
    for (PendingWork* const work : {&partner.from, &partner.to}) {
      auto const waited = work->wait(deadline);
      if (waited.has_value()) continue;
      if (!channel::HandleAccess::is_pending(*work) || !base::is_given_up(waited.error()))
        return waited.error();
      if (missing.empty() || missing.back() != partner.rank) missing.push_back(partner.rank);
    }
  if (!missing.empty()) return lend::is_late(deadline, missing);
  for (std::size_t i = 0; i < partners.size() && !wrong; ++i) {
    RowsNote theirs;
    LEND_TRY(bytes, notes->bytes(2 * i * sizeof theirs, sizeof theirs));
    std::memcpy(&theirs, bytes.data(), sizeof theirs);
    auto const alike = group::compare(partners[i].ours, theirs, partners[i].rank);
    auto const chosen = alike.has_value() ? choose_written(partners[i], theirs) : alike;
    if (chosen.has_error()) wrong = chosen.error();
  }
  if (wrong) return *wrong;
  phase = Phase::posting;
  written.begin_run();
  return success();
}

Result<void> group::ExchangeState::choose_written(Partner& partner, RowsNote const& theirs) {
  if (partner.ours.writes == 0 || theirs.writes == 0) return success();
  auto const choose = [&](auto& rows, std::size_t place) {
    for (auto& row : rows) {
      if (row.rank != partner.rank || row.bytes > short_row_max()) continue;
      row.place = std::exchange(place, place + WrittenRow::place_bytes(row.bytes));
      row.channel = &channel_of(partner.rank);
      row.box = &partner.box;
      row.values.resize(row.bytes);
      row.packed.reset();
      row.only.reset();
    }
    return place;
  };
  choose(received, partner.box_at);
  auto const theirs_bytes = choose(sent, 0);
  if (theirs_bytes == 0) return success();
  LEND_TRY(region, RemoteRegion::decode(theirs.box));
  partner.box = PeerBox{region, channel_of(partner.rank).connection.raw()};
  if (theirs_bytes <= partner.box.size()) return success();
  return Error{Errc::incompatible_peer, "rank " + std::to_string(partner.rank) +
                                            " has no room for the short rows of this rank"};
}

}  // namespace lend
