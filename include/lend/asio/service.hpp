// SPDX-License-Identifier: MIT OR Apache-2.0
// What an execution context keeps of lend's streams and set-ups: it ends them when it goes. For the
// headers beside it; any thread.
#pragma once

#include <boost/asio/execution_context.hpp>

#include <memory>
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

class SetUp;

class Service final : public boost::asio::execution_context::service {
 public:
  using key_type = Service;
  inline static boost::asio::execution_context::id id;

  explicit Service(boost::asio::execution_context& context)
      : boost::asio::execution_context::service{context} {}

  void shutdown() noexcept override {
    while (Keeper* const first = take_first()) first->abandon();
  }

  /// One of the context, made by the first call. `make` returns a shared pointer to it.
  template <class Make>
  [[nodiscard]] std::shared_ptr<SetUp> connecting(Make make) {
    std::lock_guard const lock{connecting_mutex_};
    if (connecting_ == nullptr) connecting_ = make();
    return connecting_;
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
    (keeper.previous_ == nullptr ? first_ : keeper.previous_->next_) = keeper.next_;
    if (keeper.next_ != nullptr) keeper.next_->previous_ = keeper.previous_;
    keeper.service_ = nullptr;
  }
  [[nodiscard]] Keeper* take_first() noexcept {
    Keeper* const first = first_;  // no other thread has the context any more
    if (first != nullptr) remove(*first);
    return first;
  }

  std::mutex mutex_{};
  Keeper* first_ = nullptr;
  std::mutex connecting_mutex_{};
  std::shared_ptr<SetUp> connecting_{};
};

Keeper::Keeper(boost::asio::execution_context& context)
    : service_{&boost::asio::use_service<Service>(context)} {
  service_->add(*this);
}

Keeper::~Keeper() {
  if (service_ != nullptr) service_->remove(*this);
}

}  // namespace lend::asio::implementation
