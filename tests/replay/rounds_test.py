#!/usr/bin/env python3
"""cistern generate and cistern replay --rounds, from the command line: rounds_test.py CISTERN"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


def run(*arguments, code=0):
    result = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
    return result


class Rounds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name) / "trace.csv.gz"

    def test_the_same_seed_writes_the_same_file_and_says_how_it_was_made(self):
        arguments = ["generate", "large_tensors", "--seed", 7, "--set", "steps=10", "--out", self.trace]
        self.assertIn("operations, at most", run(*arguments).stdout)
        first = gzip.decompress(self.trace.read_bytes())
        self.assertTrue(first.startswith(b"# cistern generate large_tensors --seed 7 --set steps=10\n# peak_live_bytes="))
        run(*arguments)
        self.assertEqual(gzip.decompress(self.trace.read_bytes()), first)

    def test_rounds_are_told_one_by_one(self):
        run("generate", "graph_pools", "--out", self.trace)
        told = json.loads(run("replay", self.trace, "--rounds", 3, "--json").stdout)
        self.assertEqual(len(told["rounds"]), 3)
        self.assertGreater(told["rounds"][0]["source_calls"], 0)
        self.assertEqual(told["rounds"][2]["source_calls"], 0)
        first = told["rounds"][0]
        self.assertAlmostEqual(first["modelled_driver_ms"], first["mapped_granules"] * 0.08)
        self.assertEqual(run("replay", self.trace, "--rounds", 3).stdout.count("\n"), 4)

    def test_what_is_wrong_is_said_in_one_line_and_leaves_no_file(self):
        for arguments, what in [
            (["generate", "nothing", "--out", self.trace], 'no workload is named "nothing"'),
            (["generate", "large_tensors", "--set", "steps", "--out", self.trace], '"steps" is not PARAMETER=NUMBER'),
            (["generate", "large_tensors", "--set", "steps=0", "--out", self.trace], "steps: 0 is not from 1"),
            (["generate", "large_tensors", "--set", "no=1", "--out", self.trace], 'has no parameter "no"'),
            (["replay", self.trace, "--lag", "5"], "--lag needs --rounds"),
        ]:
            complaint = run(*arguments, code=2).stderr
            self.assertIn(what, complaint)
            self.assertEqual(complaint.count("\n"), 1)
        self.assertFalse(self.trace.exists())


if __name__ == "__main__":
    unittest.main()
