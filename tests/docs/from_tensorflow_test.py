#!/usr/bin/env python3
"""The columns of docs/from-tensorflow.md that are no C++: each piece of code there is run over the fake runtime and does
what stands beside it. A piece without a check here fails. Exit code 77 where the torch of this build has no Python.

    from_tensorflow_test.py --program CISTERN --preload LIBCISTERN_PRELOAD --site-packages DIR
                            --fake-runtime LIBCUDART:LIBCUDA [arguments of unittest]
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
import run_test  # noqa: E402
import run_torch_test  # noqa: E402
from run_test import SETTINGS  # noqa: E402

PAGE = ROOT / "docs" / "from-tensorflow.md"
MIB, GIB = 1 << 20, 1 << 30  # The fake devices are two, of 4 GiB.


def column(heading, number):
    """The pieces of code in a column of the table under a heading of the page."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]
    return [piece for row in rows for piece in re.findall(r"`([^`]+)`", row.split("|")[number])]


# What each piece of Python must have done; `result` is its value, and `block` one of 5 MiB on cuda:0 made after an
# install(), or before anything else.
PYTHON = {
    "torch.cuda.device_count()": "result == 2",
    'install(strategy="growth")': "memory_info(0)['reserved'] == 6 * MIB",
    'install(strategy="preallocate")': "memory_info(0)['reserved'] > 3.9 * GIB",
    'install(limit="1GiB")': "memory_info(0)['limit'] == GIB",
    'set_limit("1GiB", 0)': "memory_info(0)['limit'] == GIB",
    'install(limit="50%")': "memory_info(0)['limit'] == 2 * GIB",
    'set_limit("50%", 0)': "memory_info(0)['limit'] == 2 * GIB",
    'install(strategy="preallocate", headroom="1GiB")': "2.9 * GIB < memory_info(0)['reserved'] <= 3 * GIB",
    "memory_info(0)": "result['current'] == result['peak'] == 5 * MIB and result['limit'] is None",
    'memory_info(0)["current"]': "result == 5 * MIB",
    "reset_peak(0)": "[memory_info(0)['peak'], block.set_(), reset_peak(0), memory_info(0)['peak']][::3] == [5 * MIB, 0]",
    "trim(0)": "[block.set_(), trim(0), memory_info(0)['reserved']][1:] == [6 * MIB, 0]",
}

# Everything in one process costs one import of torch; a child for each, as an allocator serves a process.
SCRIPT = """
import os, sys, traceback, torch
sys.path.insert(0, {package!r})
from cistern import *
MIB, GIB = 1 << 20, 1 << 30
for code, check in {pieces!r}:
    child = os.fork()
    if child == 0:
        try:
            if not code.startswith("install("):
                install(devices=("cuda",))
                block = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
            result = eval(code.replace("install(", "install(devices=('cuda',), "))
            if code.startswith("install("):
                block = torch.empty(5 * MIB, dtype=torch.uint8, device="cuda")
            assert eval(check), (check, memory_info(0))
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
            os._exit(1)
        os._exit(0)
    print(code, "|", os.waitpid(child, 0)[1], flush=True)
"""


class PythonColumn(run_torch_test.TorchCase):
    def test_each_call_does_what_tensorflows_beside_it_does(self):
        pieces = column("The table", 3)
        self.assertEqual(set(pieces), set(PYTHON), "the page and the checks differ")
        python, needed = run_torch_test.python_with_torch()
        script = SCRIPT.format(package=str(ROOT / "tools" / "python"), pieces=[(piece, PYTHON[piece]) for piece in pieces])
        done = self.call(python, "-c", script, LD_PRELOAD=SETTINGS.fake_runtime, OMP_NUM_THREADS="1",
                         CISTERN_LIBRARY_DIR=os.path.dirname(SETTINGS.preload), **needed)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual(done.stdout.splitlines(), [f"{piece} | 0" for piece in pieces])


# A program that knows nothing of cistern, and what it then shows: bytes reserved for a tensor of 5 MiB, and whether 2 GiB
# more (with the limits of the page: too much) can be had.
PROGRAM = """
import torch
block = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
print(torch.cuda.memory_reserved())
try:
    torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    print("fits")
except torch.OutOfMemoryError as error:
    print(str(error).splitlines()[0])
"""
GROWTH = (str(6 * MIB), "fits")
FULL = (str(4 * GIB), "fits")
NO_CODE = {  # In front of "cistern run", or its flags: what the program prints.
    "strategy:growth": GROWTH,
    "--strategy growth": GROWTH,
    "strategy:preallocate": FULL,
    "limit:1GiB": (str(6 * MIB), "limit of 1 GiB"),
    "--limit 1GiB": (str(6 * MIB), "limit of 1 GiB"),
    "limit:50%": (str(6 * MIB), "limit of 2 GiB"),
    "headroom:1GiB": (str(3 * GIB), "fits"),
    "--report": GROWTH,
}


