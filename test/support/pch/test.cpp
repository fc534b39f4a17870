// SPDX-License-Identifier: MIT OR Apache-2.0
// Nothing of its own: test.hpp is precompiled for this program, with the options of every test.
