// SPDX-License-Identifier: MIT OR Apache-2.0
// All of lend that a program with channels needs.
#pragma once

#include <lend/base/allocation.hpp>
#include <lend/base/byte_range.hpp>
#include <lend/base/deadline.hpp>
#include <lend/base/error.hpp>
#include <lend/base/result.hpp>
#include <lend/channel/batch.hpp>
#include <lend/channel/builder.hpp>
#include <lend/channel/channel.hpp>
#include <lend/channel/multi_channel.hpp>
#include <lend/channel/multi_scope.hpp>
#include <lend/channel/peer_work.hpp>
#include <lend/channel/pending_work.hpp>
#include <lend/channel/polling_scope.hpp>
#include <lend/channel/receive_pool.hpp>
#include <lend/channel/set_scope.hpp>
#include <lend/channel/wait_many.hpp>
#include <lend/channel/wait_set.hpp>
#include <lend/network/connect.hpp>
#include <lend/open_device.hpp>
#include <lend/verbs/capabilities.hpp>
#include <lend/verbs/completion.hpp>
#include <lend/verbs/context.hpp>
#include <lend/verbs/device.hpp>
#include <lend/verbs/endpoint.hpp>
#include <lend/verbs/exposure.hpp>
#include <lend/verbs/gid.hpp>
#include <lend/verbs/memory_piece.hpp>
#include <lend/verbs/memory_region.hpp>
#include <lend/verbs/protection_domain.hpp>
#include <lend/verbs/receive_queue.hpp>
#include <lend/verbs/remote_region.hpp>
#include <lend/verbs/work_request.hpp>
