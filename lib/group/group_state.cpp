// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a collective: pieces, each of rounds, each of steps. The thread of the group.
#include <base/giving_up.hpp>
#include <group/group_state.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace lend::group {

namespace {

constexpr std::chrono::seconds leaving_bound{1};

void copy(std::span<std::byte> into, std::span<std::byte const> from) noexcept {
  if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
}

std::string text_of(Collective collective, std::uint64_t bytes) {
  std::string text{name_of(collective)};
  return collective == Collective::barrier ? text
                                           : text + " of " + std::to_string(bytes) + " bytes";
}

}  // namespace

std::string_view name_of(Collective collective) noexcept {
  constexpr std::array<std::string_view, 9> names{"barrier", "broadcast", "gather",
                                                  "scatter", "allgather", "all_to_all",
                                                  "reduce",  "allreduce", "reduce_scatter"};
  auto const index = static_cast<std::size_t>(collective);
  return index < names.size() ? names[index] : "unknown call";
}

std::uint32_t Call::signature() const noexcept {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  auto const add = [&hash](std::uint64_t value) {
    for (int i = 0; i < 8; ++i, value >>= 8)
      hash = (hash ^ static_cast<std::uint32_t>(value & 0xff)) * 16777619u;
  };
  add(static_cast<std::uint64_t>(collective));
  add(root);
  add(block_bytes);
  add(op.element_bytes);
  for (char const letter : op.name) add(static_cast<unsigned char>(letter));
  return hash;
}

bool Call::goes_on_with(Call const& other) const noexcept {
  return signature() == other.signature() && in.data() == other.in.data() &&
         in.size() == other.in.size() && out.data() == other.out.data() &&
         out.size() == other.out.size();
}

// ---- together and apart ----

GroupState::GroupState(WaitSet set, Ranks ranks, GroupOptions const& options)
    : set_{std::move(set)},
      ranks_{ranks},
      options_{options},
      endpoints_(ranks.size),
      links_(ranks.size),
      ready_(std::max(ranks.size, 1u)),
      accumulator_(options.message_bytes),
      theirs_(options.message_bytes) {}

Result<std::unique_ptr<GroupState>> GroupState::prepare(ProtectionDomain const& domain, Ranks ranks,
                                                        GroupOptions const& options) {
  LEND_TRY(set, WaitSet::create(domain.context(), options.wait));
  auto state = std::make_unique<GroupState>(std::move(set), ranks, options);
  LinkOptions const link{options.message_bytes, options.window};
  ChannelOptions channel;
  channel.queue_pair.send_depth = link.receives();
  channel.queue_pair.receive_depth = link.receives();
  channel.keep_alive = options.keep_alive;
  channel.wait_set = &state->set_;
  for (std::uint32_t i = 0; i < ranks.size; ++i) {
    if (i == ranks.rank) continue;
    channel.tag = i;
    LEND_TRY(prepared, prepare_channel(domain, channel));
    state->endpoints_[i] = prepared.endpoint();
    LEND_TRY(made, Link::prepare(domain, std::move(prepared), link));
    state->links_[i] = std::move(made);
  }
  return state;
}

Result<void> GroupState::connect(std::span<Endpoint const> theirs) {
  for (std::uint32_t i = 0; i < ranks_.size; ++i)
    if (links_[i] != nullptr) {
      LEND_TRYV(links_[i]->connect(theirs[i]));
    }
  return success();
}

GroupState::~GroupState() {
  if (broken_ || is_under_way_) return;  // the others see that it is lost
  auto const for_each_link = [this](auto&& visit) {
    for (auto const& link : links_)
      if (link != nullptr) visit(*link);
  };
  for_each_link([](Link& link) {
    static_cast<void>(link.take_arrivals());  // the peer may have left before
    link.leave();
  });
  Deadline const deadline = within(leaving_bound);
  for (;;) {
    bool all_left = true;
    for_each_link([&](Link& link) { all_left &= link.has_left(); });
    if (all_left) return;
    auto const ready = set_.wait(ready_, deadline);
    if (!ready.has_value()) return;
    for (Ready const& one : ready.value())
      if (one.what != Ready::What::device) static_cast<void>(links_[one.tag]->take_arrivals());
  }
}

// ---- one call ----

Result<void> GroupState::run(Call const& call, Deadline deadline) noexcept {
  if (broken_) return Error{Errc::channel_broken, "the group is broken"}.with_cause(*broken_);
  if (is_under_way_ && !call.goes_on_with(call_))
    return Error{Errc::invalid_argument,
                 what_is_under_way() +
                     " is still under way: make that call again, with the same "
                     "arguments, until it is over"};
  auto const done = [&]() -> Result<void> {
    if (!is_under_way_) {
      LEND_TRYV(begin(call));
    }
    for (;;) {
      LEND_TRY(is_over, advance());
      if (is_over) return success();
      LEND_TRYV(wait(deadline));
    }
  }();
  if (done.has_value())
    is_under_way_ = false;
  else if (!base::is_given_up(done.error()))
    broken_ = done.error();
  return done;
}

