// SPDX-License-Identifier: MIT OR Apache-2.0
// Error::describe(). Any thread; without memory it returns the one-line message.
#include <base/error_details.hpp>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace lend {

namespace {

/// A head, and below it lines with a label each. What the text has already is not said again.
class Lines {
 public:
  explicit Lines(std::string head) : text_{std::move(head)} {}

  /// Adds `words` as a sentence to the line of `label`, if that is the last one, or as a line.
  void add(std::string_view label, std::string_view words) {
    if (words.ends_with('.')) words.remove_suffix(1);
    if (words.empty() || has(words)) return;
    if (label == last_) {
      text_ += ". ";
    } else {
      auto begin = "\n  " + std::string{label} + ':';
      begin.resize(10, ' ');
      text_ += begin;
      last_ = label;
    }
    text_ += words;
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  /// Whether the text has these words: "queue pair 12" is not in "queue pair 123".
  [[nodiscard]] bool has(std::string_view words) const noexcept {
    constexpr std::string_view digits = "0123456789";
    for (auto at = text_.find(words); at != text_.npos; at = text_.find(words, at + 1)) {
      auto const end = at + words.size();
      bool const begins = at == 0 || digits.find(text_[at - 1]) == digits.npos ||
                          digits.find(words.front()) == digits.npos;
      if (begins && (end == text_.size() || digits.find(text_[end]) == digits.npos)) return true;
    }
    return false;
  }

  std::string text_;
  std::string_view last_{};
};

/// A line of the text: its label, and what it says.
struct Line {
  std::string_view label{};
  std::string_view words{};
};

std::string counted(std::uint64_t count, std::string_view thing) {
  return std::to_string(count) + ' ' + std::string{thing} + (count == 1 ? "" : "s");
}

bool was_posted(WorkFailure const& work) noexcept {
  return work.slot != WorkFailure::no_slot && work.slot != base::not_posted;
}

/// "write of 8 bytes"
std::string request_of(WorkFailure const& work) {
  return std::string{name_of(work.operation)} + " of " + counted(work.bytes, "byte");
}

/// "posted at program.cpp:41, slot 3"
std::string origin_of(WorkFailure const& work) {
  std::string_view const verb = work.slot == base::not_posted ? "to be posted" : "posted";
  std::string text;
  if (work.posted_at.line != 0)
    text = std::string{verb} + " at " + work.posted_at.file + ':' +
           std::to_string(work.posted_at.line);
  else if (work.slot == base::not_posted)
    text = verb;
  if (was_posted(work)) text += (text.empty() ? "slot " : ", slot ") + std::to_string(work.slot);
  return text;
}

/// "queue pair 17 (error) toward queue pair 18 at fe80::1"
std::string place_of(WorkFailure const& work) {
  auto text = "queue pair " + std::to_string(work.queue_pair_number);
  if (work.queue_pair_state != QueuePairState::unknown)
    text += " (" + std::string{name_of(work.queue_pair_state)} + ')';
  if (!work.has_one_peer) return text;
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

/// The state after a refused request, or what the caller can do.
Line outlook_after_refusal(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument:
      return {"do", "The channel is still usable: correct the request and post it."};
    case Errc::unsupported: return {"then", "the channel is still usable"};
    case Errc::timed_out:
    case Errc::cancelled:
      return {"do", "The channel is still usable: post again once some of its work has completed."};
    case Errc::system_failed: return {"then", "nothing was posted; the channel is as before"};
    default: return {"then", "nothing was posted; the channel is still usable"};
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
Line outlook_of(Error const& error, WorkFailure const* subject) noexcept {
  Line const broken{
      "do",
      is_of_connection(error, subject)
          ? "The channel takes no more work: finish its scopes, then prepare_again() or destroy it."
          : "The channel takes no more work: finish its scopes, then destroy it and build "
            "another."};
  bool const is_gone = error == Errc::stale_handle || error == Errc::peer_lost;
  if (!is_gone && has_drained_a_break(error)) return broken;
  if (subject != nullptr && subject->slot == base::not_posted && error != Errc::channel_broken)
    return outlook_after_refusal(error.code());
  switch (error.code()) {
    case Errc::already_borrowed:
    case Errc::queue_full: return {"then", "nothing was posted; the channel is still usable"};
    case Errc::work_failed:
    case Errc::channel_broken: return broken;
    case Errc::system_failed:
      return error.flushed_along() > 0 ||
                     (subject != nullptr && subject->queue_pair_state == QueuePairState::error)
                 ? broken
                 : Line{};
    case Errc::timed_out:
    case Errc::cancelled:
      if (error.flushed_along() > 0) return broken;
      return subject != nullptr && was_posted(*subject)
                 ? Line{"do", "The channel is still usable: wait again, or finish the scope."}
                 : Line{};
    case Errc::peer_lost:
      return {"do",
              "The connection has ended: prepare_again() or build a new channel, and connect once "
              "the peer is back."};
    case Errc::unpolled_work: return {"then", "all of it has ended, and its bytes are back"};
    case Errc::invalid_argument:
    case Errc::exhausted:
    case Errc::denied:
    case Errc::stale_handle: return {"then", "nothing was done"};
    default: return {};
  }
}

/// "a write of 8 bytes failed with remote_access (status 10, …)"
std::string failure_of(WorkFailure const& work) {
  return "a " + request_of(work) + " failed with " + status_of(work);
}

/// What happened: the first line of the text, and that of a cause.
std::string head_of(Error const& error, std::string_view own_message) {
  auto const code = std::string{name_of(error.code())} + ": ";
  if (error.work() != nullptr) return code + failure_of(*error.work());
  if (own_message.starts_with("the channel is broken"))
    return code + "the channel was broken before this call, which did nothing";
  if (error.cause() != nullptr) {  // which has a line of its own
    auto const twice = ": " + error.cause()->message();
    if (own_message.ends_with(twice)) own_message.remove_suffix(twice.size());
  }
  if (own_message.ends_with('.')) own_message.remove_suffix(1);
  if (!own_message.empty()) return code + std::string{own_message};
  return code + category_of_lend().message(static_cast<int>(error.code()));
}

void tell_of_failed_work(Lines& lines, Error const& error, WorkFailure const& work) {
  lines.add("work", origin_of(work));
  lines.add("on", place_of(work));
  if (error.cause() != nullptr) {
    lines.add("then",
              error.is_flush() ? "it was only flushed" : "the channel was broken before it failed");
    return;  // what to do depends on the cause, which comes next
  }
  if (error.is_flush()) {
    lines.add("then", "the first cause was not known when this was seen");
    lines.add("do",
              "Channel::first_cause() may have it by now; otherwise no work of this side failed: "
              "the peer sent an invalid request, which its own error reports, or the queue pair "
              "was moved to the error state.");
    return;
  }
  auto const others = error.flushed_along();
  lines.add("then", others == 0 ? std::string{"it broke the channel; no other request was flushed"}
                                : "it broke the channel; " + counted(others, "other request") +
                                      (others == 1 ? " was" : " were") + " flushed");
  lines.add("do", base::remedy_for(work));
}

/// Further failures that the scope's drain found.
void tell_of_drained(Lines& lines, Error const& error, std::string_view own_message) {
  std::uint32_t flushed = 0;
  Error const* reason = nullptr;  // of the flush, if nothing else reports it
  bool has_told = error.work() != nullptr;
  auto told = error.flushed_along();
  for (Error const& failure : error.drained()) {
    if (failure.is_flush()) {
      ++flushed;
      reason = failure.cause();
    } else if (failure.message() != own_message) {
      if (failure.work() != nullptr) {
        lines.add("also", failure_of(*failure.work()));
        tell_of_failed_work(lines, failure, *failure.work());
      } else {
        lines.add("also", failure.message());
      }
      has_told = true;
      told = std::max(told, failure.flushed_along());
    }
  }
  // Reported already.
  if (flushed == 0 || flushed == told || error.is_flush()) return;
  auto words = counted(flushed, "request") + " of the scope" + (flushed == 1 ? " was" : " were") +
               " flushed";
  if (reason != nullptr && !has_told) words += ": " + reason->message();
  lines.add("then", words);
}

/// All below the head. `subject` may be null.
void tell(Lines& lines, Error const& error, WorkFailure const* subject,
          std::string_view own_message) {
  if (error.work() != nullptr) {
    tell_of_failed_work(lines, error, *error.work());
  } else {
    if (subject != nullptr && subject->slot != WorkFailure::no_slot) {
      auto const origin = origin_of(*subject);
      lines.add("work", request_of(*subject) + (origin.empty() ? "" : ", ") + origin);
    }
    if (subject != nullptr) lines.add("on", place_of(*subject));
    if (error.flushed_along() > 0)
      lines.add("then", counted(error.flushed_along(), "request") +
                            (error.flushed_along() == 1 ? " was" : " were") + " flushed with it");
  }
  tell_of_drained(lines, error, own_message);
}

/// What `lend explain` is asked about: the status of what failed, else the code.
std::string_view name_to_explain(Error const& error) noexcept {
  if (error.work() != nullptr) return name_of(error.work()->status);
  for (Error const& failure : error.drained())
    if (failure.work() != nullptr && !failure.is_flush()) return name_of(failure.work()->status);
  return name_of(error.code());
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
    auto const message_in = [](Error const& error) {
      return error.details_ ? std::string_view{error.details_->message} : std::string_view{};
    };
    auto const subject_in = [](Error const& error) -> WorkFailure const* {
      return error.details_ && error.details_->subject ? &*error.details_->subject : nullptr;
    };
    Lines lines{head_of(*this, message_in(*this))};
    tell(lines, *this, subject_in(*this), message_in(*this));
    Error const* last = this;  // it says what to do
    while (Error const* const cause = last->cause()) {
      lines.add("cause", head_of(*cause, message_in(*cause)));
      tell(lines, *cause, subject_in(*cause), message_in(*cause));
      last = cause;
    }
    auto const outlook = outlook_of(*last, subject_in(*last));
    lines.add(outlook.label, outlook.words);
    lines.add("see", "lend explain " + std::string{name_to_explain(*last)});
    auto text = std::move(lines).take();
    if (last->details_ && !last->details_->events.empty())
      text += "\nLast events:" + last->details_->events;
    return text;
  } catch (std::bad_alloc const&) {
    return message();
  }
}

}  // namespace lend
