// SPDX-License-Identifier: MIT OR Apache-2.0
// Error::describe(). Any thread; without memory it returns the one-line message.
#include <base/error_details.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

namespace lend {

namespace {

/// Adds `words` as a sentence of its own.
void say(std::string& text, std::string_view words) {
  if (words.empty()) return;
  if (!text.empty()) text += ' ';
  text += words;
  if (words.back() != '.') text += '.';
}

std::string counted(std::uint64_t count, std::string_view thing) {
  return std::to_string(count) + ' ' + std::string{thing} + (count == 1 ? "" : "s");
}

bool was_posted(WorkFailure const& work) noexcept {
  return work.slot != WorkFailure::no_slot && work.slot != base::not_posted;
}

/// "write of 8 bytes, posted at program.cpp:41,"
std::string work_of(WorkFailure const& work) {
  bool const is_refused = work.slot == base::not_posted;
  auto text = std::string{name_of(work.operation)} + " of " + counted(work.bytes, "byte");
  if (work.posted_at.line != 0)
    text += std::string{is_refused ? ", to be posted at " : ", posted at "} + work.posted_at.file +
            ':' + std::to_string(work.posted_at.line) + ',';
  else if (is_refused)
    text += ", to be posted,";
  return text;
}

/// "slot 3 of queue pair 17, in state error, toward queue pair 18 at fe80::1"
std::string place_of(WorkFailure const& work) {
  std::string text;
  if (was_posted(work)) text = "slot " + std::to_string(work.slot) + " of ";
  text += "queue pair " + std::to_string(work.queue_pair_number);
  if (work.queue_pair_state != QueuePairState::unknown)
    text += ", in state " + std::string{name_of(work.queue_pair_state)};
  if (!work.has_one_peer) return text;
  if (work.queue_pair_state != QueuePairState::unknown) text += ',';
  auto peer = "queue pair " + std::to_string(work.peer_queue_pair_number);
  if (!work.peer_address.empty()) peer += " at " + work.peer_address;
  return text + " toward " + base::named_peer(work.peer_name, std::move(peer));
}

std::string status_of(WorkFailure const& work) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string vendor;
  for (auto rest = work.vendor_code; rest != 0 || vendor.empty(); rest >>= 4)
    vendor.insert(vendor.begin(), digits[rest & 0xf]);
  return std::string{name_of(work.status)} + " (status " +
         std::to_string(static_cast<unsigned>(work.status)) + ", vendor code 0x" + vendor +
         ", class " + std::string{name_of(class_of(work.status))} + ')';
}

/// Whether work of the scope failed at the device, which breaks the channel.
bool has_drained_a_break(Error const& error) noexcept {
  return std::ranges::any_of(error.drained(), [](Error const& failure) {
    return failure.work() != nullptr || failure.cause() != nullptr || failure == Errc::peer_lost;
  });
}

/// The state after a refused request, and what the caller can do.
std::string_view outlook_after_refusal(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return "The channel is still usable: correct the request and post it.";
    case Errc::unsupported: return "The channel is still usable.";
    case Errc::timed_out:
    case Errc::cancelled:
      return "The channel is still usable: post again once some of its work has completed.";
    case Errc::system_failed: return "Nothing was posted; the channel is as before.";
    default: return "Nothing was posted; the channel is still usable.";
  }
}

/// Whether what `error` concerns is a connection, as far as it says.
bool is_of_connection(Error const& error, WorkFailure const* subject) noexcept {
  if (subject == nullptr) subject = error.work();
  for (Error const& failure : error.drained())
    if (subject == nullptr) subject = failure.work();
  return subject == nullptr || subject->has_one_peer;
}

/// The same after any error whose message does not say it. `subject` may be null.
std::string_view outlook_of(Error const& error, WorkFailure const* subject) noexcept {
  std::string_view const broken =
      is_of_connection(error, subject)
          ? "The channel takes no more work: finish its scopes, then prepare_again() or destroy it."
          : "The channel takes no more work: finish its scopes, then destroy it and build another.";
  bool const is_gone = error == Errc::stale_handle || error == Errc::peer_lost;
  if (!is_gone && has_drained_a_break(error)) return broken;
  if (subject != nullptr && subject->slot == base::not_posted && error != Errc::channel_broken)
    return outlook_after_refusal(error.code());
  switch (error.code()) {
    case Errc::already_borrowed:
    case Errc::queue_full: return "Nothing was posted; the channel is still usable.";
    case Errc::work_failed:
    case Errc::channel_broken: return broken;
    case Errc::system_failed:
      return error.flushed_along() > 0 ||
                     (subject != nullptr && subject->queue_pair_state == QueuePairState::error)
                 ? broken
                 : "";
    case Errc::timed_out:
    case Errc::cancelled:
      if (error.flushed_along() > 0) return broken;
      return subject != nullptr && was_posted(*subject)
                 ? "The channel is still usable: wait again, or finish the scope."
                 : "";
    case Errc::peer_lost:
      return "The connection has ended: prepare_again() or build a new channel, and connect once "
             "the "
             "peer is back.";
    case Errc::unpolled_work: return "All of it has ended, and its bytes are back.";
    case Errc::invalid_argument:
    case Errc::exhausted:
    case Errc::denied:
    case Errc::stale_handle: return "Nothing was done.";
    default: return {};
  }
}

