// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors and their details. Any thread. Without memory an error keeps its code and loses details.
#include <base/error_access.hpp>
#include <base/error_details.hpp>

#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

namespace lend {

namespace {

/// The message of an error without details: what happened and what to do.
std::string_view sentence_of(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "an argument is out of range; correct it";
    case Errc::not_found: return "no such device, port, GID or name";
    case Errc::unsupported: return "this device, kernel or process cannot do it";
    case Errc::exhausted: return "memory, descriptors or a device limit ran out";
    case Errc::denied: return "the operating system or the peer denied it";
    case Errc::system_failed: return "a verb or system call failed";
    case Errc::already_borrowed:
      return "some byte is on loan in a way that excludes this loan; wait for that work";
    case Errc::queue_full:
      return "as many work requests are outstanding as the depth allows; poll, then post again";
    case Errc::timed_out: return "the deadline passed";
    case Errc::work_failed: return "a work request completed with a failure";
    case Errc::channel_broken:
      return "an earlier failure broke the channel; only finish(), destruction and, of a "
             "connection, prepare_again() remain";
    case Errc::incompatible_peer:
      return "the peer's endpoint or greeting is malformed, foreign, stale or does not match this "
             "end";
    case Errc::peer_lost: return "the peer is gone; connect again";
    case Errc::unpolled_work:
      return "a manual scope ended with unpolled work; wait for each handle";
    case Errc::stale_handle: return "the handle's scope or channel is gone";
    case Errc::cancelled: return "the wait was cancelled";
    case Errc::disagreement: return "ranks of a group made different calls";
    case Errc::device_event:
      return "the device reported a failure that no completion tells; the channel is broken";
    case Errc::finished: return "this end has finished sending";
  }
  return "unknown error code";
}

Errc code_of_errno(int errno_value) noexcept {
  switch (errno_value) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
    case ENOSPC:
    case ENOBUFS:
    case EFBIG: return Errc::exhausted;
    case EPERM:
    case EACCES: return Errc::denied;
    case ENOENT:
    case ENODEV:
    case ENXIO: return Errc::not_found;
    case EOPNOTSUPP:  // ENOTSUP is the same number on Linux
    case ENOSYS:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT: return Errc::unsupported;
    case EINVAL: return Errc::invalid_argument;
    case ETIMEDOUT: return Errc::timed_out;
    case ECONNRESET:
    case ECONNABORTED:
    case ECONNREFUSED:
    case EPIPE:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ENETRESET:
    case ENOTCONN:
    case ESHUTDOWN: return Errc::peer_lost;
    default: return Errc::system_failed;
  }
}

