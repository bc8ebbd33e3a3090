# SPDX-License-Identifier: MIT
"""Plots as SVG, from the figures of `run`: bars of where the time goes, and curves of cost
or rate against size or ranks. No library: the text is written here."""

import math
from html import escape

COLOURS = {"track": "#4c78a8", "pack": "#9ecae9", "send": "#f58518", "poll": "#e45756", "idle": "#bab0ac",
           "terminate": "#b279a2", "other": "#dddddd"}
LINES = ("#4c78a8", "#e45756", "#54a24b", "#b279a2", "#f58518", "#72b7b2", "#9d755d", "#8c8c8c")
WIDTH = 720
STYLE = ("<style>.ground { fill: #ffffff } text { fill: #1b2330 } line { stroke: #dddddd } "
         "@media (prefers-color-scheme: dark) { .ground { fill: #12161c } text { fill: #e6eaf0 } "
         "line { stroke: #39424e } }</style>")


def text(x, y, words, anchor="start", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(str(words))}</text>'


def short(number):
    """4194304 -> 4M"""
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if number >= unit and number % unit == 0:
            return f"{number // unit:g}{letter}"
    return f"{number:g}"


def decimal(number):
    """1000000 -> 1M"""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def page(height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif">\n'
            f'{STYLE}\n<rect class="ground" width="{WIDTH}" height="{height}"/>\n' + "\n".join(parts) + "\n</svg>\n")


def bars(figures):
    """A bar of native and a bar of shim a case, as long as its time against the native one."""
    parts = [text(10, 20, "Time of a run by phase, native = 1 (medians)", size=14)]
    for i, (name, colour) in enumerate(COLOURS.items()):
        parts.append(f'<rect x="{10 + 95 * i}" y="30" width="12" height="12" fill="{colour}"/>')
        parts.append(text(26 + 95 * i, 41, name))
    y = 60
    longest = max([1.0] + [f["shim"]["seconds"]["median"] / f["native"]["seconds"]["median"] for f in figures])
    for figure in figures:
        parts.append(text(10, y + 20, f"{figure['name']} ({figure['ranks']} ranks)"))
        native = figure["native"]["seconds"]["median"]
        for row, which in enumerate(("native", "shim")):
            x = 250.0
            length = (WIDTH - 330) / longest * figure[which]["seconds"]["median"] / native
            phases = figure[which]["phases"]
            for name, colour in COLOURS.items():
                part = length * phases[name] / max(sum(phases.values()), 1e-9)
                parts.append(f'<rect x="{x:.1f}" y="{y + 15 * row}" width="{part:.1f}" height="13" fill="{colour}"/>')
                x += part
            parts.append(text(x + 4, y + 15 * row + 11, f"{which} {figure[which]['seconds']['median']:.3g} s", size=10))
        y += 42
    return page(y + 10, parts)


def curves(title, x_name, y_name, series):
    """series: {name: [(x, y)]}; both axes logarithmic."""
    left, right, top, bottom = 70, WIDTH - 160, 40, 360
    points = [p for line in series.values() for p in line if p[0] > 0 and p[1] > 0]
    if not points:
        return None
    ends = []
    for axis in (0, 1):
        low, high = min(p[axis] for p in points), max(p[axis] for p in points)
        ends.append((math.log10(low), math.log10(high) if high > low else math.log10(low) + 1))
    (x0, x1), (y0, y1) = ends[0], (math.floor(ends[1][0]), math.ceil(ends[1][1] + 1e-9))

    def place(x, y):
        return (left + (math.log10(x) - x0) / (x1 - x0) * (right - left),
                bottom - (math.log10(y) - y0) / (y1 - y0) * (bottom - top))

    parts = [text(10, 20, title, size=14), text((left + right) / 2, bottom + 40, x_name, "middle"),
             text(10, top - 6, y_name)]
    for decade in range(y0, y1 + 1):
        _, y = place(10 ** x0, 10.0 ** decade)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(text(left - 6, y + 4, decimal(10.0 ** decade), "end", 10))
    for x in sorted({p[0] for p in points}):
        at, _ = place(x, 10.0 ** y0)
        parts.append(text(at, bottom + 16, short(x), "middle", 9))
    for i, (name, line) in enumerate(series.items()):
        colour = LINES[i % len(LINES)]
        spots = [place(*p) for p in sorted(line) if p[0] > 0 and p[1] > 0]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="'
                     + " ".join(f"{x:.1f},{y:.1f}" for x, y in spots) + '"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
        parts.append(text(right + 32, top + 18 * i + 10, name))
        parts.append(f'<rect x="{right + 16}" y="{top + 18 * i}" width="10" height="10" fill="{colour}"/>')
    return page(bottom + 60, parts)


def split_name(name):
    """(kind, number) of names as `latency 64` and `weak-2`"""
    kind, _, number = name.replace("-", " ").rpartition(" ")
    return (kind, float(number)) if kind and number.isdigit() else (name, 0.0)


def write_all(folder, figures, suite_cases):
    """Writes what there is to draw; the paths."""
    drawn = {}
    timed = [c for c in suite_cases if any(c["native"]["phases"].values())]
    scaling = [c for c in timed if split_name(c["name"])[0] in ("weak", "strong", "scaled", "ranks")]
    whole = [c for c in timed if c not in scaling]
    if whole:
        drawn["phases"] = bars(whole)
    if scaling:
        series = {}
        for case in scaling:
            kind, ranks = split_name(case["name"])
            for which in ("native", "shim"):
                series.setdefault(f"{kind}, {which}", []).append((ranks, case[which]["seconds"]["median"]))
        drawn["scaling"] = curves("Time against ranks", "ranks", "s", series)
    figures = figures + [cost for case in suite_cases for cost in case["costs"]]
    for kind in ("posted", "reversed", "unexpected", "test", "neighbours"):
        series = {}
        for figure in figures:
            name, count = split_name(figure["name"])
            if name == kind and count:
                for which in ("native", "shim"):
                    series.setdefault(which, []).append((count, figure[which]))
        if len(series.get("shim", ())) > 1:
            drawn["growth-" + kind] = curves(f"{kind}: cost against count", "count", "ns", series)
    for kind, unit in (("latency", "ns"), ("fresh_latency", "ns"), ("rate", "M/s"), ("fresh_rate", "M/s"),
                       ("bidir", "M/s")):
        series = {}
        for figure in figures:
            name, size = split_name(figure["name"])
            if name == kind:
                for which in ("native", "shim", "bare"):
                    if which in figure:
                        series.setdefault(which, []).append((size, figure[which]))
        if series:
            drawn[kind] = curves(f"{kind} against size", "bytes", unit, series)
    paths = []
    for name, svg in drawn.items():
        if svg:
            paths.append(folder / f"{name}.svg")
            paths[-1].write_text(svg, encoding="utf-8")
    return paths
