#!/usr/bin/env python3
"""Twice the work costs twice the instructions, by callgrind, whatever grows: deterministic, unlike time.

usage: growth_with_work.py HIT_PATH_PAIRS

A pair must not cost more when there are twice the live blocks, streams or devices, nor a miss and a trim when there
are twice the free blocks and holes; twice the operations, growth of the tables included, must not cost more than twice.
Exit 77, loudly, where valgrind is missing.
"""
import shutil
import sys

from instructions import instructions, skip

PAIRS = 4_000
A_PAIR = (("churn_1000", "churn_2000"), ("churn_10000", "churn_20000"), ("streams_64", "streams_128"),
          ("devices_8", "devices_16"), ("fragments_5000", "fragments_10000"), ("fragments_10000", "fragments_20000"))
A_RUN = (("churn_1000", 100_000), ("fill", 5_000))  # operations, to be doubled
TOLERANCE = 1.1


def main():
    program = sys.argv[1]
    if shutil.which("valgrind") is None:
        skip("valgrind is not installed, so instructions are not counted")
    count = {}

    def a_pair(case):
        if case not in count:
            count[case] = (instructions(program, case, 2 * PAIRS) - instructions(program, case, PAIRS)) / PAIRS
        return count[case]

    checks = [(f"a pair, {base} to {double}", a_pair(double) / a_pair(base), TOLERANCE) for base, double in A_PAIR]
    for case, operations in A_RUN:
        none = instructions(program, case, 0)
        once, twice = (instructions(program, case, n) - none for n in (operations, 2 * operations))
        checks.append((f"{case} of {operations:,} to {2 * operations:,}", twice / once, 2 * TOLERANCE))
    for name, ratio, most in checks:
        print(f"{name:40} {ratio:6.3f} x, at most {most:.2f} {'ok' if ratio <= most else 'WORSE'}")
    return 1 if any(ratio > most for _, ratio, most in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
