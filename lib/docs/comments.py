# SPDX-License-Identifier: MIT OR Apache-2.0
"""The comments of a header as Doxygen reads them: it would join the lines of a table into one
paragraph."""
import re

# What a header says to the standard library, which is no part of the reference.
OF_STD = re.compile(r"(?:^///.*\n)*^template <.*>\n(?:struct|inline constexpr bool) std::.*;\n", re.M)
COMMENT = re.compile(r"(?:^ *///(?!<).*\n)+", re.M)
# "Errors:  text", whose further lines begin in the column of the text, or to the right of it.
LABEL = re.compile(r"(Borrows|Errors|Leaves|Shape|Source|Threads|Units): +(?=\S)")
CODES = re.compile(r"((?:[a-z]\w*, )*[a-z]\w*)(?:  +(\S.*)|$)")  # "codes  what they mean"


def rows(lines):
    """The rows of a table of errors as a list, and prose before it. Prose behind it is an item."""
    out = []
    for line in lines:
        row = CODES.match(line)
        if row and (row[2] or "_" in row[1]):
            codes = ", ".join(f"`{code}`" for code in row[1].split(", "))
            out.append(f"- {codes}: {row[2] or ''}".rstrip())
        elif not out:
            out.append(line)
        elif out[-1].startswith("- ") and out[-1].endswith(".") and not line.startswith(" "):
            out.append("- " + re.sub("  +", ": ", line, count=1))
        else:
            out[-1] += " " + line.strip()
    return out


def labelled(name, lines):
    """The paragraph of a label."""
    text = rows(lines) if name == "Errors" else [" ".join(line.strip() for line in lines)]
    return ["", f"@par {name}", *text, ""]


def is_code(lines):
    """Not a table, nor what is no C++."""
    ends = [line.split(" //")[0].rstrip()[-1:] for line in lines]
    return bool({";", "{"} & set(ends)) or ends == [")"]


def block(lines):
    """What is set in: a list, or code or a table, which stay as they are."""
    margin = min(len(line) - len(line.lstrip()) for line in lines if line)
    lines = [line[margin:] for line in lines]
    if lines[0].startswith("- "):
        return lines
    if not is_code(lines):
        return ["", "@verbatim", *lines, "@endverbatim", ""]
    lines = [f"   {line}".rstrip() for line in lines]
    return ["", "@verbatim embed:rst", ".. code-block:: cpp", "   :force:", "", *lines, "@endverbatim", ""]


def rewritten(lines):
    """The lines of a comment, without their slashes, for Doxygen."""
    out, at = [], 0
    while at < len(lines):
        line, end = lines[at], at + 1
        label = LABEL.match(line)
        margin = " " * (len(label[0]) if label else 2)
        if label or line.startswith(margin):
            while end < len(lines) and lines[end].startswith(margin):
                end += 1
        if label:
            own = [line[len(margin):], *(one[len(margin):] for one in lines[at + 1:end])]
            out += labelled(label[1], own)
        elif end > at + 1 or line.startswith(margin):
            out += block(lines[at:end])
        else:
            out.append(line)
        at = end
    return out


def for_doxygen(header):
    """The text of a header with other comments."""
    def changed(found):
        lines = [re.sub(r"^ */// ?", "", line) for line in found[0].splitlines()]
        return "\n".join(["/**", *rewritten(lines), "*/\n"])  # in which @verbatim has no slashes

    return COMMENT.sub(changed, OF_STD.sub("", header))