std::string text_of(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

/// The limit of this process or host that `errno_value` indicates, and how to raise it; otherwise
/// empty.
std::string limit_remedy(int errno_value) {
  if (errno_value == ENFILE)
    return "The host's limit of open files, sysctl fs.file-max, is reached: raise it, or end "
           "processes that hold many.";
  rlimit limit{};
  if (errno_value == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    return "RLIMIT_NOFILE is " + text_of(limit.rlim_cur) +
           " (hard limit: " + text_of(limit.rlim_max) +
           "); raise it with `ulimit -n`, a nofile line in /etc/security/limits.conf or "
           "LimitNOFILE= in a systemd unit, or close unused descriptors.";
  if (errno_value == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    return "RLIMIT_FSIZE is " + text_of(limit.rlim_cur) +
           " bytes (hard limit: " + text_of(limit.rlim_max) +
           "); raise it with `ulimit -f`, an fsize line in /etc/security/limits.conf or "
           "LimitFSIZE= in a systemd unit.";
  return {};
}

/// Adds `words` as a sentence of its own.
void add_sentence(std::string& text, std::string_view words) {
  if (words.empty()) return;
  text += text.back() == '.' ? " " : ". ";
  text += words;
}

/// The message of a failed request: "send of 64 bytes failed with …".
std::string message_of(WorkFailure const& failure) {
  char numbers[96];
  std::string text{name_of(failure.operation)};
  std::snprintf(numbers, sizeof numbers, " of %llu byte%s failed with ",
                static_cast<unsigned long long>(failure.bytes), failure.bytes == 1 ? "" : "s");
  text += numbers;
  text += name_of(failure.status);
  std::snprintf(numbers, sizeof numbers, " (status %u, vendor code 0x%x, class ",
                static_cast<unsigned>(failure.status), failure.vendor_code);
  text += numbers;
  text += name_of(class_of(failure.status));
  text += ") in ";
  if (failure.slot != WorkFailure::no_slot) text += "slot " + std::to_string(failure.slot) + " of ";
  text += "queue pair " + std::to_string(failure.queue_pair_number) + " (state ";
  text += name_of(failure.queue_pair_state);
  text += ')';
  if (failure.has_one_peer)
    text += (failure.peer_name.empty() ? ", peer " : ", toward ") +
            base::named_peer(failure.peer_name,
                             "queue pair " + std::to_string(failure.peer_queue_pair_number));
  text += ". ";
  text += base::remedy_for(failure);
  return text;
}

class Category final : public std::error_category {
 public:
  char const* name() const noexcept override { return "lend"; }
  std::string message(int code) const override {
    return std::string{sentence_of(static_cast<Errc>(code))};
  }
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<Errc>(code)) {
      case Errc::invalid_argument: return std::errc::invalid_argument;
      case Errc::unsupported: return std::errc::operation_not_supported;
      case Errc::denied: return std::errc::permission_denied;
      case Errc::queue_full: return std::errc::resource_unavailable_try_again;
      case Errc::timed_out: return std::errc::timed_out;
      case Errc::cancelled: return std::errc::operation_canceled;
      default: return {code, *this};
    }
  }
};

}  // namespace

Error::Error(Errc code, std::shared_ptr<Details const> details) noexcept
    : code_{code}, details_{std::move(details)} {}

Error::Error(Errc code, std::string message) noexcept : code_{code} {
  try {
    details_ = std::make_shared<Details const>(std::move(message));
  } catch (std::bad_alloc const&) {
  }
}

Error::Error(Errc code, char const* message) noexcept : code_{code} {
  try {
    details_ = std::make_shared<Details const>(message);
  } catch (std::bad_alloc const&) {
  }
}

Error Error::from_errno(std::string_view call, int errno_value, std::string_view remedy) noexcept {
  return from_errno(code_of_errno(errno_value), call, errno_value, remedy);
}

Error Error::from_errno(Errc code, std::string_view call, int errno_value,
                        std::string_view remedy) noexcept {
  try {
    std::string text{call};
    text += " failed";
    if (errno_value != 0) {
      char buffer[128];
      text += ": ";
      text += ::strerror_r(errno_value, buffer, sizeof buffer);
      text += " (errno " + std::to_string(errno_value) + ')';
    }
    add_sentence(text, remedy);
    add_sentence(text, limit_remedy(errno_value));
    return Error{code, std::make_shared<Details const>(std::move(text), errno_value)};
  } catch (std::bad_alloc const&) {
    return code;
  }
}

Error Error::from_work(WorkFailure const& failure) noexcept {
  try {
    return Error{Errc::work_failed,
                 std::make_shared<Details const>(message_of(failure), 0, failure)};
  } catch (std::bad_alloc const&) {
    return Errc::work_failed;
  }
}

std::string Error::message() const noexcept {
  try {
    if (!details_ || details_->message.empty()) {
      std::string text{name_of(code_)};
      text += ": ";
      text += sentence_of(code_);
      if (auto const more = drained().size(); more != 0)
        text += " (and " + std::to_string(more) + " more)";
      return text;
    }
    if (details_->drained.empty()) return details_->message;
    return details_->message + " (and " + std::to_string(details_->drained.size()) + " more)";
  } catch (std::bad_alloc const&) {
    return "out of memory";  // 13 characters: held in place, not allocated
  }
}

int Error::os_error() const noexcept {
  return details_ ? details_->os_error : 0;
}

