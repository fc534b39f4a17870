// SPDX-License-Identifier: MIT OR Apache-2.0
// Memory windows by hand: bound, invalidated, made anew; and advice. One thread.
#include <utility>

#include "soft/programs/hand_run.hpp"
#include "support/two_ends.hpp"

namespace lend::test {

/// To bytes, or to what lend must refuse. A window that is bound breaks the queue pair.
void HandRun::bind(std::size_t at) {
  End& end = ends_[at];
  Window& it = end.windows[below(2)];
  if (it.is_bound && !one_in(8)) return;
  auto const unit = one_in(2) ? 4u : static_cast<std::uint32_t>(sizeof(Cell));
  auto const offset = unit * below(bytes_of_region / 2 / unit);
  auto length = std::size_t{unit} * (1 + below(bytes_of_region / 2 / unit));
  bool const is_written = one_in(2);
  auto foreign = must(MemoryWindow::create(*other_domain_));
  auto const oddity = below(24);
  if (oddity == 0) length = 0;
  if (oddity == 1) length = bytes_of_region + 1 - offset;
  auto& window = oddity == 2 ? foreign : *it.window;
  auto& memory = end.shown->region();
  auto const before = given().size();
  auto const id = next_id_++;
  auto const result = is_written
                          ? end.pair->unsafe_post_bind(id, window, memory.scatter(offset, length))
                          : end.pair->unsafe_post_bind(id, window, memory.gather(offset, length));
  tell("end " + std::to_string(at) + ": bind [" + std::to_string(offset) + ",+" +
       std::to_string(length) + (is_written ? ") to be written: " : ") to be read: ") +
       (result.has_value() ? "ok" : std::string{name_of(result.error().code())}));
  if (result.has_value() != (oddity > 2)) complain("a bind was taken, or not, against its bytes");
  if (given().size() != before + (result.has_value() ? 1 : 0))
    complain("a bind was posted, or not, against its answer");
  if (!result.has_value()) return;
  if (given().back().opcode != IBV_WR_BIND_MW || given().back().id != id)
    complain("the device was given something else than a bind");
  auto const& remote = result.value();
  auto const wanted = is_written ? RemoteAccess::write : RemoteAccess::read;
  if (remote.key() == it.remote.key() || remote.key() != window.key() ||
      remote.access() != wanted || remote.size() != length ||
      remote.address() != end.remote.address() + offset)
    complain("a window tells of other bytes, rights or keys than were bound");
  if (it.is_bound) {
    end.sends.push_back({.id = id, .status = WorkStatus::memory_window_bind});
    break_end(end);
    return settle();
  }
  if (it.remote.key() != 0) dead_.push_back(it.remote);
  it.remote = remote;
  it.offset = offset;
  it.is_bound = true;
  end.sends.push_back({.id = id});
  settle();
}

/// Also what the peer has returned, which the soft device takes; another's key breaks the queue
/// pair.
void HandRun::invalidate(std::size_t at) {
  End& end = ends_[at];
  Window& it = end.windows[below(2)];
  bool const is_wrong = !dead_.empty() && one_in(16);
  if (!is_wrong && (it.remote.key() == 0 || (!it.is_bound && !one_in(4)))) return;
  auto const key =
      is_wrong ? dead_[below(static_cast<std::uint32_t>(dead_.size()))].key() : it.remote.key();
  auto const id = next_id_++;
  auto const before = given().size();
  auto const result = end.pair->unsafe_post_invalidate(id, key);
  tell("end " + std::to_string(at) + (is_wrong ? ": invalidate another key" : ": invalidate"));
  if (!result.has_value())
    return complain("an invalidation was refused: " + result.error().message());
  if (given().size() != before + 1 || given().back().opcode != IBV_WR_LOCAL_INV)
    complain("the device was given something else than an invalidation");
  end.sends.push_back(
      {.id = id,
       .status = is_wrong ? WorkStatus::local_queue_pair_operation : WorkStatus::success});
  if (is_wrong)
    break_end(end);
  else
    it.is_bound = false;
  settle();
}

/// Bound or not.
void HandRun::renew_window(std::size_t at) {
  Window& it = ends_[at].windows[below(2)];
  if (it.remote.key() != 0) dead_.push_back(it.remote);
  if (!std::move(*it.window).destroy().has_value()) complain("a window does not end");
  it = {.window = must(MemoryWindow::create(*domain_))};
  tell("end " + std::to_string(at) + ": renew a window");
}

void HandRun::give_advice(std::size_t at) {
  if (!program_.is_on_demand) return;
  auto const first = below(cells);
  bool const is_wrong = one_in(4);
  auto const given_one =
      domain_->advise(one_in(2) ? Advice::prefetch : Advice::prefetch_to_write,
                      ends_[at].own->gather(first, cells - first + (is_wrong ? 1 : 0)));
  tell("advice");
  if (given_one.has_value() == is_wrong) complain("advice was taken, or not, against its bytes");
}

}  // namespace lend::test
