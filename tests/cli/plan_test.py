#!/usr/bin/env python3
"""cistern plan as a user meets it: plans of runs and offsets of buffers, what it says about wrong input.

    plan_test.py PROGRAM [arguments of unittest]
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
RUN = "action,id,bytes,stream\nalloc,1,3145728,0\nalloc,2,700,0\nfree,1,3145728,0\nalloc,3,2000000,0\n"
BUFFERS = "id,lower,upper,size\na,0,2,300\nb,3,5,300\nc,1,4,200\nd,0,1,300\ne,4,5,300\nf,2,3,400\n"


class Plan(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_file = self.file("run.csv", RUN)
        self.buffers = self.file("buffers.csv", BUFFERS)

    def file(self, name, content):
        (self.folder / name).write_text(content)
        return str(self.folder / name)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=60)

    def succeeds(self, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def refuses(self, code, says, *arguments):
        before = sorted(os.listdir(self.folder))
        done = self.run_program(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "nothing left behind")

    def test_plan_of_a_run_is_what_replay_serves(self):
        told = self.succeeds("plan", self.run_file, "-o", "run.plan")
        self.assertIn("run.plan: 3 buffers, lower bound 3146428, height", told)
        plan = json.loads((self.folder / "run.plan").read_text())
        self.assertEqual([bytes for bytes, _ in plan["lanes"][0]["requests"]], [3145728, 700, 2000000])
        replayed = json.loads(self.succeeds("replay", self.run_file, "--strategy", "plan", "--plan", "run.plan", "--json"))
        self.assertEqual(replayed["runs"][0]["strategy"], "plan")
        self.assertEqual(replayed["runs"][0]["peak_reserved_bytes"], 4 << 20)

    def test_replay_makes_a_plan_of_the_trace_itself(self):
        replayed = json.loads(self.succeeds("replay", self.run_file, "--strategy", "plan", "--json"))
        self.assertEqual(replayed["runs"][0]["peak_reserved_bytes"], 4 << 20)

    def test_buffers_get_offsets_and_none_overlap(self):
        told = json.loads(self.succeeds("plan", self.buffers, "-o", "placed.csv", "--json"))
        self.assertEqual((told["kind"], told["lower_bound_bytes"], told["height_bytes"]), ("buffers", 600, 600))
        with open(self.folder / "placed.csv") as file:
            rows = [(row["id"], *(int(row[key]) for key in ("lower", "upper", "size", "offset")))
                    for row in csv.DictReader(file)]
        self.assertEqual([row[0] for row in rows], list("abcdef"))
        for one in rows:
            for other in rows:
                together = one is not other and one[1] < other[2] and other[1] < one[2]
                self.assertFalse(together and one[4] < other[4] + other[3] and other[4] < one[4] + one[3], (one, other))

    def test_wrong_input_gets_one_line(self):
        self.refuses(1, "absent.csv: cannot open", "plan", "absent.csv", "-o", "out")
        self.refuses(1, "line 2: a buffer of 0 bytes", "plan", self.file("zero.csv", "id,lower,upper,size\na,0,1,0\n"),
                     "-o", "out")
        self.refuses(1, "and so is the lower bound: nothing fits", "plan", self.buffers, "-o", "out", "--capacity", "500")
        self.refuses(1, "out: ", "plan", self.buffers, "-o", "no/such/folder/out")
        self.refuses(1, "is no plan", "replay", self.run_file, "--strategy", "plan", "--plan",
                     self.file("bad.json", "{}"))
        self.refuses(2, "--output is required", "plan", self.buffers)
        self.refuses(2, "--granule: 3MiB is not a power of two", "plan", self.run_file, "-o", "out", "--granule", "3MiB")
        self.refuses(2, "--capacity", "plan", self.run_file, "-o", "out", "--capacity", "much")

    def test_help_tells_the_formats(self):
        told = self.succeeds("plan", "--help")
        for word in ("id,lower,upper,size", "action,id,bytes,stream", "--seconds", "Exit code"):
            self.assertIn(word, told)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
