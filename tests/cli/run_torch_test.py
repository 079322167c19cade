#!/usr/bin/env python3
"""cistern run over unmodified Python programs that use torch: their tensors are cistern's, with every flag, in children
too. Exit code 77 where the torch of this build has no Python.

    run_torch_test.py --program CISTERN --preload LIBCISTERN_PRELOAD --site-packages DIR
                      [--fake-runtime LIBCUDART:LIBCUDA] [arguments of unittest]
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import unittest

import run_test
from run_test import SETTINGS, RunCase

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20
# What a program may ask through the C interface, which it need not know to be served.
ASK = "import sys; sys.path.insert(0, {!r}); import cistern\n".format(str(ROOT / "tools" / "python"))


def python_with_torch():
    """The interpreter, and what its environment needs."""
    site_packages = pathlib.Path(SETTINGS.site_packages)
    own = site_packages.parents[2] / "bin" / "python"
    environment = {} if own.exists() else {"PYTHONPATH": str(site_packages)}
    return str(own if own.exists() else sys.executable), environment


class TorchCase(RunCase):
    def python(self, flags, script, *arguments, **environment):
        python, needed = python_with_torch()
        return self.run_under(flags, python, "-c", textwrap.dedent(script), *arguments, OMP_NUM_THREADS="1", **needed,
                              CISTERN_LIBRARY_DIR=os.path.dirname(SETTINGS.preload), **environment)

    def output_of(self, flags, script, *arguments, **environment):
        done = self.python(flags, script, *arguments, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout


class Serves(TorchCase):
    def test_tensors_are_ours_after_the_first_one(self):
        out = self.output_of([], ASK + textwrap.dedent("""
            import torch
            loaded = lambda: "libcistern_c10_cpu" in open("/proc/self/maps").read()
            print(loaded())
            first = torch.ones(3)
            print(loaded())
            kept = torch.ones(1 << 20)
            before = cistern.memory_info()["requested"]
            more = kept + first[0]
            print(cistern.memory_info()["requested"] - before, float(more.sum()))
            del more, kept
            print(cistern.memory_info()["requested"] < before)
            """))
        self.assertEqual(out.split(), ["False", "True", str(4 * MIB), str(2.0 * MIB), "True"])

    def test_a_limit_is_torchs_own_error_and_what_fits_still_works(self):
        out = self.output_of(["--limit", "64MiB", "--strategy", "geometric"], """
            import torch
            torch.ones(1)
            try:
                torch.empty(100 << 20, dtype=torch.uint8)
            except torch.OutOfMemoryError as error:
                print(str(error).splitlines()[0])
            print(torch.ones(1 << 20).sum().item())
            """)
        self.assertRegex(out, r"\Acistern: out of memory .*limit of 64 MiB.*\n1048576.0\n\Z")

    def test_programs_that_the_command_starts_are_served_and_reported_too(self):
        done = self.python(["--report", "--strategy", "preallocate", "--limit", "32MiB"], """
            import subprocess, sys, torch
            torch.ones(1), torch.ones(1)
            if len(sys.argv) == 1:
                sys.exit(subprocess.call(["sh", "-c", '"$0" -c "$1" again', sys.executable, sys.orig_argv[2]]))
            """)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertEqual(done.stderr.count("cistern: memory of process"), 2, done.stderr)
        self.assertEqual(done.stderr.count("32 MiB now         32 MiB peak"), 2, done.stderr)
        self.assertLessEqual(done.stderr.count("\n"), 2 * 10, "one screen each")

    def test_threads_that_begin_together_and_children_of_fork(self):
        out = self.output_of([], ASK + textwrap.dedent("""
            import os, threading, torch
            barrier = threading.Barrier(8)
            def work():
                barrier.wait()
                for turn in range(200):
                    assert torch.full((1000,), turn).sum().item() == 1000 * turn
            threads = [threading.Thread(target=work) for _ in range(8)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            children = []
            for _ in range(4):
                child = os.fork()
                if child == 0:
                    before = cistern.memory_info()["requested"]
                    block = torch.ones(1 << 20)
                    os._exit(0 if cistern.memory_info()["requested"] - before == 4 << 20 else 1)
                children.append(child)
            print([os.waitpid(child, 0)[1] for child in children])
            """))
        self.assertEqual(out, "[0, 0, 0, 0]\n")

    def test_a_recording_can_be_replayed(self):
        self.output_of(["--record", "run.trace"], """
            import os, torch
            os.chdir("/")
            for size in range(1, 100):
                torch.ones(size * 1000)
            """)
        done = self.call(SETTINGS.program, "replay", "--json", "run.trace")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreaterEqual(json.loads(done.stdout)["operations"], 196)

    def test_an_epoch_gives_the_same_weights_with_hardly_a_page_fault(self):
        python, needed = python_with_torch()
        command = [python, str(ROOT / "tests" / "perf" / "mnist_epoch.py"), "--threads", "1", "--images", "2560"]
        plain, ours = (json.loads(self.call(*before, *command, OMP_NUM_THREADS="1", **needed).stdout)
                       for before in ([], [SETTINGS.program, "run", "--devices", "cpu", "--"]))
        self.assertEqual(ours["checksum"], plain["checksum"])
        self.assertEqual(ours["val_accuracy"], plain["val_accuracy"])
        self.assertLess(ours["epoch_page_faults"][1], 200)

    def test_a_device_that_is_not_wanted_is_left_alone(self):
        python, needed = python_with_torch()
        done = self.call(python, "-c", 'import torch; torch.ones(1); print("c10_cpu" in open("/proc/self/maps").read())',
                         LD_PRELOAD=SETTINGS.preload, CISTERN_DEVICES="cuda", **needed)
        self.assertEqual((done.stdout, done.stderr), ("False\n", ""))


class ServesCuda(TorchCase):
    def setUp(self):
        super().setUp()
        if not SETTINGS.fake_runtime:
            self.skipTest("without the CUDA plug")

    def test_cuda_and_cpu_tensors_are_ours_each_under_the_limit(self):
        out = self.output_of(["--devices", "cpu,cuda", "--limit", "64MiB"], ASK + textwrap.dedent("""
            import torch
            print("libcistern_c10_cuda" in open("/proc/self/maps").read(), torch.cuda.device_count())
            kept = torch.empty(4 << 20, dtype=torch.uint8, device="cuda:1")
            on_cpu = [torch.empty(3), torch.empty(3)]
            print(torch.cuda.memory_allocated(1), cistern.memory_info(1)["current"], cistern.memory_info("cpu")["requested"])
            for device in ("cuda:1", "cpu"):
                try:
                    torch.empty(100 << 20, dtype=torch.uint8, device=device)
                except torch.OutOfMemoryError as error:
                    print(device, cistern.memory_info(device)["limit"])
            """), LD_PRELOAD=SETTINGS.fake_runtime)
        self.assertEqual(out.splitlines(), ["False 2", f"{4 * MIB} {4 * MIB} 12", f"cuda:1 {64 * MIB}", f"cpu {64 * MIB}"])

    def test_pinned_memory_is_ours_when_it_is_named_with_limit_report_and_trace(self):
        done = self.python(["--devices", "cuda,pinned", "--limit", "64MiB", "--report", "--record", "run.trace"],
                           ASK + textwrap.dedent("""
            import torch
            kept = torch.empty(5 << 20, dtype=torch.uint8).pin_memory()
            on_device = kept.cuda(non_blocking=True)
            print(kept.is_pinned(), cistern.memory_info("pinned")["current"], cistern.memory_info(0)["current"])
            try:
                torch.empty(100 << 20, dtype=torch.uint8, pin_memory=True)
            except torch.OutOfMemoryError as error:
                print(str(error).splitlines()[0])
            print("libcistern_c10_cpu" in open("/proc/self/maps").read())
            """), LD_PRELOAD=SETTINGS.fake_runtime)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, error, on_cpu = done.stdout.splitlines()
        self.assertEqual((first, on_cpu), (f"True {5 * MIB} {5 * MIB}", "False"))
        self.assertRegex(error, "cistern: out of memory .*limit of 64 MiB")
        self.assertRegex(done.stderr, r"\n pinned\n  requested +0 B now +5 MiB peak\n")
        for device in ("cuda:0", "pinned"):
            done = self.call(SETTINGS.program, "replay", "--json", "run.trace." + device)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertGreaterEqual(json.loads(done.stdout)["operations"], 1)

    def test_pinned_memory_alone_and_what_is_not_named_stays_torchs(self):
        for devices, served in (("pinned", (False, True)), ("cuda", (True, False))):
            with self.subTest(devices=devices):
                out = self.output_of(["--devices", devices], """
                    import torch
                    kept = [torch.empty(9, pin_memory=True), torch.empty(9, device="cuda")]
                    maps = open("/proc/self/maps").read()
                    print("libcistern_c10_cuda" in maps, "libcistern_c10_host" in maps)
                    """, LD_PRELOAD=SETTINGS.fake_runtime)
                self.assertEqual(out, "{} {}\n".format(*served))

    def test_what_a_plug_refuses_ends_the_program_with_one_line_and_2(self):
        done = self.python(["--devices", "pinned"], "import torch; torch.empty(9, pin_memory=True)",
                           LD_PRELOAD=SETTINGS.fake_runtime, TF_GPU_HOST_MEM_LIMIT_IN_MB="lots")
        self.check_one_line(done, 2, "TF_GPU_HOST_MEM_LIMIT_IN_MB='lots' is no number of mebibytes")
        self.assertEqual(done.stderr.count("cistern: "), 1, done.stderr)


class Refuses(TorchCase):
    def preload_by_hand(self, preload, **environment):
        python, needed = python_with_torch()
        script = "import torch; torch.ones(1); print('still here')"
        return self.call(python, "-c", script, LD_PRELOAD=preload, **needed, **environment)

    def test_a_wrong_configuration_ends_the_program_with_one_line_and_2(self):
        done = self.preload_by_hand(SETTINGS.preload, CISTERN_CONF="limt:1GiB")
        self.check_one_line(done, 2, "CISTERN_CONF: key 'limt' at character 0: there is no such key; the nearest is limit")
        done = self.preload_by_hand(SETTINGS.preload, CISTERN_CONF="record:/nonesuch/trace")
        self.check_one_line(done, 2, "/nonesuch/trace: ")

    def test_a_plug_that_does_not_lie_beside_the_preloaded_file(self):
        lonely = shutil.copy(SETTINGS.preload, self.folder)
        self.check_one_line(self.preload_by_hand(str(lonely)), 2, str(self.folder / "libcistern_c10_cpu.so.0.1"))


if __name__ == "__main__":
    arguments = run_test.parse_settings()
    probe_python, probe_environment = python_with_torch()
    if subprocess.call([probe_python, "-c", "import torch"], env={**os.environ, **probe_environment}) != 0:
        print("skipped: this torch has no Python")
        sys.exit(77)
    unittest.main(argv=arguments)
