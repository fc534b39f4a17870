// SPDX-License-Identifier: MIT OR Apache-2.0
// A list whose nodes are members of what they list, so that it allocates nothing. One thread at a
// time.
#pragma once

#include <utility>

namespace lend::channel {

/// A place of its owner in one list at most. Its destructor leaves the list.
template <class T>
class LinkedNode {
 public:
  explicit LinkedNode(T* owner) noexcept : owner_{owner} {}
  LinkedNode(LinkedNode const&) = delete;
  LinkedNode& operator=(LinkedNode const&) = delete;
  ~LinkedNode() { leave(); }

  [[nodiscard]] bool is_listed() const noexcept { return after_ != this; }
  void leave() noexcept {
    before_->after_ = after_;
    after_->before_ = before_;
    before_ = after_ = this;
  }

 private:
  template <class>
  friend class LinkedList;
  T* owner_;
  LinkedNode* before_ = this;
  LinkedNode* after_ = this;
};

template <class T>
class LinkedList {
 public:
  [[nodiscard]] bool is_empty() const noexcept { return !head_.is_listed(); }
  /// A node that is listed stays where it is.
  void append(LinkedNode<T>& node) noexcept {
    if (node.is_listed()) return;
    node.before_ = std::exchange(head_.before_, &node);
    node.after_ = &head_;
    node.before_->after_ = &node;
  }
  /// The first one, which leaves; null if there is none.
  [[nodiscard]] T* take_first() noexcept {
    LinkedNode<T>& first = *head_.after_;
    T* const owner = first.owner_;
    if (owner != nullptr) first.leave();
    return owner;
  }
  /// Visits those listed at the begin; each may leave the list in its own visit.
  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    LinkedNode<T>* const last = head_.before_;
    LinkedNode<T>* node = &head_;
    for (LinkedNode<T>* next = head_.after_; node != last && next != &head_;) {
      node = next;
      next = node->after_;
      visit(*node->owner_);
    }
  }

 private:
  LinkedNode<T> head_{nullptr};
};

}  // namespace lend::channel