Result<void> GroupState::run_on_value(Call call, std::span<std::byte> value,
                                      Deadline deadline) noexcept {
  std::span<std::byte> const kept{value_.data(), value.size()};
  call.in = call.out = kept;
  if (!is_under_way_) copy(kept, value);
  LEND_TRYV(run(call, deadline));
  copy(value, kept);
  return success();
}

Result<void> GroupState::begin(Call const& call) noexcept {
  is_under_way_ = true;
  call_ = call;
  ++number_;
  signature_ = call.signature();
  piece_bytes_ = options_.message_bytes / call.op.element_bytes * call.op.element_bytes;
  pieces_ = static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (call.block_bytes + piece_bytes_ - 1) / piece_bytes_));
  rounds_ = rounds_of(call.collective, ranks_.size);
  piece_ = 0;
  // The own part needs no message.
  auto const own = ranks_.rank * call.block_bytes;
  switch (call.collective) {
    case Collective::gather:
      if (ranks_.rank == call.root) copy(call.out.subspan(own), call.in);
      break;
    case Collective::scatter:
      if (ranks_.rank == call.root) copy(call.out, call.in.subspan(own, call.block_bytes));
      break;
    case Collective::allgather: copy(call.out.subspan(own), call.in); break;
    case Collective::all_to_all:
      copy(call.out.subspan(own), call.in.subspan(own, call.block_bytes));
      break;
    case Collective::reduce_scatter:
      if (ranks_.size == 1) copy(call.out, call.in);
      break;
    default: break;
  }
  begin_piece();
  for (std::uint32_t i = 0; i < ranks_.size; ++i) {
    LEND_TRYV(check_agreement(i));
  }
  return success();
}

void GroupState::begin_piece() noexcept {
  round_ = 0;
  bool const has_own =
      call_.collective == Collective::reduce || call_.collective == Collective::allreduce;
  is_accumulating_ = has_own;
  if (has_own) copy(accumulator_, piece_of({.place = Step::Place::in}));
  begin_round();
}

void GroupState::begin_round() noexcept {
  steps_.clear();
  if (round_ < rounds_) add_round(call_.collective, ranks_, call_.root, round_, steps_);
  is_done_.assign(steps_.size(), false);
}

void GroupState::end_piece() noexcept {
  bool const has_result = call_.collective == Collective::allreduce ||
                          (call_.collective == Collective::reduce && ranks_.rank == call_.root) ||
                          call_.collective == Collective::reduce_scatter;
  if (!has_result || !is_accumulating_) return;
  auto const place = place_of({.place = Step::Place::out});
  copy(place, std::span{accumulator_}.first(place.size()));
}

Result<bool> GroupState::advance() noexcept {
  while (piece_ < pieces_) {
    while (round_ < rounds_) {
      LEND_TRY(is_over, advance_round());
      if (!is_over) return false;
      ++round_;
      begin_round();
    }
    end_piece();
    if (++piece_ < pieces_) begin_piece();
  }
  return true;
}

Result<bool> GroupState::advance_round() noexcept {
  bool all_sent = true;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (is_done_[i] || steps_[i].kind != Step::Kind::send) continue;
    LEND_TRY(is_sent, send(steps_[i]));
    is_done_[i] = is_sent;
    all_sent &= is_sent;
  }
  if (!all_sent) return false;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (is_done_[i]) continue;
    LEND_TRY(is_received, receive(steps_[i]));
    if (!is_received) return false;
    is_done_[i] = true;
  }
  return true;
}

// ---- one step ----

std::span<std::byte const> GroupState::piece_of(Step const& step) const noexcept {
  auto const offset = piece_ * piece_bytes_;
  auto const length = std::min(piece_bytes_, call_.block_bytes - offset);
  switch (step.place) {
    case Step::Place::in: return call_.in.subspan(step.block * call_.block_bytes + offset, length);
    case Step::Place::out:
      return call_.out.subspan(step.block * call_.block_bytes + offset, length);
    case Step::Place::accumulator: return std::span{accumulator_}.first(length);
    case Step::Place::nothing: break;
  }
  return {};
}

std::span<std::byte> GroupState::place_of(Step const& step) noexcept {
  auto const piece = piece_of(step);
  return {const_cast<std::byte*>(piece.data()), piece.size()};
}

