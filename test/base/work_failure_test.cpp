// SPDX-License-Identifier: MIT OR Apache-2.0
// Every status, operation, class and state has a name; every status a class and a remedy.
#include "support/catch.hpp"

#include <lend/base/work_failure.hpp>

#include <set>
#include <string>

namespace lend {
namespace {

constexpr int last_status = static_cast<int>(WorkStatus::tag_matching);
constexpr Operation operations[] = {Operation::send, Operation::receive, Operation::write,
                                    Operation::read};

TEST_CASE("every status has its own name and a remedy for every operation", "[base]") {
  std::set<std::string> names;
  for (int value = 0; value <= last_status; ++value) {
    auto const status = static_cast<WorkStatus>(value);
    names.emplace(name_of(status));
    for (auto const operation : operations) {
      auto const remedy = remedy_for(status, operation);
      INFO(name_of(status) << " of a " << name_of(operation) << ": " << remedy);
      REQUIRE(!remedy.empty());
      CHECK(remedy.back() == '.');
      CHECK(remedy.find('\n') == std::string_view::npos);
      CHECK(remedy.find("does not know") == std::string_view::npos);
    }
  }
  CHECK(names.size() == last_status + 1);
  CHECK(names.count("unknown") == 0);
}

TEST_CASE("numbers from a newer device are unknown, not a crash", "[base]") {
  auto const newer = static_cast<WorkStatus>(last_status + 1);
  CHECK(name_of(newer) == "unknown");
  CHECK(class_of(newer) == FailureClass::device);
  CHECK_THAT(std::string{remedy_for(newer, Operation::send)}, Catch::Contains("does not know"));
  CHECK(name_of(static_cast<Operation>(200)) == "unknown");
  CHECK(name_of(static_cast<FailureClass>(200)) == "unknown");
  CHECK(name_of(static_cast<QueuePairState>(200)) == "unknown");
}

TEST_CASE("a status points at the side that can mend it", "[base]") {
  CHECK(class_of(WorkStatus::local_length) == FailureClass::local_programming);
  CHECK(class_of(WorkStatus::local_protection) == FailureClass::local_programming);
  CHECK(class_of(WorkStatus::local_queue_pair_operation) == FailureClass::local_programming);
  CHECK(class_of(WorkStatus::remote_access) == FailureClass::remote);
  CHECK(class_of(WorkStatus::remote_invalid_request) == FailureClass::remote);
  CHECK(class_of(WorkStatus::remote_operation) == FailureClass::remote);
  CHECK(class_of(WorkStatus::retry_exceeded) == FailureClass::delivery);
  CHECK(class_of(WorkStatus::receiver_not_ready_exceeded) == FailureClass::delivery);
  CHECK(class_of(WorkStatus::response_timeout) == FailureClass::delivery);
  CHECK(class_of(WorkStatus::flushed) == FailureClass::flushed);
  CHECK(class_of(WorkStatus::fatal) == FailureClass::device);
  CHECK(class_of(WorkStatus::general) == FailureClass::device);
}

TEST_CASE("the remedy speaks of the side the operation was on", "[base]") {
  auto const remedy = [](WorkStatus status, Operation operation) {
    return std::string{remedy_for(status, operation)};
  };
  CHECK_THAT(remedy(WorkStatus::local_length, Operation::receive), Catch::Contains("receives"));
  CHECK_THAT(remedy(WorkStatus::local_length, Operation::send), Catch::Contains("split"));
  CHECK_THAT(remedy(WorkStatus::local_protection, Operation::read), Catch::Contains("written"));
  CHECK(remedy(WorkStatus::local_protection, Operation::send).find("written") == std::string::npos);
  CHECK_THAT(remedy(WorkStatus::remote_invalid_request, Operation::send),
             Catch::Contains("longer than the receive"));
}

TEST_CASE("operations, classes and states have their own names", "[base]") {
  std::set<std::string> names;
  for (auto const operation : operations) names.emplace(name_of(operation));
  CHECK(names == std::set<std::string>{"send", "receive", "write", "read"});
  names.clear();
  for (int value = 0; value <= static_cast<int>(FailureClass::device); ++value)
    names.emplace(name_of(static_cast<FailureClass>(value)));
  CHECK(names ==
        std::set<std::string>{"local_programming", "remote", "delivery", "flushed", "device"});
  names.clear();
  for (int value = 0; value <= static_cast<int>(QueuePairState::unknown); ++value)
    names.emplace(name_of(static_cast<QueuePairState>(value)));
  CHECK(names.size() == 8);
}

}  // namespace
}  // namespace lend
