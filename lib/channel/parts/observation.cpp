// SPDX-License-Identifier: MIT OR Apache-2.0
// The counting and recording itself. The thread of the channel.
#include <base/error_access.hpp>
#include <channel/parts/observation.hpp>

#include <new>
#include <utility>

namespace lend::channel {

namespace {

using observe::EventKind;

constexpr std::uint64_t events_told = 8;

void add_post_of_new_file(observe::Recorder& recorder, Slot const& slot, Operation operation,
                          bool is_message, std::uint64_t now) noexcept;

[[gnu::always_inline]] inline void add_post(observe::Recorder& recorder, Slot const& slot,
                                            Operation operation, bool is_message,
                                            std::uint64_t now) noexcept {
  auto const [file, line] = slot.posted_at();
  // A call in the midst would cost the rest a frame.
  if (!recorder.knows(file)) [[unlikely]]
    return add_post_of_new_file(recorder, slot, operation, is_message, now);
  recorder.add({.at = now,
                .bytes = slot.work.bytes,
                .slot = slot.work.slot,
                .message = is_message ? recorder.next_sent() : 0,
                .line = line,
                .file = recorder.index_of(file),
                .kind = static_cast<std::uint8_t>(EventKind::posted),
                .operation = static_cast<std::uint8_t>(operation)});
}

[[gnu::cold, gnu::noinline]] void add_post_of_new_file(observe::Recorder& recorder,
                                                       Slot const& slot, Operation operation,
                                                       bool is_message,
                                                       std::uint64_t now) noexcept {
  recorder.learn(slot.posted_at().file);
  add_post(recorder, slot, operation, is_message, now);
}

}  // namespace

template <bool by_counter>
[[gnu::always_inline]] inline std::uint64_t Observation::now() noexcept {
  if constexpr (by_counter) return observe::Clock::counter();
  return observe::raw_nanoseconds();
}

template <Operation operation, bool by_counter, bool records>
void Observation::on_post(observe::Observer& observer, Slot& slot) noexcept {
  std::uint64_t const at = now<by_counter>();
  slot.posted_or_failed = at;
  observer.post(operation);
  if constexpr (records)
    add_post(observer.known_recorder(), slot, operation, operation == Operation::send, at);
}

template <bool by_counter, bool records>
void Observation::on_success(observe::Observer& observer, Slot& slot) noexcept {
  std::uint64_t const at = now<by_counter>();
  Operation const operation = slot.work.operation;
  std::uint64_t const bytes = slot.work.bytes;
  observer.succeed(operation, bytes, at - slot.posted_or_failed);
  if constexpr (records) {
    observe::Recorder& recorder = observer.known_recorder();
    recorder.add({.at = at,
                  .bytes = bytes,
                  .slot = slot.work.slot,
                  .message = operation == Operation::receive ? recorder.next_received() : 0,
                  .kind = static_cast<std::uint8_t>(EventKind::completed),
                  .operation = static_cast<std::uint8_t>(operation)});
  }
}

template <bool by_counter, bool records>
constexpr Observation::Hooks Observation::hooks{
    .post = {on_post<Operation::send, by_counter, records>,
             on_post<Operation::receive, by_counter, records>,
             on_post<Operation::write, by_counter, records>,
             on_post<Operation::read, by_counter, records>,
             on_post<Operation::atomic, by_counter, records>},
    .succeed = on_success<by_counter, records>};

Observation::~Observation() {
  if (is_on()) observer_->end_channel(has_broken_);
}

void Observation::begin(std::shared_ptr<observe::Observer> observer, bool is_alone) noexcept {
  observer_ = std::move(observer);
  is_alone_ = is_alone;
  observer_->begin_channel();
  room_.forget_most();
  bool const records = observer_->recorder() != nullptr;
  if (observer_->has_counter())
    hooks_ = records ? &hooks<true, true> : &hooks<true, false>;
  else
    hooks_ = records ? &hooks<false, true> : &hooks<false, false>;
}

void Observation::note_most(Operation operation) noexcept {
  room_.note_most(operation);
  observer_->note_outstanding(operation, room_.outstanding(operation));
}

void Observation::post_any(Slot& slot, bool is_message) noexcept {
  if (!is_on()) return;
  note_most(slot.work.operation);
  record_post(*observer_, slot, is_message, observer_->now());
}

void Observation::record_post(observe::Observer& observer, Slot& slot, bool is_message,
                              std::uint64_t now) noexcept {
  count_post(observer, slot, now);
  if (observer.recorder() != nullptr)
    add_post(*observer.recorder(), slot, slot.work.operation, is_message, now);
}

[[gnu::cold]] void Observation::probe_failure(Slot const& slot, WorkStatus status) const noexcept {
  if (status == WorkStatus::flushed)
    observe::probe_flush(queue_pair_, slot.work.slot, slot.work.operation);
  else
    observe::probe_complete(queue_pair_, slot.work.slot, slot.work.operation, status);
}

[[gnu::cold]] void Observation::note_break() noexcept {
  observe::probe_break(queue_pair_);
  if (is_on() && !std::exchange(has_broken_, true)) observer_->break_channel();
}

[[gnu::cold]] void Observation::fail(Slot const& slot, WorkStatus status) noexcept {
  if (!is_on() || !is_counted(slot)) return;
  observer_->fail(slot.work.operation, status);
  observe::Recorder* const recorder = observer_->own_recorder();
  if (recorder == nullptr) return;
  recorder->add({.at = observer_->now(),
                 .bytes = slot.work.bytes,
                 .slot = slot.work.slot,
                 .kind = static_cast<std::uint8_t>(EventKind::failed),
                 .operation = static_cast<std::uint8_t>(slot.work.operation),
                 .status = static_cast<std::uint8_t>(status)});
}

[[gnu::cold]] void Observation::note_unanswered(FailedWork const& failed) noexcept {
  observe::Recorder* const recorder = is_on() ? observer_->own_recorder() : nullptr;
  if (recorder == nullptr) return;
  recorder->add({.at = observer_->now(),
                 .slot = observe::no_slot,
                 .message = failed.vendor_code,
                 .kind = static_cast<std::uint8_t>(EventKind::unanswered),
                 .operation = static_cast<std::uint8_t>(Operation::write),
                 .status = static_cast<std::uint8_t>(failed.status)});
}

void Observation::note_room_wait() noexcept {
  if (!is_on()) return;
  observer_->wait_for_room();
  if (observe::Recorder* const recorder = observer_->own_recorder())
    recorder->add({.at = observer_->now(),
                   .slot = observe::no_slot,
                   .kind = static_cast<std::uint8_t>(EventKind::room_wait)});
}

void Observation::take_pooled(std::uint64_t bytes) noexcept {
  observe::probe_complete(queue_pair_, observe::no_slot, Operation::receive);
  if (!is_on()) return;
  observer_->take_pooled(bytes);
  if (observe::Recorder* const recorder = observer_->own_recorder())
    recorder->add({.at = observer_->now(),
                   .bytes = bytes,
                   .slot = observe::no_slot,
                   .message = recorder->next_received(),
                   .kind = static_cast<std::uint8_t>(EventKind::completed),
                   .operation = static_cast<std::uint8_t>(Operation::receive)});
}

[[gnu::cold]] Error Observation::with_events(Error const& error) noexcept {
  observe::Recorder* const recorder = is_on() ? observer_->own_recorder() : nullptr;
  if (recorder == nullptr || base::ErrorAccess::has_events(error)) return error;
  std::uint64_t const now = observer_->now();
  Error told = error;
  try {
    told = base::ErrorAccess::with_events(error, recorder->last(events_told, now));
  } catch (std::bad_alloc const&) {
    // The error says enough.
  }
  Error const* const cause = error.cause();
  WorkFailure const* const work =
      error.work() != nullptr || cause == nullptr ? error.work() : cause->work();
  recorder->add(
      {.at = now,
       .bytes = static_cast<std::uint64_t>(error.code()),
       .slot = observe::no_slot,
       .message = work != nullptr ? work->vendor_code : 0,
       .kind = static_cast<std::uint8_t>(EventKind::broke),
       .operation = work != nullptr ? static_cast<std::uint8_t>(work->operation) : std::uint8_t{0},
       .status = work != nullptr ? static_cast<std::uint8_t>(work->status) : std::uint8_t{0}});
  return told;
}

void Observation::name_ends(observe::EndName const& own, observe::EndName const& peer,
                            bool is_ordered) noexcept {
  if (is_on() && observer_->own_recorder() != nullptr)
    observer_->own_recorder()->name_ends(own, peer, is_ordered);
}

}  // namespace lend::channel
