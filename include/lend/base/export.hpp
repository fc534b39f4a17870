// SPDX-License-Identifier: MIT OR Apache-2.0
// A note to the linker: this name is part of the library's interface. All others stay inside.
#pragma once

#define LEND_EXPORT [[gnu::visibility("default")]]
