# SPDX-License-Identifier: MIT OR Apache-2.0
"""Words that came back and that an HPC engineer had to decipher, with what to say instead.
CONTRIBUTING.md has the rules behind them."""
import re

# Each matches a whole word.
WORDS = {
    r"stor(?:y|ies)": "an error, its text, what happened",
    r"is told|are told|was told|tells? of": "learns, reports, the error says",
    r"strangers?": "another client, an unknown peer",
    r"verdicts?": "result, status",
    r"whom?ever|whom": "the peer, the caller, the thread that",
    r"nobody": "no peer, no thread, no process",
    r"be it": "even if, whether",
    r"in vain": "without success, empty (polls)",
    r"gets? at": "reaches, accesses",
    r"sees? to": "ensures",
    r"turn(?:s|ed|ing)? away": "reject",
    r"at the door": "when it is posted",
    r"on order": "planned, injected",
    r"of before": "previous",
    r"anew": "again, new",
    r"without end": "unlimited, forever",
    r"past (?:life|lives)|last (?:life|lives)": "previous connection",
}
PLACES = re.compile(r"[\w/.-]+\.md$|examples/|include/|lib/")


def check_words(path, text):
    """Yields the words in `text` at `path` that CONTRIBUTING.md asks not to use."""
    if not PLACES.match(path):
        return
    if path.endswith(".md"):  # not printed output, code or the names of tests
        text = re.sub(r"^```.*?^```$|`[^`\n]*`|\"[^\"]*\"", blank, text, flags=re.M | re.S)
    for word, instead in WORDS.items():
        for found in re.finditer(rf"\b(?:{word})\b", text, re.I):
            line = text.count("\n", 0, found.start()) + 1
            yield f"line {line} says `{found[0]}`: rather {instead}"


def blank(found):
    """As many lines, without their words."""
    return "\n" * found[0].count("\n")
