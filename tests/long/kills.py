#!/usr/bin/env python3
"""Kills cistern-train at many moments; what a name shows must be whole, and the resumed run must end in the same bits.

    kills.py BIN_FOLDER KILLS

Every other kill waits for the checkpoint's temporary file, so that it strikes during a save.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from train_test import write_mnist  # noqa: E402

EPOCHS = 40


class Run:
    """One training, killed and resumed until it is done."""

    def __init__(self, programs, folder, name):
        self.programs, self.data = programs, folder / "data"
        self.checkpoint, self.trace = folder / f"{name}-checkpoint", folder / f"{name}.trace"

    def start(self, epochs=EPOCHS):
        command = [self.programs / "cistern-train", "--data", self.data, "--epochs", str(epochs), "--threads", "1",
                   "--device", "cpu", "--json", "--checkpoint", self.checkpoint, "--record", self.trace]
        resume = ["--resume"] if self.saved() else []
        return subprocess.Popen(list(map(str, command)) + resume, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                universal_newlines=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def files(self):
        return sorted(path.name for path in self.checkpoint.glob("*"))

    def saved(self):
        return any(not name.endswith(".tmp") for name in self.files())

    def saving(self):
        return any(name.endswith(".tmp") for name in self.files())

    def finish(self, epochs=EPOCHS):
        process = self.start(epochs)
        out, errors = process.communicate(timeout=300)
        check(process.returncode == 0, errors)
        return json.loads(out)["runs"][0]["weights_sha256"]

    def check_end(self, weights, expected):
        check(weights == expected, "other weights than of the run never stopped")
        check(len(self.files()) == 1, f"left behind: {self.files()}")
        self.check_trace()

    def check_trace(self):
        replay = subprocess.run([str(self.programs / "cistern"), "replay", str(self.trace)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, universal_newlines=True)
        check(replay.returncode == 0, replay.stderr)


def check(fact, message):
    if not fact:
        sys.exit(f"kills: {message}")


def kill(process, run, moment, during_save):
    """Kills after `moment` seconds, or at the first save from then on. Whether it was still running."""
    time.sleep(moment)
    while during_save and process.poll() is None and not run.saving():
        pass
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def main(programs, kills):
    seed = int(os.environ.get("CISTERN_TEST_SEED", time.time_ns()))
    draw = random.Random(seed)
    print(f"kills: {kills}, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "data").mkdir()
        write_mnist(folder / "data")
        started = time.monotonic()
        reference = Run(programs, folder, "reference")
        expected = reference.finish()
        reference.check_end(expected, expected)
        seconds = time.monotonic() - started

        done = struck_saves = completed = 0
        run = Run(programs, folder, "run0")
        while done < kills:
            process = run.start()
            killed = kill(process, run, draw.uniform(0, seconds / 2), during_save=done % 2 == 1)
            if not killed:
                check(process.returncode == 0, process.stderr.read())
                run.check_end(json.load(process.stdout)["runs"][0]["weights_sha256"], expected)
                completed += 1
                run = Run(programs, folder, f"run{completed}")
                continue
            done += 1
            struck_saves += run.saving()
            if run.trace.exists():  # killed between main and the very end
                run.check_trace()
                run.trace.unlink()
            if run.saved():
                run.finish(epochs=1)  # loads and checks it, trains nothing
                run.trace.unlink()
        run.check_end(run.finish(), expected)
        print(f"kills: {struck_saves} of {kills} struck a save; {completed + 1} runs ended in the same weights")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
