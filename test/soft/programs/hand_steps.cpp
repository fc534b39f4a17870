// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests by lot: alone, in batches, of windows; by bytes and by values; and those that lend must
// refuse. One thread.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "soft/programs/hand_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

namespace {

constexpr std::uint32_t message_max = 32;
constexpr std::size_t rooms_max = 32;
constexpr RemoteWord word_of_nobody{0x1000, 0xbad'0bad, RemoteAccess::all};

ibv_wr_opcode opcode_of(Operation operation, bool has_immediate, bool returns, bool swaps) {
  switch (operation) {
    case Operation::send:
      return returns ? IBV_WR_SEND_WITH_INV : has_immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    case Operation::write: return has_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    case Operation::atomic: return swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
    default: return IBV_WR_RDMA_READ;
  }
}

bool writes_here_by_hand(Operation operation) {
  return operation != Operation::send && operation != Operation::write;
}

bool takes_a_room(Operation operation, bool has_immediate) {
  return operation == Operation::send || has_immediate;
}

}  // namespace

/// As values where they are whole ones.
void HandRun::list(Asked& asked, End& end, ByteRange bytes, std::size_t pieces) {
  asked.here = bytes;
  auto const add = [&](ByteRange piece) {
    bool const is_whole =
        piece.offset % sizeof(Cell) == 0 && piece.length % sizeof(Cell) == 0 && piece.length != 0;
    auto const first = piece.offset / sizeof(Cell);
    auto const count = piece.length / sizeof(Cell);
    auto& region = end.own->region();
    if (writes_here_by_hand(asked.operation))
      asked.scattered.push_back(is_whole ? end.own->scatter(first, count)
                                         : region.scatter(piece.offset, piece.length));
    else
      asked.gathered.push_back(is_whole ? end.own->gather(first, count)
                                        : region.gather(piece.offset, piece.length));
  };
  auto const first = pieces == 1 ? bytes.length : bytes.length / 2;
  add({bytes.offset, first});
  if (pieces > 1) add({bytes.offset + first, bytes.length - first});
}

HandRun::Asked HandRun::receive_asked(std::size_t at) {
  Asked asked;
  asked.operation = Operation::receive;
  asked.id = next_id_++ | receive_bit;
  ByteRange const bytes{4 * below(48), one_in(12) ? 4 * below(9) : message_max};
  list(asked, ends_[at], bytes, 1 + below(2));
  return asked;
}

/// `rooms`: the peer's, when this request comes.
HandRun::Asked HandRun::asked(std::size_t at, std::size_t rooms) {
  constexpr Operation operations[] = {Operation::send,  Operation::send,  Operation::write,
                                      Operation::read,  Operation::write, Operation::read,
                                      Operation::atomic};
  Asked asked;
  asked.operation = operations[below(7)];
  asked.id = next_id_++;
  if (asked.operation == Operation::send && rooms == 0 && !one_in(16))
    asked.operation = Operation::write;
  if (asked.operation == Operation::atomic) {
    aim_atomic(asked, at);
  } else if (asked.operation != Operation::send) {
    aim(asked, at);
    if (asked.operation == Operation::write && rooms != 0 && one_in(3)) asked.immediate = below(99);
  } else {
    auto const& window = ends_[1 - at].windows[below(2)];
    bool const returns = window.remote.key() != 0 && (window.is_bound ? one_in(4) : one_in(48));
    if (returns) asked.returned = window.remote;
    if (one_in(returns ? 24 : 3)) asked.immediate = below(99);
    asked.is_refused = returns && asked.immediate;
    ByteRange const bytes{4 * below(48), returns ? 0 : 4 * below(message_max / 4 + 1)};
    list(asked, ends_[at], bytes, 1 + below(2));
  }
  if (takes_a_room(asked.operation, asked.immediate.has_value()) && one_in(3))
    asked.options = asked.options | RequestOption::solicited;
  if (waits_for_reads(asked) || one_in(4)) asked.options = asked.options | RequestOption::fenced;
  return asked;
}

bool HandRun::waits_for_reads(Asked const& asked) const {
  return !writes_here_by_hand(asked.operation) &&
         std::ranges::any_of(awaited_, [&](ByteRange const& read) {
           return read.offset < asked.here.offset + asked.here.length &&
                  asked.here.offset < read.offset + read.length;
         });
}

/// At what the peer shows, has opened by a window, or has not any more.
void HandRun::aim(Asked& asked, std::size_t at) {
  End& there = ends_[1 - at];
  auto const& window = there.windows[below(2)];
  bool const is_honest = !one_in(24);
  RemoteRegion region = there.remote;
  bool is_open = true;
  std::size_t base = 0;
  if (one_in(2) && (window.is_bound || (!is_honest && window.remote.key() != 0))) {
    region = window.remote;
    asked.is_by_window = true;
    base = window.offset;
  } else if (!is_honest && one_in(2)) {
    region = dead_.empty() ? nobody(64) : dead_[below(static_cast<std::uint32_t>(dead_.size()))];
    is_open = false;
  }
  auto const right = [&] {
    return asked.operation == Operation::read ? RemoteAccess::read : RemoteAccess::write;
  };
  if (!permits(region.access(), right())) {
    if (is_honest)
      asked.operation = asked.operation == Operation::read ? Operation::write : Operation::read;
    else
      is_open = false;
  }
  asked.is_permitted = is_open;
  if (!permits(region.access(), right()))  // as a peer without lend says it
    region = {region.address(), region.size(), region.key(), RemoteAccess::all};
  bool const has_values = region.size() % sizeof(Cell) == 0 && region.address() % 8 == 0;
  if (RemoteSpan<Cell const>::of(region).has_value() !=
          (has_values && permits(region.access(), RemoteAccess::read)) ||
      RemoteSpan<Cell>::of(region).has_value() !=
          (has_values && permits(region.access(), RemoteAccess::write)))
    complain("bytes are values, or not, against their extent, alignment and rights");
  std::size_t offset = 0;
  std::size_t length = 0;
  if (has_values && one_in(2)) {
    aim_by_type(asked, region, base);
    length = asked.remote.length;
  } else {
    length = std::min<std::size_t>(region.size(), one_in(16) ? 0 : 1 + below(message_max));
    offset = below(static_cast<std::uint32_t>(region.size() - length + 1));
    asked.is_refused = one_in(32);
    asked.remote = region.slice(offset, length + (asked.is_refused ? 1 : 0));
    asked.there = base + offset;
  }
  auto const own = below(static_cast<std::uint32_t>(bytes_of_region - message_max - 32));
  ByteRange const bytes{one_in(2) ? own / 16 * 16 : own, length};
  list(asked, ends_[at], bytes, 1 + below(2));
}

/// Cells, or a member of one.
void HandRun::aim_by_type(Asked& asked, RemoteRegion const& region, std::size_t base) {
  auto const aim_at = [&](auto const& span) {
    auto const count = static_cast<std::uint32_t>(span.size());
    auto const first = below(count);
    if (one_in(3)) {
      asked.remote = span[first].field(&Cell::count);
      asked.there = base + first * sizeof(Cell) + offsetof(Cell, count);
      if (count > 1 && one_in(16)) {
        asked.remote = span.subspan(0, 2).field(&Cell::count);
        asked.is_refused = true;
      }
      return;
    }
    auto const some = 1 + below(std::min<std::uint32_t>(4, count - first));
    asked.remote = span.subspan(first, some);
    asked.there = base + first * sizeof(Cell);
    if (one_in(24)) {
      asked.remote = span.subspan(first, count - first + 1);
      asked.is_refused = true;
    }
  };
  if (asked.operation == Operation::read)
    aim_at(must(RemoteSpan<Cell const>::of(region)));
  else
    aim_at(must(RemoteSpan<Cell>::of(region)));
}

void HandRun::aim_atomic(Asked& asked, std::size_t at) {
  auto const& region = ends_[1 - at].remote;
  asked.is_permitted = region.access() == RemoteAccess::all;
  asked.swaps = one_in(2);
  asked.numbers[0] = below(3);
  asked.numbers[1] = below(99);
  RemoteRegion const claimed{region.address(), region.size(), region.key(), RemoteAccess::all};
  auto const number = below(2 * cells);
  asked.there = number * 8;
  asked.word = must(RemoteSpan<std::uint64_t>::of(claimed))[number].word();
  if (number % 2 == 0)
    asked.word = must(RemoteSpan<Cell>::of(claimed))[number / 2].field(&Cell::number).word();
  if (!asked.is_permitted && !one_in(24)) asked.word = {}, asked.is_refused = true;
  if (one_in(24)) asked.word = claimed.word(4), asked.is_refused = true;
  if (one_in(48)) asked.word = word_of_nobody, asked.is_permitted = asked.is_refused = false;
  list(asked, ends_[at], {8 * below(30), RemoteWord::size}, 1);
}

/// What the device was given is what was asked for.
void HandRun::check_given(std::size_t index, Asked const& asked) {
  Given const& one = given()[index];
  bool const is_fenced = (one.flags & IBV_SEND_FENCE) != 0;
  bool const is_solicited = (one.flags & IBV_SEND_SOLICITED) != 0;
  bool const is_silent = (one.flags & IBV_SEND_SIGNALED) == 0;
  bool const is_copied = (one.flags & IBV_SEND_INLINE) != 0;
  if (one.id != asked.id || one.opcode != opcode_of(asked.operation, asked.immediate.has_value(),
                                                    asked.returned.key() != 0, asked.swaps))
    complain("the device was given another request, or in another order");
  if (is_fenced != has(asked.options, RequestOption::fenced) ||
      is_solicited != has(asked.options, RequestOption::solicited) || is_silent != asked.is_silent)
    complain("a request is fenced, solicited or silent against what was asked");
  if (is_copied && asked.here.length > ends_[0].pair->inline_bytes())
    complain("more bytes are copied than the queue pair has room for");
  if (is_copied && is_fenced) complain("what a read may bring is copied before it");
}

/// Whether `result` is a refusal; it must be if the request makes no sense.
bool HandRun::is_refused(Asked const& asked, Result<void> const& result, std::size_t given_before) {
  if (result.has_value() && asked.is_refused) complain("a request that makes no sense was taken");
  if (result.has_value()) return false;
  if (!asked.is_refused || result.error() != Errc::invalid_argument)
    complain("a request was refused for no reason that there is: " + result.error().message());
  if (given().size() != given_before) complain("a request was refused, and posted all the same");
  return true;
}

std::string HandRun::words_of(Asked const& asked) {
  return std::string{name_of(asked.operation)} + ' ' + std::to_string(asked.id) + " of " +
         std::to_string(asked.here.length) + " bytes" + (asked.immediate ? " and immediate" : "") +
         (asked.returned.key() != 0 ? ", returning" : "") +
         (has(asked.options, RequestOption::fenced) ? ", fenced" : "") +
         (has(asked.options, RequestOption::solicited) ? ", solicited" : "") +
         (asked.is_silent ? ", silent" : "");
}

void HandRun::post(std::size_t at) {
  auto const request = asked(at, ends_[1 - at].rooms.size());
  auto& pair = *ends_[at].pair;
  auto const before = given().size();
  auto const result = with(request, [&](auto const& work) {
    using Work = std::remove_cvref_t<decltype(work)>;
    if constexpr (std::is_same_v<Work, Send>)
      return pair.unsafe_post_send(request.id, work);
    else if constexpr (std::is_same_v<Work, Receive>)
      return pair.unsafe_post_receive(request.id, work);
    else if constexpr (std::is_same_v<Work, Write>)
      return pair.unsafe_post_write(request.id, work);
    else if constexpr (std::is_same_v<Work, Atomic>)
      return pair.unsafe_post_atomic(request.id, work);
    else
      return pair.unsafe_post_read(request.id, work);
  });
  tell("end " + std::to_string(at) + ": " + words_of(request) +
       (result.has_value() ? "" : ": refused"));
  if (is_refused(request, result, before)) return;
  if (given().size() != before + 1) return complain("a request was not posted once");
  check_given(before, request);
  apply(at, request);
  settle();
}

Result<void> HandRun::add(UnsafeBatchOf<Rc>& batch, Asked const& asked) {
  auto const how = asked.is_silent ? Completes::silently : Completes::aloud;
  return with(asked, [&](auto const& work) {
    using Work = std::remove_cvref_t<decltype(work)>;
    if constexpr (std::is_same_v<Work, Send>)
      return batch.add_send(asked.id, work, how);
    else if constexpr (std::is_same_v<Work, Receive>)
      return batch.add_receive(asked.id, work);
    else if constexpr (std::is_same_v<Work, Write>)
      return batch.add_write(asked.id, work, how);
    else if constexpr (std::is_same_v<Work, Atomic>)
      return batch.add_atomic(asked.id, work, how);
    else
      return batch.add_read(asked.id, work, how);
  });
}

void HandRun::batch(std::size_t at) {
  End& end = ends_[at];
  std::size_t rooms = ends_[1 - at].rooms.size();
  auto batch = end.pair->unsafe_batch();
  std::vector<Asked> sends;
  std::vector<Asked> receives;
  auto const count = 1 + below(one_in(6) ? 24 : 6);
  for (std::uint32_t i = 0; i < count; ++i) {
    bool const is_receive = one_in(5) && end.rooms.size() + receives.size() < rooms_max;
    Asked request = is_receive ? receive_asked(at) : asked(at, rooms);
    request.is_silent = !is_receive && count < program_.send_depth && one_in(2);
    auto const size = batch.size();
    auto const result = add(batch, request);
    tell("  " + words_of(request) + (result.has_value() ? "" : ": refused"));
    if (is_refused(request, result, given().size())) {
      if (batch.size() != size) complain("what a batch refuses is in it");
      continue;
    }
    if (writes_here_by_hand(request.operation) && !is_receive) awaited_.push_back(request.here);
    if (takes_a_room(request.operation, request.immediate.has_value()) && rooms != 0) --rooms;
    (is_receive ? receives : sends).push_back(std::move(request));
  }
  if (!sends.empty() && sends.back().is_silent) {
    Asked last;
    last.operation = Operation::write;
    last.id = next_id_++;
    last.remote = nobody(0);
    list(last, end, {0, 0}, 1);
    if (!add(batch, last).has_value()) return complain("a write of no bytes was not added");
    sends.push_back(std::move(last));
  }
  tell("end " + std::to_string(at) + ": a batch of these, and " + std::to_string(receives.size()) +
       " receives");
  post_all(at, batch, sends, receives);
}

/// A queue that is full takes a part, and the rest once that is over.
void HandRun::post_all(std::size_t at, UnsafeBatchOf<Rc>& batch, std::vector<Asked> const& sends,
                       std::vector<Asked> const& receives) {
  if (batch.size() != sends.size() + receives.size()) complain("a batch miscounts what is in it");
  auto const first = given().size();
  if (one_in(12)) {
    batch.drop();
    if (batch.size() != 0 || !batch.post().has_value() || given().size() != first)
      complain("what was dropped is in the batch, or was posted");
    return;
  }
  std::size_t posted = 0;
  for (bool is_done = false; !is_done;) {
    auto const result = batch.post();
    is_done = result.has_value();
    if (posted == 0)
      for (auto const& request : receives) apply(at, request);
    auto const taken = given().size() - first;
    if (taken > sends.size()) return complain("a batch posted what nobody added");
    if (!is_done && (taken == posted || sends.size() <= program_.send_depth ||
                     result.error() != Errc::queue_full))
      return complain("a batch was not posted for no reason: " + result.error().message());
    for (; posted < taken; ++posted) {
      check_given(first + posted, sends[posted]);
      apply(at, sends[posted]);
    }
    settle();
  }
  if (posted != sends.size() || batch.size() != 0)
    complain("a batch was posted, and the device has not all of it");
}

void HandRun::receive(std::size_t at) {
  End& end = ends_[at];
  for (auto count = 1 + below(3); count > 0 && end.rooms.size() < rooms_max; --count) {
    auto const request = receive_asked(at);
    auto const result = with(request, [&](auto const& work) -> Result<void> {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(work)>, Receive>)
        return end.pair->unsafe_post_receive(request.id, work);
      else
        return success();
    });
    if (!result.has_value()) complain("a receive was not posted: " + result.error().message());
    apply(at, request);
  }
  tell("end " + std::to_string(at) + ": " + std::to_string(end.rooms.size()) + " receives wait");
  settle();
}

}  // namespace lend::test
