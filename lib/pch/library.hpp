// SPDX-License-Identifier: MIT OR Apache-2.0
// What most of the library's files include, precompiled: a third of their compile time. Each file
// still includes what it uses, and builds with -Db_pch=false.
#include <lend/base/result.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
