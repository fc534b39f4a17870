// SPDX-License-Identifier: MIT OR Apache-2.0
// The ways to post, as one. One thread.
#pragma once

#include <lend/channel/batch.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/unsafe.hpp>

#include <optional>
#include <string_view>

namespace lend::tools {

/// Scoped and unsafe posting.
class Poster {
 public:
  Poster(Channel& channel, std::string_view via) : channel_{channel}, unsafe_{via == "unsafe"} {
    if (!unsafe_) scope_.emplace(channel);
  }
  Result<PendingWork> receive(Receive const& work) {
    return unsafe_ ? unsafe_post_receive(channel_, work) : scope_->post_receive(work);
  }
  Result<PendingWork> send(Send const& work) {
    return unsafe_ ? unsafe_post_send(channel_, work) : scope_->post_send(work);
  }
  Result<PendingWork> write(Write const& work) {
    return unsafe_ ? unsafe_post_write(channel_, work) : scope_->post_write(work);
  }
  Result<PendingWork> read(Read const& work) {
    return unsafe_ ? unsafe_post_read(channel_, work) : scope_->post_read(work);
  }
  Result<void> post() { return success(); }  // nothing is kept back
  Result<void> finish() { return unsafe_ ? success() : scope_->finish(); }

 private:
  Channel& channel_;
  bool unsafe_;
  std::optional<PollingScope> scope_{};
};

/// The same by a batch: many requests in one call of the device, few of them with a completion.
class BatchPoster {
 public:
  BatchPoster(Channel& channel, std::string_view /*via*/)
      : scope_{channel}, batch_{scope_.batch()} {}
  Result<PendingWork> receive(Receive const& work) { return batch_.add_receive(work); }
  Result<PendingWork> send(Send const& work) { return batch_.add_send(work); }
  Result<PendingWork> write(Write const& work) { return batch_.add_write(work); }
  Result<PendingWork> read(Read const& work) { return batch_.add_read(work); }
  Result<void> post() { return batch_.post(); }
  Result<void> finish() {
    LEND_TRYV(post());
    return scope_.finish();
  }

 private:
  PollingScope scope_;
  Batch batch_;
};

}  // namespace lend::tools
