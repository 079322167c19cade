#!/usr/bin/env python3
"""Holds the hit path and its threads to their targets; for a quiet machine.

usage: check_hit_path.py PROGRAMS [TRACE...]

PROGRAMS is the folder of hit_path_benchmark, threads_benchmark and cistern. Of each figure in ns the best of nine
repetitions counts, as noise only ever adds, and of the replays the median of 15 passes on the grown allocator. Figures of
threads are medians of nine rounds, each of which measures both sides in turn. Traces default to tests/replay/traces and
../shared/data/traces. Exit 1 if a target is missed.
"""
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAIR_NS = {
    "last_in_first_out/512": 36,
    "last_in_first_out/1048576": 36,
    "random_churn/100": 100,
    "random_churn/1000": 100,
}
REPLAY_NS = 18
RATIOS = {  # of pairs, one case over another
    "10,000 live over 100": ("random_churn/10000", "random_churn/100", 1.3),
    "100,000 live over 100": ("random_churn/100000", "random_churn/100", 2.5),
    "64 streams over 1": ("over_streams/64", "over_streams/1", 1.3),
    "8 devices over 1": ("over_devices/8", "over_devices/1", 1.3),
}
P999_OVER_MEDIAN = 20
AT_LEAST = {"two_streams_over_processes": 0.9, "one_stream_over_one_thread": 0.7}
REMOTE_FREE_NS = 100


class Verdicts:
    missed = 0

    def line(self, name, figure, unit, target=None, at_least=False):
        held = target is None or (figure >= target if at_least else figure <= target)
        self.missed += not held
        bar = "" if target is None else f"   target {'>=' if at_least else '<='} {target:g} {'ok' if held else 'MISSED'}"
        print(f"{name:34} {figure:8.2f} {unit}{bar}", flush=True)


def run(*command):
    return json.loads(subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout)


def check_pairs(programs, verdicts):
    rows = run(programs / "hit_path_benchmark", "--benchmark_repetitions=9", "--benchmark_min_time=0.1",
               "--benchmark_enable_random_interleaving=true", "--benchmark_format=json")["benchmarks"]
    cases = {}
    for row in rows:
        if row["run_type"] == "iteration":
            cases.setdefault(row["run_name"], []).append(row)
    best = {name: min(row["cpu_time"] for row in of) for name, of in cases.items()}
    for name, ns in best.items():
        if not name.startswith("pair_by_pair"):
            verdicts.line(name, ns, "ns", PAIR_NS.get(name))
    for name, (case, base, target) in RATIOS.items():
        verdicts.line(name, best[case] / best[base], "x ", target)
    p999 = min(row["p999_over_median"] for row in cases["pair_by_pair/1000"])
    verdicts.line("p99.9 over median, churn of 1,000", p999, "x ", P999_OVER_MEDIAN)
    for what in ("host_allocations", "source_calls"):
        most = max(row.get(what, 0) for of in cases.values() for row in of)
        verdicts.line(f"{what} in steady state", most, "  ", 0)


def check_threads(programs, verdicts):
    for name, figures in run(programs / "threads_benchmark").items():
        if name in AT_LEAST:
            verdicts.line(name, statistics.median(figures), "x ", AT_LEAST[name], at_least=True)
        else:
            verdicts.line(name, statistics.median(figures), "ns", REMOTE_FREE_NS)


def check_replays(programs, traces, verdicts):
    for trace in traces:
        (one,) = run(programs / "cistern", "replay", trace, "--repeat", "15", "--json")["runs"]
        verdicts.line(f"replay {one_name(trace)}", one["warm_ns_per_operation"], "ns", REPLAY_NS)


def one_name(trace):
    return trace.name.split(".")[0]


def main():
    programs = pathlib.Path(sys.argv[1])
    folders = (ROOT / "tests/replay/traces", ROOT.parent / "shared/data/traces")
    traces = [pathlib.Path(name) for name in sys.argv[2:]] or [path for folder in folders
                                                              for path in sorted(folder.glob("*.csv.gz"))]
    verdicts = Verdicts()
    check_pairs(programs, verdicts)
    check_threads(programs, verdicts)
    check_replays(programs, traces, verdicts)
    return 1 if verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
