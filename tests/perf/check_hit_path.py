#!/usr/bin/env python3
"""Holds the hit path to its targets in ns; for a quiet machine.

usage: check_hit_path.py HIT_PATH_BENCHMARK

Each figure is the best of five repetitions: noise only ever adds.
"""
import json
import subprocess
import sys

TARGETS = {
    "last_in_first_out/512": 45,
    "last_in_first_out/1048576": 45,
    "random_churn/100": 130,
    "random_churn/1000": 130,
    "random_churn/10000": 130,
}
LIVE_SET_RATIO = 1.5


def main():
    run = subprocess.run([sys.argv[1], "--benchmark_repetitions=5", "--benchmark_min_time=0.2",
                          "--benchmark_format=json"], capture_output=True, text=True, check=True)
    best = {}
    for row in json.loads(run.stdout)["benchmarks"]:
        if row["run_type"] == "iteration":
            name = row["run_name"]
            best[name] = min(best.get(name, float("inf")), row["cpu_time"])
    missed = 0
    for name, ns in best.items():
        target = TARGETS.get(name)
        missed += target is not None and ns > target
        print(f"{name:28} {ns:7.1f} ns" + ("" if target is None else f"   target {target:4} {'ok' if ns <= target else 'MISSED'}"))
    ratio = best["random_churn/10000"] / best["random_churn/100"]
    missed += ratio > LIVE_SET_RATIO
    print(f"{'10,000 live over 100 live':28} {ratio:7.2f} x    target {LIVE_SET_RATIO:4} {'ok' if ratio <= LIVE_SET_RATIO else 'MISSED'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