Result<bool> GroupState::send(Step const& step) noexcept {
  auto sent =
      links_[step.peer]->try_send({.signature = signature_,
                                   .number = number_,
                                   .piece = piece_,
                                   .round = round_,
                                   .collective = call_.collective,
                                   .call_bytes = static_cast<std::uint32_t>(call_.block_bytes)},
                                  piece_of(step));
  // With the rank, if that is why.
  if (!sent) {
    LEND_TRYV(check_for_losses());
  }
  return sent;
}

Result<bool> GroupState::receive(Step const& step) noexcept {
  if (step.kind == Step::Kind::combine_own) {
    combine(step.kind, piece_of(step));
    return true;
  }
  Link& link = *links_[step.peer];
  auto const arrived = link.arrived();
  auto const it = std::ranges::find_if(
      arrived, [&](auto const& each) { return each.note.is_at(number_, piece_, round_); });
  if (it == arrived.end()) return false;
  auto const theirs = link.bytes_of(*it);
  auto const place = place_of(step);
  if (theirs.size() != place.size())
    return Error{Errc::disagreement, "rank " + std::to_string(step.peer) + " sent " +
                                         std::to_string(theirs.size()) + " bytes, not " +
                                         std::to_string(place.size())};
  if (step.kind == Step::Kind::receive)
    copy(place, theirs);
  else
    combine(step.kind, theirs);
  LEND_TRYV(link.release(static_cast<std::size_t>(it - arrived.begin())));
  return true;
}

void GroupState::combine(Step::Kind kind, std::span<std::byte const> theirs) noexcept {
  auto const elements = theirs.size() / call_.op.element_bytes;
  if (!std::exchange(is_accumulating_, true)) {
    copy(accumulator_, theirs);
    return;
  }
  // Copied, because the operation may want aligned elements.
  copy(theirs_, theirs);
  if (kind == Step::Kind::combine_reverse) std::swap(accumulator_, theirs_);
  call_.op.combine(call_.op.op, accumulator_.data(), theirs_.data(), elements);
}

// ---- waiting, and what is wrong ----

Result<void> GroupState::wait(Deadline deadline) noexcept {
  // What has come counts before what was lost.
  LEND_TRY(now, set_.poll(ready_));
  if (!now.empty()) return take_news(now);
  LEND_TRYV(check_for_losses());
  auto const ready = set_.wait(ready_, deadline);
  if (ready.has_value()) return take_news(ready.value());
  if (!base::is_given_up(ready.error())) return ready.error();
  return base::gave_up(deadline, what_is_under_way() + " did not complete",
                       ": rank " + std::to_string(awaited()) +
                           " has not come as far; it is still under way: make the same call again");
}

Result<void> GroupState::take_news(std::span<Ready const> ready) noexcept {
  for (Ready const& one : ready) {
    if (one.what == Ready::What::device) continue;  // of no link
    auto const rank = static_cast<std::uint32_t>(one.tag);
    auto const taken = links_[rank]->take_arrivals();
    LEND_TRYV(check_agreement(rank));
    // Its channel may break once it has left.
    if (!taken && links_[rank]->failure() == nullptr) return taken;
  }
  return success();
}

Result<void> GroupState::check_agreement(std::uint32_t rank) const noexcept {
  if (links_[rank] == nullptr) return success();
  for (auto const& [note, slot] : links_[rank]->arrived())
    if (note.number == number_ && note.signature != signature_)
      return Error{Errc::disagreement,
                   "rank " + std::to_string(rank) + " called " +
                       text_of(note.collective, note.call_bytes) + " as its call " +
                       std::to_string(note.number) + ", this rank " + what_is_under_way() +
                       ": all ranks make the same calls, with the same lengths, roots and "
                       "operations"};
  return success();
}

Result<void> GroupState::check_for_losses() const noexcept {
  for (std::uint32_t i = 0; i < ranks_.size; ++i) {
    if (links_[i] == nullptr || links_[i]->peer_has_left()) continue;
    if (Error const* const failure = links_[i]->failure())
      return Error{Errc::peer_lost, "rank " + std::to_string(i) + " is lost: " + failure->message()}
          .with_cause(*failure);
  }
  auto const rank = awaited();
  if (links_[rank] != nullptr && links_[rank]->peer_has_left())
    return Error{Errc::peer_lost, "rank " + std::to_string(rank) + " has left the group, and " +
                                      what_is_under_way() + " needs it"};
  return success();
}

std::uint32_t GroupState::awaited() const noexcept {
  auto const step = std::ranges::find(is_done_, false) - is_done_.begin();
  return steps_[static_cast<std::size_t>(step)].peer;
}

std::string GroupState::what_is_under_way() const {
  return text_of(call_.collective, call_.block_bytes) + " " + std::to_string(number_) + " (" +
         call_.where.file + ":" + std::to_string(call_.where.line) + ")";
}

}  // namespace lend::group
