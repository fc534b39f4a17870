// error: no matching (member )?function
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <lend/group.hpp>

#include <string>
#include <vector>

lend::Result<void> rule(lend::Group& group, std::vector<std::string>& texts) {
#ifdef MUST_COMPILE
  return group.broadcast(0, texts.front());
#else
  return group.broadcast(0, texts);
#endif
}