class UnderRun(run_torch_test.TorchCase):
    def prints(self, wanted, *flags, **environment):
        """Returns what the program says on stderr besides."""
        done = self.python(["--devices", "cuda", *flags], PROGRAM, LD_PRELOAD=SETTINGS.fake_runtime, **environment)
        self.assertEqual(done.returncode, 0, done)
        reserved, more = done.stdout.splitlines()
        self.assertEqual(reserved, wanted[0])
        self.assertIn(wanted[1], more)
        return done.stderr


class NoCodeColumn(UnderRun):
    def test_each_setting_does_what_tensorflows_beside_it_does(self):
        pieces = column("The table", 4)
        self.assertEqual(set(pieces), set(NO_CODE), "the page and the checks differ")
        for piece, wanted in NO_CODE.items():
            with self.subTest(piece=piece):
                if piece.startswith("--"):
                    errors = self.prints(wanted, *piece.split())
                else:
                    more = ",strategy:preallocate" if piece.startswith("headroom") else ""  # the page: of a preallocation
                    errors = self.prints(wanted, CISTERN_CONF=piece + more)
                if piece == "--report":
                    self.assertRegex(errors, r"\n cuda:0\n  requested +0 B now +2\.00 GiB peak\n")
                else:
                    self.assertEqual(errors, "")

    def test_the_line_below_the_variables_runs(self):
        line = re.search(r"^Without code: `cistern run (.*) -- python3 train\.py`\.$", PAGE.read_text(), re.M)[1]
        done = self.python(line.split(), PROGRAM, LD_PRELOAD=SETTINGS.fake_runtime, FAKE_CUDART_BYTES=str(16 * GIB))
        self.assertEqual((done.returncode, done.stderr, done.stdout.splitlines()), (0, "", list(GROWTH)), done)


class Variables(UnderRun):
    def test_tensorflows_own_are_honoured_or_answered(self):
        self.assertEqual(self.prints(FULL, TF_FORCE_GPU_ALLOW_GROWTH="false"), "")
        self.assertEqual(self.prints(GROWTH, TF_FORCE_GPU_ALLOW_GROWTH="true"), "")
        errors = self.prints(GROWTH, TF_FORCE_GPU_ALLOW_GROWTH="yes")
        self.assertEqual(errors.count("\n"), 1)
        self.assertIn("TF_FORCE_GPU_ALLOW_GROWTH=yes has no effect", errors)
        out = self.output_of(["--devices", "pinned"], run_torch_test.ASK + """import torch
torch.empty(9, pin_memory=True)
print(cistern.memory_info("pinned")["limit"])""", LD_PRELOAD=SETTINGS.fake_runtime, TF_GPU_HOST_MEM_LIMIT_IN_MB="96")
        self.assertEqual(out, f"{96 * MIB}\n")

    def test_cistern_conf_goes_before_them_they_before_options_and_options_before_torchs(self):
        self.assertEqual(self.prints(GROWTH, TF_FORCE_GPU_ALLOW_GROWTH="false", CISTERN_CONF="strategy:growth"), "")
        out = self.output_of([], run_torch_test.ASK + """import torch
cistern.install(strategy="growth", limit="64MiB", devices="cuda")
torch.empty(9, device="cuda")
info = cistern.memory_info(0)
print(info["reserved"] >> 20, info["limit"] >> 20)""", LD_PRELOAD=SETTINGS.fake_runtime, TF_FORCE_GPU_ALLOW_GROWTH="false",
                             PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.5")
        self.assertEqual(out, "64 64\n")

    def test_ours_in_the_place_of_others(self):
        pieces = [piece for piece in column("Environment variables", 2) if "cistern" in piece.lower()]
        self.assertEqual(set(pieces), {"CISTERN_CONF", "CISTERN_CONF=headroom:SIZE", "CISTERN_CONF=limit:SIZE",
                                       "cistern.snapshot(path)", "CISTERN_CONF=record:FILE"})
        self.output_of([], run_torch_test.ASK + """import pickle, torch
torch.ones(1), torch.ones(1)
cistern.snapshot("memory.pickle")
assert pickle.load(open("memory.pickle", "rb"))["segments"]
assert cistern.memory_info()["limit"] == 1 << 30""", CISTERN_CONF="record:file.trace,limit:1GiB")
        self.assertTrue((self.folder / "file.trace").exists())


if __name__ == "__main__":
    arguments = run_test.parse_settings()
    probe_python, probe_environment = run_torch_test.python_with_torch()
    if subprocess.call([probe_python, "-c", "import torch"], env={**os.environ, **probe_environment}) != 0:
        print("skipped: this torch has no Python")
        sys.exit(77)
    unittest.main(argv=arguments)
