#!/usr/bin/env python3
"""Pairs our MobileNetV2 with the engines a user would take instead: A B A B ..., same weights, threads and batch.

    classify_pairs.py build/full/bin/classify_benchmark [--rounds 15] [--calls 10] [--batch 1 8] [--threads 1 2]
                      [--clock wall|cpu] [--peers-python PYTHON] [--only ENGINE ...]

Every contender is one process that stays for all rounds; in each round each runs --calls calls, one contender at a time.
Judged by the median over rounds of a round's median call. A peer that is not there is reported and left out; they come by
    python3 -m venv .venv-peers && .venv-peers/bin/pip install -r tests/perf/peers/mobilenet_requirements.txt
Exit code 1 where a ratio misses its target or a contender computes something else. Quote nothing from a machine with other
load; there, --clock cpu (processor time of all threads) still says which of two takes less work.
"""
import argparse
import array
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
PICTURES = ("bird", "cat", "dragonfly", "grace_hopper", "parrot", "bird", "cat", "dragonfly")
PEERS = {"onnxruntime": "onnxruntime", "openvino": "openvino", "litert": "ai_edge_litert", "opencv": "cv2"}
TORCH_PEERS = {"torch-eager": "torch, numpy", "torch-frozen": "torch, numpy", "torch-compile": "torch, numpy, sympy"}
OURS, MODULE = "cistern", "cistern module"
# threads -> {peer: largest ratio}: must-show 3 of the classifier.
TARGETS = {1: {"onnxruntime": 1.0, "litert": 1.0, "openvino": 1.05}, 2: {"onnxruntime": 1.0}}
CLOCKS = ("wall", "cpu")  # In the order in which contenders report them.
LARGEST_DIFFERENCE = 1e-3
TWO_THREADS_OVER_ONE = 1.0
BATCH_8_OVER_1 = 1.02  # A batch of 8 per image, over a single image: not above, within what repeats.


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8], choices=[1, 8])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--peers-python", default=str(ROOT / ".venv-peers" / "bin" / "python"))
    parser.add_argument("--torch-python", default=str(ROOT / ".venv" / "bin" / "python"))
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--only", nargs="+", help="of the peers")
    return parser.parse_args()


def prepare(folder):
    """What all contenders read: the same weights in each one's format, and eight pictures."""
    npz = SHARED / "slim_mobilenet_v2_1.0_224_folded.npz"
    if not npz.exists():
        sys.exit(f"classify_pairs: no {npz}; CISTERN_SHARED_DATA names the folder it is in")
    convert = str(ROOT / ".venv-convert" / "bin" / "python")
    subprocess.run([ROOT / "tools" / "convert", npz, folder / "weights.safetensors"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([convert, HERE / "peers" / "mobilenet_files.py", folder / "weights.safetensors", folder], check=True)
    with open(folder / "images.f32", "wb") as file:
        for name in PICTURES:
            pixels = (SHARED / "reference" / f"{name}.rgb_u8").read_bytes()
            array.array("f", [value / 127.5 - 1.0 for value in pixels]).tofile(file)


def contenders(options, folder):
    """name -> command without threads and batch; absent ones are reported."""
    def can_import(python, module):
        try:
            return subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            return False

    ours = [folder / "weights.safetensors", folder / "images.f32"]
    found = {OURS: [options.program, "inference", *ours], MODULE: [options.program, "module", *ours]}
    wanted = [(name, options.peers_python, module) for name, module in PEERS.items()]
    wanted += [(name, options.torch_python, modules) for name, modules in TORCH_PEERS.items()]
    for name, python, module in wanted:
        if options.only and name not in options.only:
            continue
        if can_import(python, module):
            found[name] = [python, HERE / "peers" / "mobilenet.py", name, folder]
        else:
            print(f"absent: {name} ({python} cannot import {module})")
    return found


class Contender:
    def __init__(self, command, threads, batch, clock):
        self.clock = CLOCKS.index(clock)
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen([*command, str(threads), str(batch)], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.rounds = []

    def answer(self):
        """A line of JSON; lines before it are an engine's own words. None if the process ended."""
        for line in self.process.stdout:
            if line.startswith(("{", "[")):
                return json.loads(line)
        return None

    def run(self, calls):
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        self.rounds.append([times[self.clock] for times in self.answer()])

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def median(self):
        return statistics.median(statistics.median(times) for times in self.rounds)

    def least(self):
        return min(min(times) for times in self.rounds)


def start(found, threads, batch, clock):
    """The contenders that run; those that compute something else than ours count as missed."""
    started, reference, missed = {}, None, 0
    for name, command in found.items():
        contender = Contender(command, threads, batch, clock)
        answer = contender.answer()
        if answer is None:
            print(f"absent: {name} does not run with {threads} threads and batch {batch}")
            contender.end()
            missed += name in (OURS, MODULE)
            continue
        reference = reference or answer
        difference = max(abs(a - b) for a, b in zip(answer["logits"], reference["logits"]))
        if answer["top1"] != reference["top1"] or difference > LARGEST_DIFFERENCE:
            print(f"{name}: computes something else: largest difference {difference:g}")
            missed += 1
        started[name] = contender
    return started, missed


def measure(found, threads, batch, options):
    started, missed = start(found, threads, batch, options.clock)
    for turn in range(options.rounds):
        for contender in started.values():
            contender.run(options.calls)
        print(f"threads {threads}, batch {batch}: round {turn + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}",
              file=sys.stderr, flush=True)
    for contender in started.values():
        contender.end()
    print(f"\nthreads {threads}, batch {batch}: {options.clock} ms an image, median (least)")
    for name, contender in sorted(started.items(), key=lambda item: item[1].median()):
        print(f"  {name:16} {contender.median() / batch:7.2f} ({contender.least() / batch:.2f})")
    return {name: (contender.median() / batch, contender.least() / batch) for name, contender in started.items()}, missed


def judge(what, ratio, of_least, target):
    good = ratio <= target
    print(f"{what}: {ratio:.3f} (of minima {of_least:.3f}), target <= {target}: " + ("ok" if good else "MISSED"))
    return not good


def main():
    options = parse()
    missed, results = 0, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        found = contenders(options, folder)
        for threads in options.threads:
            for batch in options.batch:
                results[threads, batch], failed = measure(found, threads, batch, options)
                missed += failed
    print()
    for (threads, batch), times in results.items():
        for peer, target in TARGETS.get(threads, {}).items():
            if peer in times and OURS in times:
                ratios = [ours / theirs for ours, theirs in zip(times[OURS], times[peer])]
                missed += judge(f"threads {threads}, batch {batch}: {OURS} / {peer}", *ratios, target)
        single = results.get((threads, 1), {}).get(OURS)
        if batch == 8 and single and OURS in times:
            ratios = [eight / one for eight, one in zip(times[OURS], single)]
            missed += judge(f"threads {threads}: an image of a batch of 8 / a single one", *ratios, BATCH_8_OVER_1)
    for batch in options.batch:
        one, two = results.get((1, batch), {}).get(OURS), results.get((2, batch), {}).get(OURS)
        if one and two and options.clock == "wall":
            missed += judge(f"batch {batch}: 2 threads / 1", two[0] / one[0], two[1] / one[1], TWO_THREADS_OVER_ONE)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
