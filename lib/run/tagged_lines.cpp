// SPDX-License-Identifier: MIT OR Apache-2.0
// A line is passed on when it is complete, or when the rank seems to have written a part of it on
// purpose.
#include <run/tagged_lines.hpp>

#include <chrono>

namespace lend::run {

namespace {

// A longer line is passed on in parts.
constexpr std::size_t line_max = 65'536;
// Until then the rest of a line may come.
constexpr std::chrono::milliseconds rest_comes_within{50};
// stdio writes so many bytes to a pipe when its buffer is full, in the middle of a line. Source:
// glibc libio/filedoalloc.c, st_blksize; Linux fs/pipe.c. Those of other libraries are multiples.
constexpr std::size_t stdio_block = 4'096;

}  // namespace

void TaggedLines::add(std::string_view bytes) {
  since_part_ += bytes.size();
  auto const lines = bytes.rfind('\n') + 1;  // npos + 1 is 0
  if (lines != 0) {
    show(line_.append(bytes.substr(0, lines)));
    line_.clear();
    bytes.remove_prefix(lines);
  }
  if (line_.empty()) shows_at_ = within(rest_comes_within);
  line_ += bytes;
  if (line_.size() > line_max) show(std::exchange(line_, {}));
}

Deadline TaggedLines::shows_at() const noexcept {
  bool const is_cut_by_buffer = since_part_ % stdio_block == 0;
  return line_.empty() || is_cut_by_buffer ? Deadline::never() : shows_at_;
}

void TaggedLines::show_part() {
  if (!shows_at().has_passed()) return;
  show(std::exchange(line_, {}));
  since_part_ = 0;
}

void TaggedLines::end() {
  show(std::exchange(line_, {}));
  if (output_->has_open_line_of(writer_)) output_->add(writer_, "\n");
}

/// After a carriage return the tag is written again, because it was written over.
void TaggedLines::show(std::string_view text) {
  if (!output_->has_open_line_of(writer_)) at_ = At::start;
  std::string out;
  while (!text.empty()) {
    auto const length = std::min(text.find_first_of("\r\n"), text.size());
    bool const is_empty_line = at_ == At::start && text.front() == '\n';
    if (length > 0 || is_empty_line) {
      if (at_ != At::inside) out += tag_;
      at_ = At::inside;
    }
    out += text.substr(0, length);
    text.remove_prefix(length);
    if (text.empty()) break;
    out += text.front();
    if (text.front() == '\n')
      at_ = At::start;
    else if (at_ == At::inside)
      at_ = At::returned;
    text.remove_prefix(1);
  }
  output_->add(writer_, out);
}

}  // namespace lend::run
