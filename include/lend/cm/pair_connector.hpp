// SPDX-License-Identifier: MIT OR Apache-2.0
// rdma_cm for examinations of two sides. Any thread.
#pragma once

#include <lend/base/export.hpp>
#include <lend/doctor/pair_connector.hpp>

namespace lend {

/// For examine_with() and ExaminationListener::open(), which then try iWARP devices, too. Lives as
/// long as the process.
///
/// Its check() has the errors of CmListener::open() that concern no address, listen() and accept()
/// those of CmListener and CmRequest, connect() those of cm_connect().
[[nodiscard]] LEND_EXPORT PairConnector const& cm_pair_connector() noexcept;

}  // namespace lend
