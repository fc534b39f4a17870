#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draws what against_peers.py measured: plot.py FIGURES.json PICTURE.svg [apart|near]

The figures of the CPUs with a core each, or those of threads of one core.

Four panels, latency and throughput of messages and of writes, over the size. Dashed: lend in memory
that the program registered; UCX is in such memory, too. Logarithmic axes. An SVG by hand, with nothing
but the standard library, which follows the reader's choice of light or dark.
"""
import json
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 640
PANEL_WIDTH, PANEL_HEIGHT = 330, 210
LEFT, TOP, GAP_X, GAP_Y = 70, 60, 110, 90
COLOURS = {"lend, scoped": "#c2410c", "lend, own memory": "#b45309", "lend, batches": "#a16207",
           "soft device, raw verbs": "#fb923c", "UCX, UCP": "#2563eb", "UCX, UCT": "#60a5fa",
           "libfabric shm, mean": "#16a34a", "TCP loopback": "#6b7280"}
STYLE = """<style>
svg { fill: #111827 } .paper { fill: #ffffff } .grid { stroke: #d1d5db }
@media (prefers-color-scheme: dark) {
svg { fill: #e5e7eb } .paper { fill: #111827 } .grid { stroke: #374151 }
}
</style>"""
DASHED = {"lend, own memory"}
LEND = {"lend, scoped": "scoped", "lend, own memory": "own", "soft device, raw verbs": "raw"}
STREAMS = {**LEND, "lend, batches": "batch"}
OF_MESSAGES = {"UCX, UCP": "ucp_tag", "TCP loopback": "tcp"}
OF_WRITES = {"UCX, UCP": "ucp_put", "UCX, UCT": "uct_put"}


def lines_of(operation, ways, peers):
    """The figure that each line of a panel has."""
    return {**{name: f"{operation}_{way}" for name, way in ways.items()}, **peers}


# title, kind, lines
PANELS = (
    ("messages: half a round trip, µs", "latency",
     lines_of("send", LEND, {**OF_MESSAGES, "libfabric shm, mean": "fi_shm"})),
    ("writes: half a round trip, µs", "latency", lines_of("write", LEND, OF_WRITES)),
    ("messages: stream, GB/s", "rate", lines_of("send", STREAMS, OF_MESSAGES)),
    ("writes: stream, GB/s", "rate", lines_of("write", STREAMS, OF_WRITES)),
)


def named(size):
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def text(x, y, words, anchor="middle", size=12, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'font-weight="{weight}">{escape(words)}</text>')


class Axis:
    """Logarithmic, from the decade below the least to the one above the most."""

    def __init__(self, values, start, end):
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values))), self.low + 1)
        self.start, self.end = start, end

    def at(self, value):
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def decades(self):
        return [10.0 ** exponent for exponent in range(self.low, self.high + 1)]


def panel(left, top, title, kind, lines, rows):
    rows = sorted((row for row in rows if row["kind"] == kind), key=lambda row: row["bytes"])

    def value(row, figure):
        return row[figure] * (1 if kind == "latency" else row["bytes"] * 1e-9)

    sizes = [row["bytes"] for row in rows]
    vertical = Axis([value(row, figure) for row in rows for figure in lines.values()],
                    top + PANEL_HEIGHT, top)
    span = math.log2(sizes[-1] / sizes[0]) or 1
    across = {size: left + math.log2(size / sizes[0]) / span * PANEL_WIDTH for size in sizes}
    drawn = [text(left + PANEL_WIDTH / 2, top - 12, title, size=13, weight="bold")]
    for decade in vertical.decades():
        y = vertical.at(decade)
        drawn.append(f'<line x1="{left}" x2="{left + PANEL_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" '
                     'class="grid"/>')
        drawn.append(text(left - 6, y + 4, f"{decade:g}", "end"))
    for size, x in across.items():
        drawn.append(text(x, top + PANEL_HEIGHT + 18, named(size)))
    for name, figure in lines.items():
        points = [(across[row["bytes"]], vertical.at(value(row, figure))) for row in rows]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="6 4"' if name in DASHED else ""
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" '
                     f'stroke-width="2"{dashes}/>')
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[name]}"/>' for x, y in points]
    return drawn


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    state = sys.argv[3] if len(sys.argv) == 4 else "apart"
    rows = [row for row in rows if row["state"] == state]
    if {row["kind"] for row in rows} != {"latency", "rate"}:
        sys.exit(f"plot.py: there are no figures of latency and rate in state {state}")
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif">', STYLE,
             f'<rect width="{WIDTH}" height="{HEIGHT}" class="paper"/>']
    for i, (title, kind, lines) in enumerate(PANELS):
        left = LEFT + i % 2 * (PANEL_WIDTH + GAP_X)
        top = TOP + i // 2 * (PANEL_HEIGHT + GAP_Y)
        drawn += panel(left, top, title, kind, lines, rows)
    x = LEFT // 2
    for name, colour in COLOURS.items():
        drawn.append(f'<circle cx="{x}" cy="{HEIGHT - 19}" r="5" fill="{colour}"/>')
        drawn.append(text(x + 9, HEIGHT - 15, name, "start", 11))
        x += 24 + round(5.9 * len(name))
    drawn.append("</svg>")
    Path(sys.argv[2]).write_text("\n".join(drawn) + "\n")


main()
