#!/usr/bin/env python3
"""Pairs an unmodified Python program, mnist_epoch.py, under `cistern run` with the same under glibc and tcmalloc.

    python_pairs.py build/release/bin/cistern [--python PYTHON] [--rounds 3] [--epochs 3] [--batch 128] [--threads 2]
                    [--tcmalloc FILE]

A B C A B C ...; seconds are those of epochs, without each process's first; medians and minima. A peer that is not there
is reported and left out. Exit code 1 where a ratio misses its target. Wants a quiet machine.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OURS, GLIBC, TCMALLOC = "cistern run", "glibc", "tcmalloc"
TARGETS = {GLIBC: 0.6, TCMALLOC: 1.0}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--python", default=str(ROOT / ".venv" / "bin" / "python"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3, help="of each process, the first not counted")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tcmalloc", default="/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4")
    return parser.parse_args()


def run(options, name):
    command = [options.python, str(HERE / "mnist_epoch.py"), "--epochs", str(options.epochs), "--batch",
               str(options.batch), "--threads", str(options.threads)]
    environment = dict(os.environ)
    if name == OURS:
        command = [options.program, "run", "--devices", "cpu", "--", *command]
    if name == TCMALLOC:
        environment["LD_PRELOAD"] = options.tcmalloc
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, universal_newlines=True)
    return json.loads(done.stdout)


def main():
    options = parse()
    names = [OURS, GLIBC, TCMALLOC]
    if not os.path.exists(options.tcmalloc):
        print(f"absent: {TCMALLOC} ({options.tcmalloc}; --tcmalloc names another)")
        names.remove(TCMALLOC)
    results = {name: [] for name in names}
    for turn in range(options.rounds):
        print(f"round {turn + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
        for name in names:
            results[name].append(run(options, name))

    def of_epochs(name, field):
        return [value for result in results[name] for value in result[field][1:]]

    print(f"\n{f'batch {options.batch}':<12} {'median s':>9} {'min':>7} {'max':>7} {'faults':>9} {'accuracy':>9}")
    for name in names:
        seconds, faults = of_epochs(name, "epoch_seconds"), of_epochs(name, "epoch_page_faults")
        print(f"{name:<12} {statistics.median(seconds):>9.3f} {min(seconds):>7.3f} {max(seconds):>7.3f} "
              f"{int(statistics.median(faults)):>9} {results[name][0]['val_accuracy']:>9.4f}")
    missed = 0
    for name in names[1:]:
        ours, theirs = of_epochs(OURS, "epoch_seconds"), of_epochs(name, "epoch_seconds")
        ratio = statistics.median(ours) / statistics.median(theirs)
        missed += ratio > TARGETS[name]
        print(f"{OURS} / {name}: {ratio:.3f} (of minima {min(ours) / min(theirs):.3f}), target <= {TARGETS[name]}: "
              + ("ok" if ratio <= TARGETS[name] else "MISSED"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
