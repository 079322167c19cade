#!/usr/bin/env python3
"""Instructions per allocate+free pair, by callgrind, against golden numbers.

usage: instructions.py HIT_PATH_PAIRS COMPILER [--write]

COMPILER names the row of the golden file, like GNU-12: other compilers make other code. Each case runs with N and with
2N pairs; the difference is the pairs alone. Exit 77, loudly, where valgrind or the compiler's numbers are missing.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

GOLDEN = pathlib.Path(__file__).with_name("instructions.golden.json")
CASES = ("lifo_512", "lifo_1MiB", "churn_100", "churn_1000", "churn_10000", "streams_64")
PAIRS = 20_000
TOLERANCE = 0.05


def instructions(program, case, count):
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, case, str(count)],
        capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1))


def skip(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    sys.exit(77)


def main():
    program, compiler = sys.argv[1:3]
    write = "--write" in sys.argv
    if shutil.which("valgrind") is None:
        skip("valgrind is not installed, so instructions are not counted")
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    measured = {}
    for case in CASES:
        measured[case] = round((instructions(program, case, 2 * PAIRS) - instructions(program, case, PAIRS)) / PAIRS)
    if write:
        golden[compiler] = measured
        GOLDEN.write_text(json.dumps(golden, indent=2, sort_keys=True) + "\n")
    if compiler not in golden:
        skip(f"no golden numbers for {compiler}; measured {measured}; see --write")
    failed = False
    for case, count in measured.items():
        wanted = golden[compiler][case]
        off = count / wanted - 1
        failed |= off > TOLERANCE
        verdict = "WORSE" if off > TOLERANCE else "better: keep it with --write" if off < -TOLERANCE else "ok"
        print(f"{case:12} {count:6} instructions a pair, golden {wanted:6} ({off:+.1%}) {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
