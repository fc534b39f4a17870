// SPDX-License-Identifier: MIT OR Apache-2.0
// A group whose ranks are threads of the test, each with a device of its own.
#pragma once

#include <lend/group.hpp>

#include "support/patience.hpp"
#include "support/two_ends.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lend::test {

/// Of a desk that no other test has.
inline std::string desk_name() {
  static std::atomic<int> count{0};
  return "unix:@lend-desk-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

inline bool says(Error const& error, std::string const& words) {
  return error.message().find(words) != std::string::npos;
}

/// Whether so many ranks take too long to connect: by rdma_cm, on an emulated device.
inline bool connects_slowly(std::uint32_t size) {
  return size > 5 && !open_test_device().capabilities().endpoints;
}
/// The same of the other tests, which are skipped there: those that do not ask show how groups do.
inline bool connects_slowly() {
  auto const device = open_test_device();
  if (device.capabilities().endpoints) return false;
  skip(device, "connects by rdma_cm, and few tests do that for groups");
  return true;
}

/// `options` with what the device needs.
inline GroupOptions here(GroupOptions options = {}) {
  options.connector = group_connector();
  return options;
}

/// The error of `call(deadline)`, which times out and is made again, with twice the time, until
/// that says enough: a slow device, or a busy machine, may not read each rank's record in less.
template <class Call, class SaysEnough>
Error error_saying_enough(Call const& call, SaysEnough const& says_enough) {
  std::chrono::milliseconds time{1};
  auto error = error_of(call(within(time)));
  while (!says_enough(error) && time < std::chrono::seconds{10})
    error = error_of(call(within(time *= 2)));
  return error;
}

/// For error_saying_enough().
inline auto barrier_of(Team& team) {
  return [&team](Deadline deadline) { return team.barrier(deadline); };
}

/// As that, once at least `count` ranks of `team` are named as missing.
template <class Call>
Error error_naming(std::size_t count, Team const& team, Call const& call) {
  return error_saying_enough(call, [&](Error const&) { return team.missing().size() >= count; });
}

/// Ranks with these options each that are connected to each other; made and used on one thread or
/// on one each. `devices` and `domains`, if there, get theirs.
inline std::vector<Group> group_of(std::vector<GroupOptions> const& options,
                                   std::vector<Context>* devices = nullptr,
                                   std::vector<ProtectionDomain>* domains = nullptr) {
  auto const size = static_cast<std::uint32_t>(options.size());
  std::vector<PreparedGroup> prepared;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    Context const context = open_test_device();
    if (devices != nullptr) devices->push_back(context);
    ProtectionDomain const domain = must(context.allocate_protection_domain());
    if (domains != nullptr) domains->push_back(domain);
    prepared.push_back(must(PreparedGroup::prepare(domain, rank, size, here(options[rank]))));
  }
  std::vector<std::vector<RankCard>> theirs(size);
  for (std::uint32_t to = 0; to < size; ++to)
    for (std::uint32_t from = 0; from < size; ++from)
      theirs[to].push_back(prepared[from].cards()[to]);
  // Where endpoints do not connect, each waits until all others connect, too.
  std::vector<std::future<Result<Group>>> connecting;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    connecting.push_back(std::async(std::launch::async, [&, rank] {
      return std::move(prepared[rank]).handshake(theirs[rank], within(patience));
    }));
  std::vector<Group> ranks;
  for (auto& each : connecting) ranks.push_back(must(each.get()));
  return ranks;
}

/// `size` ranks with the same options.
inline std::vector<Group> group_of(std::uint32_t size, GroupOptions const& options = {},
                                   std::vector<Context>* devices = nullptr,
                                   std::vector<ProtectionDomain>* domains = nullptr) {
  return group_of(std::vector(size, options), devices, domains);
}

/// Runs `body(group)` on a thread for each rank. The first exception is thrown again here.
inline void on_each(std::vector<Group>& ranks, std::function<void(Group&)> const& body) {
  std::vector<std::exception_ptr> thrown(ranks.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          body(ranks[i]);
        } catch (...) {
          thrown[i] = std::current_exception();
        }
      });
  }
  for (auto const& each : thrown)
    if (each) std::rethrow_exception(each);
}

/// For threads of ranks, in which Catch's assertions may not run: throws what is wrong.
inline void expect(bool is_true, char const* what) {
  if (!is_true) throw std::runtime_error{what};
}
inline void expect(Result<void> const& result) {
  if (!result.has_value()) throw std::runtime_error{result.error().message()};
}

}  // namespace lend::test
