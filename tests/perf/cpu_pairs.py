#!/usr/bin/env python3
"""Pairs our programs over cistern with the same over glibc, jemalloc, tcmalloc and mimalloc: A B A B ..., time and memory.

    cpu_pairs.py FOLDER [--rounds 3] [--threads 1] [--only train|classify] [--batch 128] [--loop plain|tuned] [--pictures 100]

FOLDER holds cistern-train and cistern-classify (build/full/bin). train: one MNIST epoch, its seconds. classify: MobileNetV2
over many pictures, the seconds of its work. Memory is the peak resident set of the process. A library that is not there is
reported and left out; tools/setup.sh --peers brings them. Medians over the rounds. Exit code 1 where time is above the best
of the others, or memory above 1.05 x the best of theirs. Wants a quiet machine.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHARED = pathlib.Path(os.environ.get("CISTERN_SHARED_DATA", ROOT.parent / "shared" / "data")) / "mobilenet_v2"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
OURS = "cistern"
PEERS = {"glibc": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc.so.4", "mimalloc": "libmimalloc.so.2"}
MOST_TIME, MOST_MEMORY = 1.0, 1.05
MIB = 1 << 20


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128, help="of training")
    parser.add_argument("--loop", default="plain", choices=["plain", "tuned"], help="of training")
    parser.add_argument("--pictures", type=int, default=100, help="to classify")
    parser.add_argument("--only", choices=["train", "classify"])
    return parser.parse_args()


def contenders():
    """name -> (strategy, environment)"""
    found = {OURS: ("growth", {})}
    for name, library in PEERS.items():
        path = f"{LIBRARIES}/{library}"
        if library and not os.path.exists(path):
            print(f"absent: {name} ({path}; tools/setup.sh --peers brings it)")
        else:
            found[name] = ("system", {"LD_PRELOAD": path} if library else {})
    return found


def workloads(options, folder):
    """name -> (command without strategy, seconds in the JSON it prints)"""
    found = {}
    if options.only != "classify":
        found["train"] = ([options.folder / "cistern-train", "--json", "--device", "cpu", "--epochs", "1", "--loop", options.loop,
                           "--batch-size", str(options.batch), "--threads", str(options.threads)],
                          lambda result: result["runs"][0]["epoch_seconds"][0])
    if options.only != "train":
        weights, pictures = folder / "weights.safetensors", sorted((SHARED / "images").glob("*.bmp"))
        if not pictures:
            sys.exit(f"cpu_pairs: no pictures in {SHARED}; CISTERN_SHARED_DATA names the folder it is in")
        subprocess.run([ROOT / "tools" / "convert", SHARED / "slim_mobilenet_v2_1.0_224_folded.npz", weights], check=True,
                       stdout=subprocess.DEVNULL)
        listed = [str(pictures[index % len(pictures)]) for index in range(options.pictures)]
        (folder / "pictures.txt").write_text("\n".join(listed) + "\n")
        found["classify"] = ([options.folder / "cistern-classify", "--json", "--device", "cpu", "--weights", weights, "--threads",
                              str(options.threads), folder / "pictures.txt"], lambda result: result["summary"]["seconds"])
    return found


def run(command, environment, output):
    """The last JSON value that the program prints, and its peak resident set in bytes."""
    with open(output, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=file, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"cpu_pairs: {command[0]} failed with {environment}")
    text = pathlib.Path(output).read_text()
    return json.loads(text if text.startswith("{\n") else text.strip().splitlines()[-1]), usage.ru_maxrss * 1024


def judge(name, results):
    """Prints the table; how many targets are missed."""
    print(f"\n{name:<10} {'median s':>9} {'min':>7} {'max':>7} {'peak MiB':>9}")
    for contender, measured in results.items():
        seconds = [second for second, _ in measured]
        print(f"{contender:<10} {statistics.median(seconds):>9.3f} {min(seconds):>7.3f} {max(seconds):>7.3f} "
              f"{statistics.median(peak for _, peak in measured) / MIB:>9.1f}")
    missed = 0
    for what, index, most in (("time", 0, MOST_TIME), ("peak resident", 1, MOST_MEMORY)):
        medians = {contender: statistics.median(one[index] for one in measured) for contender, measured in results.items()}
        best = min((contender for contender in medians if contender != OURS), key=medians.get)
        ratio = medians[OURS] / medians[best]
        missed += ratio > most
        print(f"{name}: {what}: {ratio:.3f} x the best of the others, {best}, target <= {most}: "
              + ("ok" if ratio <= most else "MISSED"))
    return missed


def main():
    options = parse()
    found, missed = contenders(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for workload, (command, seconds_of) in workloads(options, folder).items():
            results = {contender: [] for contender in found}
            for turn in range(options.rounds):
                for contender, (strategy, environment) in found.items():
                    result, peak = run([*command, "--strategy", strategy], environment, folder / "output")
                    results[contender].append((seconds_of(result), peak))
                print(f"{workload}: round {turn + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            missed += judge(workload, results)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