WorkFailure const* Error::work() const noexcept {
  return details_ && details_->work ? &*details_->work : nullptr;
}

std::span<Error const> Error::drained() const& noexcept {
  if (!details_) return {};
  return details_->drained;
}

// A copy of the error with one change; without memory, the error as it is.
template <class Change>
Error Error::changed(Change&& change) const noexcept {
  try {
    auto details = details_ ? std::make_shared<Details>(details_) : std::make_shared<Details>();
    change(*details);
    return Error{code_, std::move(details)};
  } catch (std::bad_alloc const&) {
    return *this;
  }
}

Error Error::with_drained(std::vector<Error> failures) const noexcept {
  if (failures.empty()) return *this;
  return changed([&](Details& details) {
    if (details.drained.empty())
      details.drained = std::move(failures);
    else
      details.drained.insert(details.drained.end(), failures.begin(), failures.end());
  });
}

Error const* Error::cause() const noexcept {
  return details_ && details_->cause.code() != Errc{} ? &details_->cause : nullptr;
}

Error Error::with_cause(Error cause) const noexcept {
  return changed([&](Details& details) { details.cause = std::move(cause); });
}

Error base::ErrorAccess::about(Error const& error, WorkFailure const& work) noexcept {
  return error.changed([&](Error::Details& details) { details.subject = work; });
}

WorkFailure const* base::ErrorAccess::request_of(Error const& error) noexcept {
  if (error.work() != nullptr || !error.details_ || !error.details_->subject) return error.work();
  return &*error.details_->subject;
}

Error base::ErrorAccess::of_drain(Error const& error) noexcept {
  return error.changed([](Error::Details& details) { details.is_of_drain = true; });
}

Error base::ErrorAccess::with_events(Error const& error, std::string lines) noexcept {
  return error.changed([&](Error::Details& details) { details.events = std::move(lines); });
}

bool base::ErrorAccess::has_events(Error const& error) noexcept {
  return error.details_ && !error.details_->events.empty();
}

bool Error::is_of_drain() const noexcept {
  return details_ && details_->is_of_drain;
}

bool Error::is_flush() const noexcept {
  return work() != nullptr && class_of(work()->status) == FailureClass::flushed;
}

std::uint32_t Error::flushed_along() const noexcept {
  if (!details_) return 0;
  auto const& counted = details_->origin ? *details_->origin : *details_;
  return counted.flushed_along.load(std::memory_order_relaxed);
}

void base::ErrorAccess::count_flushed(Error const& error, std::uint32_t more) noexcept {
  if (!error.details_) return;
  auto const& counted = error.details_->origin ? *error.details_->origin : *error.details_;
  counted.flushed_along.fetch_add(more, std::memory_order_relaxed);
  if (Error const* const first = error.cause()) count_flushed(*first, more);
}

Error::operator std::error_code() const noexcept {
  return make_error_code(code_);
}

std::string_view name_of(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::not_found: return "not_found";
    case Errc::unsupported: return "unsupported";
    case Errc::exhausted: return "exhausted";
    case Errc::denied: return "denied";
    case Errc::system_failed: return "system_failed";
    case Errc::already_borrowed: return "already_borrowed";
    case Errc::queue_full: return "queue_full";
    case Errc::timed_out: return "timed_out";
    case Errc::work_failed: return "work_failed";
    case Errc::channel_broken: return "channel_broken";
    case Errc::incompatible_peer: return "incompatible_peer";
    case Errc::peer_lost: return "peer_lost";
    case Errc::unpolled_work: return "unpolled_work";
    case Errc::stale_handle: return "stale_handle";
    case Errc::cancelled: return "cancelled";
    case Errc::disagreement: return "disagreement";
    case Errc::device_event: return "device_event";
    case Errc::finished: return "finished";
  }
  return "unknown";
}

std::error_category const& category_of_lend() noexcept {
  static Category const category;
  return category;
}

std::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), category_of_lend()};
}

}  // namespace lend
