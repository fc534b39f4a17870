// SPDX-License-Identifier: MIT OR Apache-2.0
// N processes fit a function to samples by gradient descent: each has every N-th sample, and an
// allreduce adds up what they find. When one is killed, it is started again, and all go on from the
// last step that every one of the others had finished:
//
//   lend-run -n 4 --restarts 3 sgd 20000
#include <lend/group.hpp>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <string_view>

#include <unistd.h>

using namespace std::chrono_literals;

namespace {

using Weights = std::array<double, 4>;  // of a polynomial
constexpr int samples = 64;

/// What the ranks have in common after a step. A lost one gets it from another rank.
struct Model {
  std::uint64_t step = 0;
  Weights weights{};
};

double value(Weights const& weights, double x) {
  double sum = 0;
  for (std::size_t i = weights.size(); i-- > 0;) sum = sum * x + weights[i];
  return sum;
}

/// Of the rank's samples of a function that is to be found.
Weights gradient(Weights const& weights, lend::Group const& group) {
  constexpr Weights function{0.5, -1, 0.25, 2};
  Weights sum{};
  for (auto i = static_cast<int>(group.rank()); i < samples; i += static_cast<int>(group.size())) {
    double const x = 2.0 * i / samples - 1;
    double power = value(weights, x) - value(function, x);
    for (double& each : sum) {
      each += power / samples;
      power *= x;
    }
  }
  return sum;
}

class Training {
 public:
  /// Until `steps` are done, or a rank is lost.
  lend::Result<void> run(lend::Group& group, std::uint64_t steps) {
    LEND_TRYV(share(group));
    while (now_.step < steps) {
      Weights sum = gradient(now_.weights, group);
      LEND_TRYV(group.allreduce(lend::sum<double>, sum, lend::within(60s)));
      before_ = now_;
      ++now_.step;
      for (std::size_t i = 0; i < sum.size(); ++i) now_.weights[i] -= 0.1 * sum[i];
      if (now_.step % (steps / 10 + 1) == 0)
        std::cout << "step " << now_.step << ", process " << ::getpid() << std::endl;
    }
    return group.barrier(lend::within(60s));
  }
  /// The last step was not finished by every rank that is left.
  void go_back() { now_ = before_; }
  [[nodiscard]] Model const& model() const { return now_; }

 private:
  /// A rank that was started again learns the model from one that has it.
  lend::Result<void> share(lend::Group& group) {
    auto const mine = is_new_ && group.generation() > 1 ? group.size() : group.rank();
    LEND_TRY(from, group.allreduce(lend::min<std::uint32_t>, mine, lend::within(60s)));
    if (from == group.size())
      return lend::Error{lend::Errc::not_found, "no rank is left that has the model"};
    Model shared = now_;
    LEND_TRYV(group.broadcast(from, std::span{&shared, 1}, lend::within(60s)));
    if (is_new_) now_ = shared;
    if (now_.step != shared.step)
      return lend::Error{lend::Errc::disagreement, "the ranks that are left are at other steps"};
    before_ = now_;
    is_new_ = false;
    return lend::success();
  }

  Model now_{}, before_{};
  bool is_new_ = true;
};

lend::Result<void> run(std::uint64_t steps) {
  LEND_TRY(seat, lend::Seat::from_environment());
  LEND_TRY(context, lend::open_device());
  LEND_TRY(domain, context.allocate_protection_domain());
  lend::GroupOptions options;
  options.keep_alive = 50ms;
  Training training;
  LEND_TRY(group, lend::Group::join(domain, seat, lend::within(30s), options));
  for (;;) {
    auto const done = training.run(group, steps);
    if (done) break;
    if (group.first_cause() == nullptr) return done.error();
    std::cout << done.error().message() << std::endl;
    auto const finished = group.finished();
    LEND_TRY(next, group.rejoin(seat, lend::within(30s)));
    if (finished > next.finished_by_all()) training.go_back();
    group = std::move(next);
    std::cout << "rejoined, from step " << training.model().step << std::endl;
  }
  std::cout << std::setprecision(17) << "model";
  for (double const weight : training.model().weights) std::cout << ' ' << weight;
  std::cout << std::endl;
  return lend::success();
}

}  // namespace

int main(int count, char* words[]) {
  std::uint64_t steps = 1000;
  std::string_view const word = count == 2 ? words[1] : "1000";
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), steps);
  if (count > 2 || error != std::errc{} || end != word.data() + word.size()) {
    std::cerr << "usage: sgd [STEPS]" << std::endl;
    return 2;
  }
  auto const done = run(steps);
  if (done) return 0;
  std::cerr << done.error().message() << std::endl;
  return 1;
}
