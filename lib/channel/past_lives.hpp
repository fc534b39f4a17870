// SPDX-License-Identifier: MIT OR Apache-2.0
// The endpoints of a channel's lives before prepare_again(). A value; any thread.
#pragma once

#include <lend/verbs/endpoint.hpp>

#include <utility>
#include <vector>

namespace lend {

/// Own endpoint and the peer's, the oldest first.
using PastLives = std::vector<std::pair<Endpoint, Endpoint>>;

}  // namespace lend
