// SPDX-License-Identifier: MIT OR Apache-2.0
// Connections by hand, and what must have come of each step: completions, events, states, bytes.
// One thread.
#include "soft/programs/hand_run.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "support/two_ends.hpp"

namespace lend::test {

using namespace std::chrono_literals;

namespace {

std::vector<Given> given_by_program;
int (*post_to_device)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

/// Writes down what the device takes.
int post_seen(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
  int const result = post_to_device(pair, request, refused);
  auto const* const end = result == 0 ? nullptr : *refused;
  for (auto const* one = request; one != end; one = one->next)
    given_by_program.push_back({one->wr_id, one->opcode, one->send_flags});
  return result;
}

/// One for all programs: opening it takes longer than a program does.
Context watched_device() {
  static Context const context = [] {
    Context opened = open_test_device();
    post_to_device = std::exchange(opened.native()->ops.post_send, post_seen);
    return opened;
  }();
  return context;
}

}  // namespace

std::vector<Given> const& HandRun::given() noexcept {
  return given_by_program;
}

HandRun::HandRun(Workplace& workplace, Program const& program)
    : ByHand{workplace, program, watched_device()} {}

void HandRun::begin() {
  given_by_program.clear();
  other_domain_ = must(context_.allocate_protection_domain());
  if (program_.is_timed) clock_ = must(DeviceClock::of(context_));
  for (std::size_t at = 0; at < 2; ++at) {
    End& end = ends_[at];
    if (program_.is_on_demand) {
      end.storage.resize(bytes_of_region);
      end.own = must(
          TypedRegion<Cell>::of(must(domain_->register_memory(end.storage, Paging::on_demand))));
    } else {
      end.own = must(domain_->allocate<Cell>(cells));
    }
    constexpr RemoteAccess rights[] = {RemoteAccess::all, RemoteAccess::all, RemoteAccess::read,
                                       RemoteAccess::write};
    end.shown = must(TypedRegion<Cell>::of(must(
        domain_->unsafe_allocate_exposed(bytes_of_region, rights[(program_.rights + at) % 4]))));
    end.remote = must(end.shown->region().remote());
    give_bytes(at, end.own->region(), end.own_bytes, end.shown->region(), end.shown_bytes);
    end.queue = must(CompletionQueue::create(
        context_, {.depth = 1024,
                   .wakeable = program_.is_wakeable ? Wakeable::yes : Wakeable::no,
                   .timestamps = program_.is_timed}));
  }
  connect();
}

void HandRun::end() {
  for (auto& end : ends_) end.pair.reset();
  for (auto& end : ends_)
    for (auto& it : end.windows)
      if (it.window && !std::move(*it.window).destroy().has_value())
        complain("a window does not end");
}

/// For the first time, or anew: then the windows of before are dead, and so are their keys.
void HandRun::connect() {
  for (auto& end : ends_) end.pair.reset();
  QueuePairOptions options;
  options.send_depth = program_.send_depth;
  options.receive_depth = 64;
  options.inline_bytes = program_.inline_bytes;
  make_impatient(options);
  auto one = must(PreparedQueuePair::create(*domain_, *ends_[0].queue, options));
  auto other = must(PreparedQueuePair::create(*domain_, *ends_[1].queue, options));
  Endpoint const of_one = one.endpoint();
  Endpoint const of_other = other.endpoint();
  if (connections_++ % 2 == 0) {
    ends_[0].pair = must(std::move(one).connect(of_other));
    ends_[1].pair = must(std::move(other).connect(of_one));
  } else {
    ends_[0].pair = by_hand(std::move(one), of_one, of_other);
    ends_[1].pair = by_hand(std::move(other), of_other, of_one);
  }
  for (auto& end : ends_) {
    end.is_broken = false;
    end.rooms.clear();
    for (auto& it : end.windows) {
      if (it.remote.key() != 0) dead_.push_back(it.remote);
      it = {.window = must(MemoryWindow::create(*domain_))};
    }
  }
  tell("connect");
}

QueuePair HandRun::by_hand(PreparedQueuePair prepared, Endpoint const& own, Endpoint const& peer) {
  QueuePair pair = must(std::move(prepared).unsafe_unconnected());
  QueuePairChange receives{.to = QueuePairState::ready_to_receive};
  receives.path = PeerPath{.port = context_.port().number, .lid = peer.lid};
  if (peer.has_gid()) {
    receives.path->gid = peer.gid;
    receives.path->gid_index = static_cast<std::uint8_t>(must(context_.gids())[0].index);
  }
  receives.mtu_bytes = 1024;
  receives.peer = peer.queue_pair_number;
  receives.receive_from = peer.packet_sequence_number;
  receives.reads_served = std::uint8_t{4};
  receives.receiver_not_ready_delay = 10us;
  must(pair.unsafe_modify(receives));
  QueuePairChange sends{.to = QueuePairState::ready_to_send};
  sends.send_from = own.packet_sequence_number;
  sends.reads_in_flight = std::uint8_t{4};
  sends.receiver_not_ready_retries = std::uint8_t{3};
  sends.ack_timeout = 4us;
  sends.ack_retries = std::uint8_t{2};
  must(pair.unsafe_modify(sends));
  return pair;
}

void HandRun::take(Step const& step) {
  auto const at = step.numbers[2] % 2;
  if (clock_) began_ = must(clock_->now());
  awaited_.clear();
  switch (step.what) {
    case Do::post: return post(at);
    case Do::batch: return batch(at);
    case Do::take_message: return receive(at);
    case Do::open: return bind(at);
    case Do::close: return invalidate(at);
    case Do::renew_destination: return renew_window(at);
    case Do::wait: return arm_one();
    case Do::ask_channel: return give_advice(at);
    case Do::destroy_channel: return connect();
    default: return;  // of no program by hand
  }
}

void HandRun::arm_one() {
  if (!program_.is_wakeable) return;
  auto const at = below(2);
  arm(*ends_[at].queue, ends_[at].armed, "end " + std::to_string(at) + ": arm");
}

/// Polls for what must come, and once more.
void HandRun::settle() {
  if (clock_) posted_ = must(clock_->now());
  std::array<std::vector<TimedCompletion>, 2> taken;
  auto const is_there = [&](std::size_t at) {
    return taken[at].size() >= ends_[at].sends.size() + ends_[at].receives.size();
  };
  Deadline const deadline = within(10s);
  while (!(is_there(0) && is_there(1)) && !deadline.has_passed())
    for (std::size_t at = 0; at < 2; ++at) poll<Completion>(*ends_[at].queue, taken[at]);
  // A query waits for the device's own thread, which tells of what it has published.
  for (auto const& end : ends_) check_state(*end.pair, end.is_broken);
  for (std::size_t at = 0; at < 2; ++at) poll<Completion>(*ends_[at].queue, taken[at]);
  for (std::size_t at = 0; at < 2; ++at) compare(at, taken[at]);
  for (auto& end : ends_) {
    check_wake_up(end);
    end.sends.clear();
    end.receives.clear();
  }
}

void HandRun::compare(std::size_t at, std::vector<TimedCompletion> const& taken) {
  End const& end = ends_[at];
  if (taken.size() != end.sends.size() + end.receives.size())
    return complain(std::to_string(taken.size()) + " completions came to end " +
                    std::to_string(at) + " instead of " + std::to_string(end.sends.size()) +
                    " of sends and " + std::to_string(end.receives.size()) + " of receives");
  std::size_t sends = 0;
  std::size_t receives = 0;
  DeviceTime last_send = began_;
  DeviceTime last_receive = began_;
  for (auto const& one : taken) {
    bool const is_receive = (one.id & receive_bit) != 0;
    if ((is_receive ? receives : sends) == (is_receive ? end.receives : end.sends).size())
      return complain("a completion is of the wrong queue");
    Told const& told = is_receive ? end.receives[receives++] : end.sends[sends++];
    std::string const what = "request " + std::to_string(told.id) + " of end " + std::to_string(at);
    if (one.id != told.id)
      return complain("request " + std::to_string(one.id) + " completes instead of " + what);
    compare_one(one, told, what);
    if (one.success() != nullptr && clock_)
      check_time(one, is_receive ? last_receive : last_send, what);
  }
}

void HandRun::check_wake_up(End& end) {
  if (!program_.is_wakeable) return;
  auto const is_due = [&](Told const& told) { return told.wakes(end.armed); };
  bool const wakes =
      std::ranges::any_of(end.sends, is_due) || std::ranges::any_of(end.receives, is_due);
  pollfd descriptor{end.queue->descriptor(), POLLIN, 0};
  // The device's own thread, which ends what was delayed, wakes after it has published that.
  bool const has_event = ::poll(&descriptor, 1, wakes ? 2'000 : 0) == 1;
  if (wakes && !has_event) complain("an armed queue does not wake");
  // One that breaks wakes, whatever it has to flush.
  if (has_event && !wakes && !(end.is_broken && end.armed))
    complain("a queue wakes for what it is not armed for");
  end.queue->take_events();
  if (has_event) end.armed.reset();
}

void HandRun::check() {
  for (std::size_t at = 0; at < 2; ++at) {
    End& end = ends_[at];
    auto const name = "end " + std::to_string(at);
    check_bytes(end.own->region(), end.own_bytes, name + " keeps");
    check_bytes(end.shown->region(), end.shown_bytes, name + " shows");
  }
  if (violation().empty() && (ends_[0].is_broken || ends_[1].is_broken)) connect();
}

}  // namespace lend::test
