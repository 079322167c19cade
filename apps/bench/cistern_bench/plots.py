"""Plots as SVG text: bars side by side, and lines over a scale that may be logarithmic."""
import html
import math

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 260, 64, 40, 12
OURS_COLOURS = ("#1f5fa8", "#3f88d4", "#7db2e8", "#12467f", "#5aa0b8",
                "#2c7f8f", "#9cc7d8", "#184f5c", "#6f8fd0", "#4060a0", "#8090c0")
PEERS_COLOURS = ("#d1495b", "#edae49", "#66a182", "#8d6a9f", "#c97b3d", "#b0413e", "#a0a04a", "#7a5c3e", "#cf7aa8", "#5f5f5f")


def colours(names):
    """One for each name, the same on the whole page. Ours are blue."""
    ours, peers, found = iter(OURS_COLOURS * 9), iter(PEERS_COLOURS * 9), {}
    for name in names:
        found[name] = next(ours if name.startswith("cistern") else peers)
    return found


def text(x, y, content, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(str(content))}</text>'


def nice_steps(low, high, count=5):
    if high <= low:
        return [low]
    raw = (high - low) / count
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, int(high / step + 1e-9) + 1)]


def frame(body, title):
    return (f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{html.escape(title, quote=True)}">' + "".join(body) + "</svg></figure>")


def legend(names, palette):
    return '<p class="legend">' + " ".join(
        f'<span><i style="background:{palette[name]}"></i>{html.escape(name)}</span>' for name in names) + "</p>"


def bars(title, groups, names, values, palette, floor=0.0, digits=3):
    """A bar for each name in each group; values[group, name], missing ones are left out. Beyond the top a bar is cut and
    says its value."""
    known = sorted(value for value in values.values() if value is not None)
    if not known:
        return ""
    top = max(floor * 1.02, min(known[-1], 2.5 * known[len(known) // 2]) * 1.02)
    scale = (HEIGHT - BOTTOM - TOP) / (top - floor)
    body = []
    for step in nice_steps(floor, top):
        y = HEIGHT - BOTTOM - (step - floor) * scale
        body.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH}"/>' + text(LEFT - 6, y + 4, f"{step:g}", "end"))
    group_width = (WIDTH - LEFT) / len(groups)
    bar_width = group_width * 0.86 / len(names)
    for index, group in enumerate(groups):
        body.append(text(LEFT + (index + 0.5) * group_width, HEIGHT - BOTTOM + 16, group))
        for number, name in enumerate(names):
            value = values.get((group, name))
            if value is None:
                continue
            height = max(0.5, (min(value, top) - floor) * scale)
            x = LEFT + index * group_width + group_width * 0.07 + number * bar_width
            body.append(f'<rect x="{x:.1f}" y="{HEIGHT - BOTTOM - height:.1f}" width="{max(bar_width - 0.6, 0.6):.1f}" '
                        f'height="{height:.1f}" fill="{palette[name]}"><title>{html.escape(f"{name}, {group}: {value:.{digits}f}")}'
                        "</title></rect>")
    return frame(body, title)


def lines(title, series, palette, x_label, y_label, logarithmic=False):
    """series: name -> [(x, y)]; one without a colour is dashed."""
    points = [point for found in series.values() for point in found if not logarithmic or min(point) > 0]
    if not points:
        return ""
    of = math.log10 if logarithmic else float
    low_x, high_x = min(of(x) for x, _ in points), max(of(x) for x, _ in points)
    low_y = math.floor(min(of(y) for _, y in points)) if logarithmic else 0.0
    high_y = math.ceil(max(of(y) for _, y in points)) if logarithmic else max(y for _, y in points) * 1.05
    wide, high = (WIDTH - LEFT - 24) / max(high_x - low_x, 1e-9), (HEIGHT - BOTTOM - TOP) / max(high_y - low_y, 1e-9)

    def place(x, y):
        return LEFT + (of(x) - low_x) * wide, HEIGHT - BOTTOM - (of(y) - low_y) * high

    body = [text(WIDTH / 2, HEIGHT - 6, x_label), text(LEFT, TOP - 2, y_label, "start")]
    steps_y = [10 ** e for e in range(int(low_y), int(high_y) + 1)] if logarithmic else nice_steps(low_y, high_y)
    for step in steps_y:
        y = HEIGHT - BOTTOM - (of(step) - low_y) * high
        body.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH}"/>' + text(LEFT - 6, y + 4, f"{step:g}", "end"))
    for step in sorted({x for x, _ in points}) if logarithmic else nice_steps(low_x, high_x):
        body.append(text(LEFT + (of(step) - low_x) * wide, HEIGHT - BOTTOM + 16, f"{step:g}"))
    for name, found in series.items():
        places = [place(x, y) for x, y in found if not logarithmic or min(x, y) > 0]
        if not places:
            continue
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        style = f'stroke="{palette[name]}"' if name in palette else 'stroke="#222" stroke-dasharray="4 3"'
        body.append(f'<path class="line" {style} d="{path}"><title>{html.escape(name)}</title></path>')
    return frame(body, title)
