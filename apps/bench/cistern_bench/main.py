"""Replays traces on cistern and on the allocators one would use instead, side by side.

Each contender is a process of its own, asked in turns (A B A B ...); times are medians over the rounds. Absent
contenders are reported; tools/setup.sh --peers brings them. Reserved is compared among those that grow; --fit compares
all by the smallest device that serves a trace. One that preallocates has 1.25 x the lower bound where it is timed.
"""
import argparse
import datetime
import json
import os
import sys

from . import measure, tables
from .contenders import FIXED, HOST, choose
from .page import page

GIB = 1 << 30


class UsageError(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(f"{message} (--help tells more)")


def size(text):
    """As the other programs read sizes: 2MiB, 140GiB, a number of bytes."""
    units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": GIB, "B": 1}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(text[:-len(unit)]) * factor
    return int(text)


def parse(arguments):
    parser = Parser(prog="cistern-bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="what cistern replay reads")
    parser.add_argument("--peers", default="*", metavar="LIST",
                        help="names or patterns, with commas: 'cistern-growth-*,torch-*,rmm-growing' (default: all)")
    parser.add_argument("--list", action="store_true", help="say who is there and end")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of which the median time is told (5)")
    parser.add_argument("--granule", type=size, default=2 << 20, metavar="SIZE",
                        help="of cistern's sources, and of devices in --fit (2MiB)")
    parser.add_argument("--capacity", type=size, default=140 * GIB, metavar="SIZE", help="of the device (140GiB)")
    parser.add_argument("--fit", action="store_true", help="also the smallest device that serves each trace")
    parser.add_argument("--scaling", action="store_true", help="also pairs of allocation and free, by live blocks and threads")
    parser.add_argument("--json", metavar="FILE", help="write all figures; - is the standard output, without the tables")
    parser.add_argument("--html", metavar="FILE", help="write a page with plots; measures time lines for it")
    options = parser.parse_args(arguments)
    if not (options.traces or options.scaling or options.list):
        raise UsageError("no TRACE is given, and no --scaling")
    if options.rounds < 1:
        raise UsageError("--rounds: at least 1")
    if options.granule < 4096 or options.granule & (options.granule - 1):
        raise UsageError(f"--granule: {options.granule} is not a power of two from 4KiB")
    for path in (options.json, options.html):
        if path and path != "-" and not os.path.isdir(os.path.dirname(path) or "."):
            raise UsageError(f"{path}: its folder does not exist")
    return options


def load_traces(paths, folder, capacity_bytes):
    """What our own driver says of each; it is always there."""
    ours = choose(["cistern-growth-vmm"], folder, 2 << 20)[0]
    traces = []
    for path in paths:
        if not os.path.isfile(path) or "\n" in path:
            raise measure.DriverError(f"{path}: no such file")
        answer = measure.ask(ours, folder, f"replay 1 {capacity_bytes} {os.path.abspath(path)}")
        name = os.path.basename(path)
        for ending in (".gz", ".csv", ".trace"):
            name = name[:-len(ending)] if name.endswith(ending) else name
        traces.append({"name": name, "path": os.path.abspath(path), "operations": answer["operations"],
                       "lower_bound_bytes": answer["lower_bound_bytes"]})
    if len({trace["name"] for trace in traces}) < len(traces):
        raise UsageError("two traces have one name")
    return traces


def write_whole(path, text):
    """Never shows half a file."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".tmp", path)


def run(options, folder):
    def say(text):
        print(f"cistern-bench: {text}", file=sys.stderr, flush=True)

    chosen = choose(options.peers.split(","), folder, options.granule)
    present = [one for one in chosen if not one.why_absent]
    if options.list:
        for one in chosen:
            print(f"{one.name:24} {one.group:6} {'absent: ' + one.why_absent if one.why_absent else 'there'}")
        return 0
    results = {"version": 1, "made": datetime.datetime.now().isoformat(timespec="seconds"), "granule_bytes": options.granule,
               "capacity_bytes": options.capacity, "rounds": options.rounds, "load": os.getloadavg()[0],
               "contenders": [{"name": one.name, "group": one.group, "why_absent": one.why_absent} for one in chosen],
               "traces": load_traces(options.traces, folder, options.capacity), "replays": [], "fits": [], "timelines": [],
               "scaling": []}
    on_devices = [one for one in present if one.group != HOST]
    for trace in results["traces"]:
        say(trace["name"])
        results["replays"] += measure.replay(trace, present, folder, options.rounds, options.capacity, say)
        if options.fit:
            results["fits"] += measure.fit(trace, on_devices, folder, options.capacity, options.granule, say)
        if options.html:
            growing = [one for one in on_devices if one.group != FIXED]
            results["timelines"] += measure.timelines(trace, growing, folder, options.capacity, say)
    if options.scaling:
        growing = [one for one in on_devices if one.group != FIXED]
        results["scaling"] = measure.scaling(growing, folder, options.rounds, say)
    whole = json.dumps(results, indent=1) + "\n"
    if options.json and options.json != "-":
        write_whole(options.json, whole)
    if options.html:
        write_whole(options.html, page(results))
    sys.stdout.write(whole if options.json == "-" else tables.text(results))
    return 0


def main(folder, arguments=None):
    """Exit code: 0 measured; 1 a file cannot be read or written; 2 the command line is wrong."""
    try:
        return run(parse(sys.argv[1:] if arguments is None else arguments), folder)
    except (UsageError, ValueError) as error:
        print(f"cistern-bench: {error}", file=sys.stderr)
        return 2
    except (measure.DriverError, OSError) as error:
        print(f"cistern-bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
