// SPDX-License-Identifier: MIT OR Apache-2.0
// What an execution context keeps of lend's operations: it ends them when it goes. For the
// headers beside it; any thread.
#pragma once

#include <lend/base/language.hpp>

#include <boost/asio/execution_context.hpp>

#include <mutex>
#include <utility>

namespace lend::asio::implementation {

class Service;

/// What keeps operations of a program: a handler that is never called would never be destroyed,
/// where it owns the stream that keeps it.
class Keeper {
 public:
  Keeper(Keeper const&) = delete;
  Keeper& operator=(Keeper const&) = delete;

  /// The context goes: destroys all operations without calling them. Its objects are gone after.
  virtual void abandon() noexcept = 0;

 protected:
  inline explicit Keeper(boost::asio::execution_context& context);
  inline virtual ~Keeper();

 private:
  friend class Service;
  Service* service_;  // null once abandoned
  Keeper* previous_ = nullptr;
  Keeper* next_ = nullptr;
};

class Service final : public boost::asio::execution_context::service {
 public:
  using key_type = Service;
  inline static boost::asio::execution_context::id id;

  explicit Service(boost::asio::execution_context& context)
      : boost::asio::execution_context::service{context} {}

  void shutdown() noexcept override {
    while (Keeper* const first = take_first()) first->abandon();
  }

 private:
  friend class Keeper;
  void add(Keeper& keeper) noexcept {
    std::lock_guard const lock{mutex_};
    keeper.next_ = std::exchange(first_, &keeper);
    if (keeper.next_ != nullptr) keeper.next_->previous_ = &keeper;
  }
  void remove(Keeper& keeper) noexcept {
    std::lock_guard const lock{mutex_};
    unlink(keeper);
  }
  [[nodiscard]] Keeper* take_first() noexcept {
    std::lock_guard const lock{mutex_};
    Keeper* const first = first_;
    if (first != nullptr) unlink(*first);
    return first;
  }
  void unlink(Keeper& keeper) noexcept {
    (keeper.previous_ == nullptr ? first_ : keeper.previous_->next_) = keeper.next_;
    if (keeper.next_ != nullptr) keeper.next_->previous_ = keeper.previous_;
    keeper.service_ = nullptr;
  }

  std::mutex mutex_{};
  Keeper* first_ = nullptr;
};

Keeper::Keeper(boost::asio::execution_context& context)
    : service_{&boost::asio::use_service<Service>(context)} {
  service_->add(*this);
}

Keeper::~Keeper() {
  if (service_ != nullptr) service_->remove(*this);
}

}  // namespace lend::asio::implementation