void tell_of_failed_work(std::string& text, Error const& error, WorkFailure const& work,
                         std::string const& lead = {}) {
  say(text, lead + "a " + work_of(work) + " failed with " + status_of(work));
  say(text, "It was in " + place_of(work));
  Error const* const cause = error.cause();
  if (cause != nullptr) {
    say(text,
        error.is_flush() ? "It was only flushed." : "The channel was broken before it failed.");
    return;  // what to do depends on the cause, which comes next
  }
  if (error.is_flush()) {
    say(text,
        "The first cause was not known when this was seen. Channel::first_cause() may have it by "
        "now; "
        "otherwise no work of this side failed: the peer sent an invalid request, which its own "
        "error reports, or the queue pair was moved to the error state.");
    return;
  }
  auto const others = error.flushed_along();
  say(text, others == 0 ? std::string{"It broke the channel; no other request was flushed."}
                        : "It broke the channel; " + counted(others, "other request") +
                              (others == 1 ? " was" : " were") + " flushed.");
  say(text, base::remedy_for(work));
}

/// Further failures that the scope's drain found.
void tell_of_drained(std::string& text, Error const& error, std::string_view own_message) {
  std::uint32_t flushed = 0;
  Error const* reason = nullptr;  // of the flush, if nothing else reports it
  bool has_told = error.work() != nullptr;
  auto told = error.flushed_along();
  for (Error const& failure : error.drained()) {
    if (failure.is_flush()) {
      ++flushed;
      reason = failure.cause();
    } else if (failure.message() != own_message) {
      std::string const lead = "The scope's drain also found: ";
      if (failure.work() != nullptr)
        tell_of_failed_work(text, failure, *failure.work(), lead);
      else
        say(text, lead + failure.message());
      has_told = true;
      told = std::max(told, failure.flushed_along());
    }
  }
  // Reported already.
  if (flushed == 0 || flushed == told || error.is_flush()) return;
  auto words = counted(flushed, "request") + " of the scope" + (flushed == 1 ? " was" : " were") +
               " flushed";
  if (reason != nullptr && !has_told) words += ": " + reason->message();
  say(text, words);
}

}  // namespace

std::string_view base::remedy_for(WorkFailure const& failure) noexcept {
  bool const is_connection = failure.has_one_peer;
  if (failure.port_is_down)
    return is_connection
               ? "This side's port is down: bring its network interface or link up, then "
                 "prepare_again()."
               : "This side's port is down: bring its network interface or link up, then build "
                 "another channel.";
  if (failure.status == WorkStatus::flushed && !is_connection)
    return "An earlier failure or an abort ended the queue pair first: look at the first cause, "
           "then build another channel.";
  return remedy_for(failure.status, failure.operation);
}

std::string Error::describe() const noexcept {
  try {
    std::string text{name_of(code_)};
    text += ':';
    std::string const bare = category_of_lend().message(static_cast<int>(code_));
    std::string_view const own_message = details_ ? std::string_view{details_->message} : "";
    if (work() != nullptr) {
      tell_of_failed_work(text, *this, *work());
    } else if (code_ == Errc::channel_broken && cause() != nullptr) {
      say(text, "the channel was broken before this call, which did nothing.");
    } else {
      say(text, own_message.empty() ? std::string_view{bare} : own_message);
    }
    WorkFailure const* const subject =
        details_ && details_->subject ? &*details_->subject : nullptr;
    if (subject != nullptr)
      say(text, subject->slot == WorkFailure::no_slot
                    ? "It concerns " + place_of(*subject)
                    : "It concerns the " + work_of(*subject) + " in " + place_of(*subject));
    if (work() == nullptr && flushed_along() > 0)
      say(text, counted(flushed_along(), "request") + (flushed_along() == 1 ? " was" : " were") +
                    " flushed with it.");
    tell_of_drained(text, *this, own_message);
    if (Error const* const first = cause()) {
      say(text, "First cause: " + first->describe());
      return text;  // it says what to do
    }
    say(text, outlook_of(*this, subject));
    if (details_ && !details_->events.empty()) text += "\nLast events:" + details_->events;
    return text;
  } catch (std::bad_alloc const&) {
    return message();
  }
}

}  // namespace lend
