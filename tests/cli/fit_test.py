#!/usr/bin/env python3
"""cistern fit as a user meets it.

    fit_test.py PROGRAM [arguments of unittest]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
MIB = 1 << 20
# At most 5 MiB are live; where memory comes in whole segments, the second block keeps the first one's.
PINNED = "action,id,bytes,stream\nalloc,1,4194304,0\nfree,1,4194304,0\nalloc,2,1048576,0\nalloc,3,4194304,0\n"


class Fit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace = str(self.folder / "pinned.csv")
        pathlib.Path(self.trace).write_text(PINNED)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, "fit", *arguments], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=60)

    def json_of(self, *arguments):
        done = self.run_program("--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_memory_that_moves_needs_less_than_whole_segments(self):
        vmm, = self.json_of(self.trace, "--granule", "1MiB")
        whole, = self.json_of(self.trace, "--granule", "1MiB", "--source", "malloc")
        self.assertEqual((vmm["lower_bound_bytes"], vmm["smallest_bytes"], vmm["ratio"]), (5 * MIB, 5 * MIB, 1.0))
        self.assertGreaterEqual(whole["smallest_bytes"], 8 * MIB)
        self.assertEqual(whole["ratio"], whole["smallest_bytes"] / (5 * MIB))

    def test_it_says_how_many_smaller_devices_failed(self):
        found, = self.json_of(self.trace, "--granule", "1MiB", "--source", "malloc")
        self.assertEqual(found["smaller_count"], found["smallest_bytes"] // MIB - 5)
        self.assertEqual(found["smaller_tried"], found["smaller_count"])

    def test_table_has_a_row_per_file_and_strategy(self):
        done = self.run_program(self.trace, "--strategy", "growth,geometric,preallocate", self.trace)
        self.assertEqual((done.returncode, done.stderr, done.stdout.count("\n")), (0, "", 7))
        self.assertIn("smallest device", done.stdout)

    def test_a_trace_that_fits_nowhere_is_told_after_the_table(self):
        done = self.run_program(self.trace, "--capacity", "4MiB")
        self.assertEqual((done.returncode, done.stdout.count("\n"), done.stderr.count("\n")), (1, 2, 1))
        self.assertIn("completes on no device of up to 4 MiB", done.stderr)

    def test_wrong_input_gets_one_line(self):
        for code, says, arguments in ((2, "FILE is required", []), (2, "did you mean growth?", [self.trace, "--strategy", "grow"]),
                                      (2, "not a power of two", [self.trace, "--granule", "3MiB"]),
                                      (1, "nothing.csv: cannot open", ["nothing.csv"])):
            with self.subTest(says):
                done = self.run_program(*arguments)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1), done)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
