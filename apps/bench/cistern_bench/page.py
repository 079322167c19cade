"""The same figures as one HTML page that needs nothing else: its plots are SVG, its tables those of the terminal."""
import html

from . import tables
from .contenders import FIXED, HOST
from .plots import bars, colours, legend, lines

MIB = 1 << 20
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:920px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}figure{margin:1em 0}figcaption{font-weight:600}
svg{width:100%;height:auto;font:11px system-ui,sans-serif;fill:#222}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.6}
.legend span{white-space:nowrap;margin-right:1em;font-size:13px}
.legend i{display:inline-block;width:11px;height:11px;margin-right:5px}
pre{overflow-x:auto;background:#f6f6f6;padding:.8em;font-size:12px}"""


def of_rows(rows, short, value):
    return {(short[row["trace"]], row["contender"]): value(row) for row in rows}


def replay_plots(results, names, short, palette):
    served = [row for row in results["replays"] if row["completed"]]
    groups = tables.group_of(results)
    growing = [name for name in names if groups[name] not in (HOST, FIXED)]
    on_devices = [name for name in names if groups[name] != HOST]
    traces = [short[trace["name"]] for trace in results["traces"]]
    yield legend(on_devices, palette)
    yield bars("Peak reserved / lower bound, of those that grow", traces, growing,
               of_rows(served, short, lambda row: row["ratio"]), palette, floor=0.95)
    fits = [row for row in results["fits"] if row["fits"]]
    yield bars("Smallest device / lower bound", traces, on_devices, of_rows(fits, short, lambda row: row["ratio"]), palette,
               floor=0.95)
    yield bars("Nanoseconds an operation in steady state", traces, on_devices,
               of_rows(served, short, lambda row: row["warm_ns"]), palette, digits=1)
    host = [name for name in names if groups[name] == HOST]
    resident = of_rows([row for row in served if row["contender"] in host], short, lambda row: row["ratio"])
    if resident:
        yield legend(host, palette)
        touched = [trace for trace in traces if any(key[0] == trace for key in resident)]
        yield bars("CPU memory: peak resident / lower bound", touched, host, resident, palette, floor=0.95)


def timeline_plots(results, names, short, palette):
    """Live and reserved of each trace: ours, and of each peer the variant that grows."""
    shown = [name for name in names if name == tables.OURS or not name.startswith("cistern")]
    for trace in results["traces"]:
        found = {row["contender"]: row for row in results["timelines"] if row["trace"] == trace["name"]}
        if not found:
            continue
        series = {}
        for name in shown:
            if name in found:
                values = found[name]["reserved_bytes"]
                series[name] = [(index * trace["operations"] / len(values), value / MIB) for index, value in enumerate(values)]
        live = next(iter(found.values()))["live_bytes"]
        series["live"] = [(index * trace["operations"] / len(live), value / MIB) for index, value in enumerate(live)]
        yield lines(f"{short[trace['name']]}: reserved, and live (dashed)", series, palette, "operations", "MiB")
        yield legend([name for name in series if name != "live"], palette)


def scaling_plots(results, names, palette):
    rows = results["scaling"]
    if not rows:
        return
    names = [name for name in names if any(row["contender"] == name for row in rows)]

    def series(what, size, key):
        return {name: sorted((row[key], row["ns_per_pair"]) for row in rows
                             if row["contender"] == name and row["what"] == what and (size is None or row["size"] == size)
                             and (size is not None or row["threads"] == 1)) for name in names}

    yield legend(names, palette)
    yield lines("Random churn: nanoseconds a pair by live blocks", series("churn", None, "size"), palette, "live blocks",
                "ns", True)
    yield lines("Last in, first out: nanoseconds a pair of one thread by threads", series("pairs", 512, "threads"), palette,
                "threads", "ns", True)
    yield lines("Random churn of 1,000 live blocks each: nanoseconds a pair of one thread by threads",
                series("churn", 1000, "threads"), palette, "threads", "ns", True)


def page(results):
    names = [one["name"] for one in results["contenders"] if not one["why_absent"]]
    short = tables.short_names([trace["name"] for trace in results["traces"]]) if results["traces"] else {}
    palette = colours(names)
    parts = [f"<h1>cistern beside its peers</h1><p>{html.escape(results['made'])}; medians of {results['rounds']} rounds, taken "
             f"in turns; granules of {results['granule_bytes'] // 1024} KiB. The lower bound is the peak of the bytes live at "
             "once. Times of a machine with other load mean little.</p>"]
    if results["traces"]:
        parts += ["<h2>Traces</h2>", *replay_plots(results, names, short, palette),
                  *timeline_plots(results, names, short, palette)]
    if results["scaling"]:
        parts += ["<h2>Cost against live blocks and threads</h2>", *scaling_plots(results, names, palette)]
    parts += ["<h2>All figures</h2><pre>", html.escape(tables.text(results)), "</pre>"]
    return ('<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>cistern-bench</title>'
            f"<style>{STYLE}</style></head><body>" + "\n".join(parts) + "</body></html>\n")
