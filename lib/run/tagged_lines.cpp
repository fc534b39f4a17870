// SPDX-License-Identifier: MIT OR Apache-2.0
// Whole lines at once, so that those of several ranks do not mix.
#include <run/tagged_lines.hpp>

namespace lend::run {

namespace {

// A longer line is passed on in parts.
constexpr std::size_t line_max = 65'536;

}  // namespace

void TaggedLines::add(std::string_view bytes) {
  std::string out;
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    out += tag_ + line_;
    out += bytes.substr(0, end + 1);
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  line_ += bytes;
  output_->add(out);
  if (line_.size() > line_max) end();
}

void TaggedLines::end() {
  if (!line_.empty()) output_->add(tag_ + line_ + "\n");
  line_.clear();
}

}  // namespace lend::run
