// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors keep their code, their story and what a drain found; every value has words.
#include "support/catch.hpp"

#include <base/error_access.hpp>
#include <lend/base/error.hpp>

#include <sys/resource.h>

#include <cerrno>
#include <set>
#include <string>
#include <type_traits>

namespace lend {
namespace {

static_assert(sizeof(Error) == 24);
static_assert(std::is_nothrow_move_constructible_v<Error>);
static_assert(std::is_nothrow_copy_constructible_v<Error>);
static_assert(std::is_convertible_v<Errc, Error>);
static_assert(std::is_error_code_enum_v<Errc>);

bool contains(std::string const& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr int last_errc = static_cast<int>(Errc::finished);

TEST_CASE("an error from errno names the call, the reason, the number and the remedy", "[base]") {
  auto const error = Error::from_errno("ibv_reg_mr", ENOMEM, "Raise the limit.");
  CHECK(error == Errc::exhausted);
  CHECK(error.os_error() == ENOMEM);
  CHECK(error.message() ==
        "ibv_reg_mr failed: Cannot allocate memory (errno 12). Raise the limit.");
  CHECK(error.work() == nullptr);
  CHECK(error.drained().empty());
}

TEST_CASE("an error from errno 0 or without remedy adds no empty words", "[base]") {
  CHECK(Error::from_errno("poll", 0).message() == "poll failed");
  CHECK(Error::from_errno("poll", 0) == Errc::system_failed);
  CHECK(Error::from_errno("open", ENOENT).message() ==
        "open failed: No such file or directory (errno 2)");
}

TEST_CASE("an error for want of descriptors names the limit, behind any other remedy", "[base]") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  auto const text = Error::from_errno("accept", EMFILE, "Close some").message();
  CHECK_THAT(text, Catch::StartsWith("accept failed: Too many open files (errno 24). Close some. "
                                     "RLIMIT_NOFILE is " +
                                     std::to_string(limit.rlim_cur) + ' '));
  CHECK_THAT(text, Catch::Contains("raise it with `ulimit -n`"));
  CHECK_THAT(Error::from_errno("accept", ENFILE).message(), Catch::Contains("fs.file-max"));
}

TEST_CASE("an error for too large a file names the limit, where there is one", "[base]") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto const text_below = [&](rlim_t bytes) {
    rlimit const limit{bytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    auto text = Error::from_errno("open", EFBIG).message();
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    return text;
  };
  auto const text = text_below(1 << 20);
  CHECK_THAT(text, Catch::StartsWith("open failed: File too large (errno 27). "
                                     "RLIMIT_FSIZE is 1048576 bytes (hard limit: "));
  CHECK_THAT(text, Catch::Contains("raise it with `ulimit -f`"));
  if (before.rlim_max == RLIM_INFINITY)
    CHECK(text_below(RLIM_INFINITY) == "open failed: File too large (errno 27)");
}

TEST_CASE("each errno chooses the code that says what to do", "[base]") {
  struct Row {
    Errc code;
    std::vector<int> values;
  };
  Row const rows[] = {
      {Errc::exhausted, {ENOMEM, EMFILE, ENFILE, EAGAIN, ENOSPC, ENOBUFS, EFBIG}},
      {Errc::denied, {EPERM, EACCES}},
      {Errc::not_found, {ENOENT, ENODEV, ENXIO}},
      {Errc::unsupported, {EOPNOTSUPP, ENOTSUP, ENOSYS, EPROTONOSUPPORT, EAFNOSUPPORT}},
      {Errc::invalid_argument, {EINVAL}},
      {Errc::timed_out, {ETIMEDOUT}},
      {Errc::peer_lost, {ECONNRESET, ECONNREFUSED, ECONNABORTED, EPIPE, EHOSTUNREACH, ENETUNREACH}},
      {Errc::system_failed, {EIO, EBUSY, EFAULT, 0, -1, 99999}},
  };
  for (auto const& row : rows)
    for (int const value : row.values) {
      INFO("errno " << value);
      CHECK(Error::from_errno("call", value) == row.code);
    }
}

TEST_CASE("an error from failed work tells everything known of it in one line", "[base]") {
  WorkFailure const failure{WorkStatus::remote_access,
                            Operation::write,
                            QueuePairState::error,
                            0x81,
                            1234,
                            5678,
                            9,
                            4096};
  auto const error = Error::from_work(failure);
  CHECK(error == Errc::work_failed);
  CHECK(error.os_error() == 0);
  REQUIRE(error.work() != nullptr);
  CHECK(error.work()->status == WorkStatus::remote_access);
  CHECK(error.work()->bytes == 4096);
  auto const text = error.message();
  for (auto const* part :
       {"write", "4096 bytes", "remote_access", "status 10", "0x81", "class remote", "slot 9",
        "queue pair 1234", "state error", "peer queue pair 5678"})
    CHECK_THAT(text, Catch::Contains(part));
  CHECK(contains(text, remedy_for(failure.status, failure.operation)));
  CHECK(text.find('\n') == std::string::npos);
}

TEST_CASE("a description has a line for each thing, and says nothing twice", "[base]") {
  WorkFailure failure{
      WorkStatus::remote_access, Operation::write, QueuePairState::unknown, 0x81, 123, 0, 9, 1};
  failure.has_one_peer = false;
  Error const cause = Error::from_work(failure);
  failure.status = WorkStatus::flushed;
  failure.vendor_code = 0;
  failure.slot = 10;
  SECTION("of one queue pair") {
    CHECK(Error::from_work(failure).with_cause(cause).describe() ==
          "work_failed: a write of 1 byte failed with flushed (status 5, vendor code 0x0, class "
          "flushed)\n"
          "  work:  slot 10\n"
          "  on:    queue pair 123\n"
          "  then:  it was only flushed\n"
          "  cause: work_failed: a write of 1 byte failed with remote_access (status 10, vendor "
          "code 0x81, class remote)\n"
          "  work:  slot 9\n"
          "  then:  it broke the channel; no other request was flushed\n"
          "  do:    " +
              std::string{remedy_for(WorkStatus::remote_access, Operation::write)} +
              " The channel takes no more work: finish its scopes, then destroy it and build "
              "another\n"
              "  see:   lend explain remote_access");
  }
  SECTION("of two, the number of one of which begins as the other's") {
    failure.queue_pair_number = 1234;
    CHECK(contains(Error::from_work(failure).with_cause(cause).describe(),
                   "\n  on:    queue pair 123\n"));
  }
}

TEST_CASE("failed work of a port that is down says so instead of what else it might be", "[base]") {
  WorkFailure failure{};
  failure.status = WorkStatus::local_queue_pair_operation;
  failure.port_is_down = true;
  auto const text = Error::from_work(failure).message();
  CHECK_THAT(text, Catch::Contains("port is down"));
  CHECK_FALSE(contains(text, remedy_for(failure.status, failure.operation)));
}

TEST_CASE("one byte is not bytes", "[base]") {
  WorkFailure failure{};
  failure.bytes = 1;
  CHECK_THAT(Error::from_work(failure).message(), Catch::Contains("1 byte failed"));
}

TEST_CASE("what a drain found rides along, in order, behind code and message", "[base]") {
  Error const first{Errc::timed_out, "first"};
  auto const once = first.with_drained({Errc::queue_full, Error{Errc::peer_lost, "second"}});
  CHECK(once == Errc::timed_out);
  CHECK(once.message() == "first (and 2 more)");
  REQUIRE(once.drained().size() == 2);
  CHECK(once.drained()[0] == Errc::queue_full);
  CHECK(once.drained()[1].message() == "second");

  auto const twice = once.with_drained({Errc::denied});
  REQUIRE(twice.drained().size() == 3);
  CHECK(twice.drained()[2] == Errc::denied);
  CHECK(once.drained().size() == 2);
  CHECK(first.drained().empty());
  CHECK(first.message() == "first");
}

TEST_CASE("a drain that found nothing changes nothing", "[base]") {
  Error const bare{Errc::queue_full};
  CHECK(bare.with_drained({}).message() == bare.message());
}

TEST_CASE("drained failures keep the errno and the failed work of the first", "[base]") {
  auto const system = Error::from_errno("poll", EIO).with_drained({Errc::denied});
  CHECK(system.os_error() == EIO);
  auto const work = Error::from_work({}).with_drained({Errc::denied});
  CHECK(work.work() != nullptr);
  auto const bare = Error{Errc::queue_full}.with_drained({Errc::denied});
  CHECK(bare == Errc::queue_full);
  CHECK(contains(bare.message(), "queue_full: "));
  CHECK(contains(bare.message(), " (and 1 more)"));
}

TEST_CASE("every code has its own name and its own sentence", "[base]") {
  std::set<std::string> names;
  std::set<std::string> sentences;
  for (int value = 1; value <= last_errc; ++value) {
    auto const code = static_cast<Errc>(value);
    names.emplace(name_of(code));
    sentences.insert(category_of_lend().message(value));
    CHECK(Error{code}.message() ==
          std::string{name_of(code)} + ": " + category_of_lend().message(value));
  }
  CHECK(names.size() == last_errc);
  CHECK(sentences.size() == last_errc);
  CHECK(names.count("unknown") == 0);
  CHECK(name_of(static_cast<Errc>(last_errc + 1)) == "unknown");
  CHECK(name_of(static_cast<Errc>(0)) == "unknown");
}

TEST_CASE("an error is a std::error_code of category lend, comparable to std::errc", "[base]") {
  std::error_code const code = Error{Errc::timed_out, "lost words"};
  CHECK(code == Errc::timed_out);
  CHECK(code == std::errc::timed_out);
  CHECK(code != std::errc::permission_denied);
  CHECK(std::string{code.category().name()} == "lend");
  CHECK(code.message() == "the deadline passed");
  CHECK(make_error_code(Errc::denied) == std::errc::permission_denied);
  CHECK(make_error_code(Errc::unsupported) == std::errc::operation_not_supported);
  CHECK(make_error_code(Errc::queue_full) == std::errc::resource_unavailable_try_again);
  CHECK(make_error_code(Errc::invalid_argument) == std::errc::invalid_argument);
  CHECK(make_error_code(Errc::stale_handle) != std::errc::invalid_argument);
  CHECK(std::error_code{Errc::peer_lost} == make_error_code(Errc::peer_lost));
}

TEST_CASE("a copy shares the story and outlives the original", "[base]") {
  Error copy = Errc::denied;
  {
    Error const original{Errc::exhausted, std::string(200, 'x')};
    copy = original;
  }
  CHECK(copy == Errc::exhausted);
  CHECK(copy.message() == std::string(200, 'x'));
}

TEST_CASE("what is flushed along with an error is flushed along with its cause", "[base]") {
  Error const cause{Errc::work_failed, "no answer"};
  auto const error = Error{Errc::peer_lost, "the peer is gone"}.with_cause(cause);

  base::ErrorAccess::count_flushed(error, 2);

  CHECK(error.flushed_along() == 2);
  REQUIRE(error.cause() != nullptr);
  CHECK(error.cause()->flushed_along() == 2);
  CHECK(cause.flushed_along() == 2);
}

TEST_CASE("a message repeats no control characters of users, environment or peers", "[base]") {
  std::string const hostile{"a\x1b[2J\r\n\0\x7f \xc3\xbc", 12};

  CHECK(Error{Errc::denied, hostile}.message() == "a?[2J???? \xc3\xbc");
  CHECK(Error::from_errno(hostile, 0).message() == "a?[2J???? \xc3\xbc failed");
  CHECK(contains(Error{Errc::denied, hostile}.describe(), "a?[2J????"));
}

}  // namespace
}  // namespace lend
