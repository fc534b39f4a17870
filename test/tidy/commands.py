# SPDX-License-Identifier: MIT OR Apache-2.0
"""The commands that pages name, in blocks of sh and in the text: their syntax is the shell's, and what
they name of lend, lend-run and Meson is there."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SH = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
MESON_OPTION = re.compile(r"(?<!\S)-D([a-z]\w*)(?!\w|:)")
OF_MESON = {"werror", "cpp_args", "default_library", "b_sanitize", "b_lundef", "b_ndebug", "buildtype",
            "prefix", "unity"}


def read(pattern):
    return "".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(pattern)))


OF_BOTH = read("lib/command/command_line.cpp")
USAGE = read("lib/tools/command_line.cpp") + read("lib/tools/bench/options.cpp") + OF_BOTH
LEND = {"words": set(re.findall(r"\blend ([a-z]+)", USAGE)), "options": set(OPTION.findall(USAGE))}
LEND_RUN = {"options": set(OPTION.findall(read("lib/run/options.cpp") + OF_BOTH))}
MESON = OF_MESON | set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), re.M))


def check_command(words):
    """Yields what `words` name that is not there; they are a command."""
    said = words.split(" -- ")[0]
    if found := re.match(r"(?:\w+=\S* |srun )*lend ([a-z]+)", said):
        known = LEND
        if found[1] not in known["words"]:
            yield f"names `lend {found[1]}`, which is no command"
    elif re.match(r"(?:\w+=\S* )*lend-run ", said):
        known = LEND_RUN
    else:
        known = None
    for option in OPTION.findall(said) if known else ():
        if option not in known["options"]:
            yield f"names {option} in `{said}`, which is no option there"
    for option in MESON_OPTION.findall(words):
        if option not in MESON:
            yield f"names -D{option}, which is no option of Meson's here"


def check_commands(page, text):
    """Yields what is wrong with the commands of `text` at `page`."""
    for block in SH.findall(text):
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            yield f"has a block that no shell takes: {done.stderr.strip()}"
        for line in block.split("\n"):
            for words in re.split(r" && | & |; ", line.split(" #")[0]):
                yield from check_command(words.strip())
    if page.startswith("test/"):  # whose spans name rows of tables, too
        return
    for span in SPAN.findall(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        yield from check_command(re.sub(r"\s+", " ", span).strip())
