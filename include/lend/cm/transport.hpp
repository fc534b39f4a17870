// SPDX-License-Identifier: MIT OR Apache-2.0
// Connects transports by rdma_cm, one call on each side, as transport/connect.hpp does by TCP. One
// thread at a time.
#pragma once

#include <lend/base/deadline.hpp>
#include <lend/base/export.hpp>
#include <lend/base/result.hpp>
#include <lend/cm/connecting.hpp>
#include <lend/cm/listener.hpp>
#include <lend/transport/any.hpp>
#include <lend/transport/transport.hpp>
#include <lend/verbs/protection_domain.hpp>

#include <string_view>

namespace lend {

/// Waits for one peer, which calls cm_connect_transport(). Both sides can send when this returns,
/// and each finds receives. A peer that makes no transport, or another kind, is rejected with the
/// reason, and the listener is as before.
///
/// Errors:  those of CmListener::next(), CmRequest::accept(), prepare() and adopt() of the kind,
///          and incompatible_peer  the peer makes no transport, or another kind.
[[nodiscard]] LEND_EXPORT Result<AnyTransport> cm_accept_transport(CmListener& listener,
                                                                   ProtectionDomain const& domain,
                                                                   TransportOptions const& options,
                                                                   Deadline deadline);

/// Connects to the peer that waits in cm_accept_transport() at `address`; retries until the
/// deadline.
///
/// Errors:  those of cm_connect(), and prepare() and adopt() of the kind, and
///          invalid_argument  cm.private_data is not empty: it is the terms of the transport.
[[nodiscard]] LEND_EXPORT Result<AnyTransport> cm_connect_transport(std::string_view address,
                                                                    ProtectionDomain const& domain,
                                                                    TransportOptions const& options,
                                                                    Deadline deadline,
                                                                    CmOptions cm = {});

}  // namespace lend
