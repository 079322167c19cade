#!/usr/bin/env python3
"""MNIST on the GPU under growth, preallocation and torch's own allocator; under a limit; from a checkpoint on the CPU.

    training.py PROGRAM [--fake]    prints PASS and FAIL lines, and the figures as ROW lines
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
BASE = ["--data", "data/mnist", "--batch-size", "128"]
MIB = 1 << 20
failed = False


def verdict(holds, name, text):
    global failed
    failed |= not holds
    print("PASS" if holds else "FAIL", f"{name}: {text}", flush=True)


def train(*arguments):
    return subprocess.run([PROGRAM, *BASE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, check=False)


def last_line(text):
    return (text.strip().splitlines() or ["nothing was said"])[-1]


def compare():
    done = train("--json", "--device", "cuda", "--epochs", "3", "--compare", "growth,preallocate,system",
                 "--preallocate", "4GiB")
    if not done.stdout:
        return verdict(False, "training", last_line(done.stderr))
    runs = {run["strategy"]: run for run in json.loads(done.stdout)["runs"]}
    print("ROW training | strategy | val_accuracy | s/epoch (1st) | s/epoch (2nd) | s/epoch (3rd) | "
          "peak requested MiB | peak reserved MiB | driver calls | after epoch 1")
    for name, run in runs.items():
        memory = run["memory"]
        print("ROW training |", name, f"| {run['val_accuracy']:.4f} |",
              " | ".join(f"{seconds:.3f}" for seconds in run["epoch_seconds"]),
              f"| {memory['peak_requested_bytes'] / MIB:.1f} | {memory['peak_reserved_bytes'] / MIB:.1f} |",
              memory["source_calls"], "|", memory["source_calls_after_first_epoch"])
    growth, native = runs["growth"], runs["system"]
    verdict(done.returncode == 0, "training_same_weights", "growth, preallocate and native end in the same bits"
            if done.returncode == 0 else last_line(done.stderr))
    verdict(all(run["device"] == "cuda:0" and run["val_accuracy"] > 0.97 for run in runs.values()), "training_accuracy",
            ", ".join(f"{run['val_accuracy']:.4f}" for run in runs.values()))
    ours, theirs = (run["memory"]["peak_reserved_bytes"] / MIB for run in (growth, native))
    verdict(ours <= theirs, "training_peak", f"{ours:.1f} MiB reserved at most under growth, {theirs:.1f} native")
    calls = [runs[name]["memory"]["source_calls_after_first_epoch"] for name in ("growth", "preallocate")]
    verdict(calls == [0, 0], "training_steady", f"driver calls after the first epoch: {calls}")
    names = [memory["name"] for memory in growth["memory"]["memories"]]
    verdict(names == ["cuda:0", "pinned", "host"], "training_report", f"memories side by side: {names}")


def limited():
    enough = train("--json", "--device", "cuda", "--epochs", "1", "--limit", "512MiB")
    peak = json.loads(enough.stdout)["runs"][0]["memory"]["peak_reserved_bytes"] / MIB if enough.stdout else 0
    verdict(enough.returncode == 0 and peak <= 512, "training_limit",
            f"{peak:.1f} MiB under a limit of 512 MiB" if enough.stdout else last_line(enough.stderr))
    little = train("--device", "cuda", "--epochs", "1", "--limit", "64MiB")
    verdict(little.returncode == 1 and "what would help" in little.stderr, "training_limit_too_low",
            f"exit {little.returncode}: {last_line(little.stderr)}")


def checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        saved = str(pathlib.Path(folder) / "saved")
        first = train("--json", "--device", "cuda", "--epochs", "1", "--checkpoint", saved, "--threads", "4")
        again = train("--json", "--device", "cpu", "--epochs", "1", "--checkpoint", saved, "--resume")
        if not (first.stdout and again.stdout):
            return verdict(False, "training_checkpoint", last_line(first.stderr + again.stderr))
        on_gpu, on_cpu = (json.loads(done.stdout)["runs"][0] for done in (first, again))
        same = on_gpu["weights_sha256"] == on_cpu["weights_sha256"]
        near = abs(on_gpu["val_accuracy"] - on_cpu["val_accuracy"]) < 0.002
        verdict(same and near, "training_checkpoint",
                f"{on_gpu['val_accuracy']:.4f} on the GPU, {on_cpu['val_accuracy']:.4f} read back on the CPU")


if "--fake" in sys.argv:
    print("SKIP training: needs a GPU")
else:
    compare()
    limited()
    checkpoint()
sys.exit(failed)
