#!/usr/bin/env python3
"""Pairs cistern-train with what a user would take instead: A B A B ..., same threads and batch, medians and minima.

    train_pairs.py build/release/bin/cistern-train [--rounds 3] [--epochs 3] [--batch 32 128] [--threads 2]
                   [--torch-python PYTHON] [--keras-python PYTHON] [--tcmalloc FILE] [--only plain|tuned]

Seconds are those of training epochs, without validation and without each process's first epoch. A peer that is not
there is reported and left out. Exit code 1 where a ratio misses its target. Quote nothing from a machine with other
load: two torch threads then wait for each other at every barrier.
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
OURS, SYSTEM, TCMALLOC, TUNED, TORCH, KERAS = (
    "plain, growth", "plain, system", "plain, tcmalloc", "tuned, growth", "PyTorch (Python)", "Keras fit")
# (what, against what, {batch: largest ratio}): must-show 3 of the trainer.
TARGETS = ((OURS, SYSTEM, {32: 0.97, 128: 0.6}), (OURS, TCMALLOC, {32: 1.0, 128: 1.0}),
           (TUNED, TORCH, {32: 0.9, 128: 0.45}), (TUNED, KERAS, {32: 0.5, 128: 0.75}))
MOST_FAULTS = 2000


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3, help="of each process, the first not counted")
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", default=str(ROOT / "data" / "mnist"))
    parser.add_argument("--torch-python", default=str(ROOT / ".venv" / "bin" / "python"))
    parser.add_argument("--keras-python", default=sys.executable)
    parser.add_argument("--tcmalloc", default="/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4")
    parser.add_argument("--only", choices=["plain", "tuned"])
    return parser.parse_args()


def contenders(options):
    """name -> (command without batch and threads, extra environment); absent ones are reported."""
    def ours(loop, strategy):
        return lambda batch: [options.program, "--json", "--data", options.data, "--device", "cpu", "--epochs",
                              str(options.epochs), "--loop", loop, "--strategy", strategy, "--threads",
                              str(options.threads), "--batch-size", str(batch)]

    def peer(python, script):
        return lambda batch: [python, str(HERE / "peers" / script), options.data, str(options.epochs), str(batch),
                              str(options.threads)]

    def can_import(python, module):
        try:
            return subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            return False

    found = {}
    if options.only != "tuned":
        found[OURS] = (ours("plain", "growth"), {})
        found[SYSTEM] = (ours("plain", "system"), {})
        if os.path.exists(options.tcmalloc):
            found[TCMALLOC] = (ours("plain", "system"), {"LD_PRELOAD": options.tcmalloc})
        else:
            print(f"absent: {TCMALLOC} ({options.tcmalloc}; --tcmalloc names another)")
    if options.only != "plain":
        found[TUNED] = (ours("tuned", "growth"), {})
        for name, python, script, module in ((TORCH, options.torch_python, "mnist_torch.py", "torch.optim, torch._dynamo, numpy"),
                                             (KERAS, options.keras_python, "mnist_keras.py", "keras, tensorflow")):
            if can_import(python, module):
                found[name] = (peer(python, script), {})
            else:
                print(f"absent: {name} ({python} cannot import {module})")
    return found


def run(command, environment):
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True, universal_newlines=True)
    result = json.loads(done.stdout)
    if "runs" in result:
        result = result["runs"][0]
        result["epoch_page_faults"] = result["memory"]["epoch_page_faults"]
    return result


def measure(found, batch, rounds):
    seconds, faults, accuracy = {}, {}, {}
    for turn in range(rounds):
        print(f"batch {batch}, round {turn + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
        for name, (command, environment) in found.items():
            result = run(command(batch), environment)
            seconds.setdefault(name, []).extend(result["epoch_seconds"][1:])
            faults.setdefault(name, []).extend(result["epoch_page_faults"][1:])
            accuracy[name] = result["val_accuracy"]
    return seconds, faults, accuracy


def judge(batch, seconds, faults):
    """Prints each ratio beside its target; how many are missed."""
    missed = 0
    for ours, theirs, targets in TARGETS:
        if ours not in seconds or theirs not in seconds or batch not in targets:
            continue
        ratio = statistics.median(seconds[ours]) / statistics.median(seconds[theirs])
        of_minima = min(seconds[ours]) / min(seconds[theirs])
        good = ratio <= targets[batch]
        missed += not good
        print(f"batch {batch}: {ours} / {theirs}: {ratio:.3f} (of minima {of_minima:.3f}), target <= {targets[batch]}: "
              + ("ok" if good else "MISSED"))
    if OURS in faults:
        good = max(faults[OURS]) <= MOST_FAULTS
        missed += not good
        print(f"batch {batch}: {OURS}: {max(faults[OURS])} page faults in an epoch, target <= {MOST_FAULTS}: "
              + ("ok" if good else "MISSED"))
    return missed


def main():
    options = parse()
    found = contenders(options)
    missed = 0
    for batch in options.batch:
        seconds, faults, accuracy = measure(found, batch, options.rounds)
        print(f"\n{'batch ' + str(batch):<20} {'median s':>9} {'min':>7} {'max':>7} {'epochs':>7} {'faults':>9} {'accuracy':>9}")
        for name, values in seconds.items():
            print(f"{name:<20} {statistics.median(values):>9.3f} {min(values):>7.3f} {max(values):>7.3f} {len(values):>7} "
                  f"{int(statistics.median(faults[name])):>9} {accuracy[name]:>9.4f}")
        missed += judge(batch, seconds, faults)
        print(flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
