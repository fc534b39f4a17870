// SPDX-License-Identifier: MIT OR Apache-2.0
// Notes to the linker.
#pragma once

#include <lend/base/language.hpp>

// This name is part of the library's interface. All others stay inside.
#define LEND_EXPORT [[gnu::visibility("default")]]

// Under _GLIBCXX_DEBUG std::vector and others have another layout. What has Error in its signature
// has another name then, so that a program and a library that differ in it do not link.
// Source: libstdc++ manual, debug mode; GCC manual, attribute abi_tag.
#ifdef _GLIBCXX_DEBUG
#define LEND_ABI_TAG [[gnu::abi_tag("glibcxx_debug")]]
#else
#define LEND_ABI_TAG
#endif
