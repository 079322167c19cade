#!/usr/bin/env python3
"""cistern replay as a user meets it: what it prints, what it says about wrong input, what it leaves behind.

    replay_test.py PROGRAM [arguments of unittest]
"""
import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = ""
HEADER = "action,id,bytes,stream\n"
SMALL = HEADER + "alloc,1,3145728,0\nalloc,2,700,0\nfree,1,3145728,0\nalloc,3,2000000,0\n"


class Replay(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.small = self.file("small.csv", SMALL)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def run_program(self, *arguments, environment=None):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=60, env={**os.environ, **(environment or {})})

    def refuses(self, code, says, *arguments):
        before = sorted(os.listdir(self.folder))
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("cistern: "), done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "nothing left behind")

    def refuses_trace(self, says, content, name="bad.csv"):
        self.refuses(1, says, "replay", self.file(name, content))

    def json_of(self, *arguments):
        done = self.run_program("replay", "--json", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    # What it prints.

    def test_table_has_a_row_per_file_and_strategy(self):
        done = self.run_program("replay", self.small, "--strategy", "growth,geometric,preallocate", self.small)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 7)
        self.assertEqual(len({len(line) for line in done.stdout.splitlines()}), 1, "columns stand in line")

    def test_json_of_one_file_is_an_object_and_of_several_an_array(self):
        one = self.json_of(self.small, "--strategy", "growth,preallocate")
        self.assertEqual(one["trace"], self.small)
        growth, preallocate = one["runs"]
        self.assertEqual((growth["strategy"], preallocate["strategy"]), ("growth", "preallocate"))
        self.assertEqual(growth["lower_bound_bytes"], 3145728 + 700)
        self.assertAlmostEqual(growth["ratio"], growth["peak_reserved_bytes"] / growth["lower_bound_bytes"])
        self.assertEqual(sum(growth["served"].values()), 3)
        self.assertIsNone(growth["preallocate_bytes"])
        self.assertIsNone(growth["limit_bytes"])
        self.assertGreater(growth["ns_per_operation"], 0)
        self.assertEqual([entry["trace"] for entry in self.json_of(self.small, str(self.small))], [self.small] * 2)

    def test_sources_limits_and_options_reach_the_allocator(self):
        run = self.json_of(self.small, "--source", "malloc", "--granule", "1MiB", "--capacity", "1GiB",
                           "--limit", "50%", "--conf", "remap_slack:0.02")["runs"][0]
        self.assertEqual((run["source"], run["granule_bytes"], run["capacity_bytes"]), ("malloc", 1 << 20, 1 << 30))
        self.assertEqual(run["limit_bytes"], 1 << 29)
        self.assertEqual(self.json_of(self.small, "--conf", "strategy:geometric")["runs"][0]["strategy"], "geometric")
        self.assertEqual(
            self.json_of(self.small, "--strategy", "preallocate", "--preallocate", "64MiB")["runs"][0]
            ["preallocate_bytes"], 64 << 20)

    def test_gzip_and_plain_are_the_same(self):
        packed = self.file("packed.csv.gz", gzip.compress(SMALL.encode()))
        self.assertEqual(self.json_of(packed)["runs"][0]["placement_hash"],
                         self.json_of(self.small)["runs"][0]["placement_hash"])

    def test_the_picture_is_wellformed(self):
        done = self.run_program("replay", self.small, "--strategy", "growth,preallocate", "--svg", "heap.svg")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        xml.etree.ElementTree.parse(self.folder / "heap.svg")
        self.assertEqual(sorted(os.listdir(self.folder)), ["heap.svg", "small.csv"])

    def test_help_names_every_flag(self):
        done = self.run_program("replay", "--help")
        self.assertEqual(done.returncode, 0)
        for flag in ("strategy", "source", "granule", "limit", "capacity", "preallocate", "repeat", "json", "svg",
                     "conf"):
            self.assertIn("--" + flag, done.stdout)
        self.assertEqual(self.run_program("--help").returncode, 0)

    def test_the_environment_does_not_change_a_replay(self):
        done = self.run_program("replay", self.small, environment={"CISTERN_CONF": "limt:1GiB"})
        self.assertEqual(done.returncode, 0)

    def test_failed_allocations_are_told_after_the_table(self):
        done = self.run_program("replay", self.small, "--limit", "3MiB")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("\n"), 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("allocations failed", done.stderr)

    # What the command line alone shows: 2.

    def test_wrong_command_lines(self):
        for says, arguments in {
                "subcommand is required": [],
                "FILE is required": ["replay"],
                "--frob": ["replay", self.small, "--frob"],
                "did you mean growth?": ["replay", self.small, "--strategy", "grwth"],
                "did you mean preallocate?": ["replay", self.small, "--strategy", "growth,prealocate"],
                "ring not in": ["replay", self.small, "--source", "ring"],
                "--limit: ": ["replay", self.small, "--limit", "banana"],
                "512MiB": ["replay", self.small, "--limit", "512"],
                "--preallocate: ": ["replay", self.small, "--preallocate", "-1GiB"],
                "not a power of two": ["replay", self.small, "--granule", "3MiB"],
                "--capacity: ": ["replay", self.small, "--capacity", "9223372036854775808"],
                "--repeat": ["replay", self.small, "--repeat", "0"],
                "limt": ["replay", self.small, "--conf", "limt:1GiB"],
                "does not apply": ["replay", self.small, "--conf", "record:x"],
                "--svg draws one trace": ["replay", self.small, self.small, "--svg", "x.svg"],
        }.items():
            with self.subTest(says):
                self.refuses(2, says, *arguments)

    # What files hold: 1.

    def test_files_that_are_not_there_or_not_writable(self):
        self.refuses(1, "nothing.csv: cannot open: No such file", "replay", "nothing.csv")
        self.refuses(1, "is a directory", "replay", str(self.folder))
        self.refuses(1, "no/heap.svg: cannot write: No such file", "replay", self.small, "--svg", "no/heap.svg")
        self.refuses(1, "nothing.csv", "replay", self.small, "nothing.csv")

    def test_csv_lines_that_are_wrong(self):
        for says, lines in {
                "line 2: frees 5, which is not live": "free,5,10,0\n",
                "line 3: allocates 5, which is live already": "alloc,5,10,0\nalloc,5,10,0\n",
                "line 3: frees 5 with 11 bytes, allocated with 10": "alloc,5,10,0\nfree,5,11,0\n",
                "line 2: bytes is negative: -10": "alloc,5,-10,0\n",
                "line 2: 9223372036854775808 bytes": "alloc,5,9223372036854775808,0\n",
                "line 2: unknown action \"realloc\"": "realloc,5,10,0\n",
                "line 2: expected four fields": "alloc,5\n",
                "no operation": "",
        }.items():
            with self.subTest(says):
                self.refuses_trace("bad.csv: " + says, HEADER + lines)

    def test_files_that_are_no_traces(self):
        self.refuses_trace("no header", "")
        self.refuses_trace("line 1: expected the header", "alloc,1,10,0\n")
        self.refuses_trace("line 1: expected the header", bytes(range(256)) * 20)
        whole = gzip.compress((HEADER + "".join(f"alloc,{i},512,0\n" for i in range(5000))).encode())
        self.refuses_trace("the gzip stream is cut off", whole[:-200], "cut.csv.gz")
        self.refuses_trace("the gzip stream is corrupt", whole[:400] + b"\0\0\0" + whole[403:], "corrupt.csv.gz")

    def test_event_traces_that_are_wrong(self):
        header = b"CISTRACE" + struct.pack("<IIQQH30x", 1, 56, 2 << 20, 1 << 30, 0)
        event = struct.pack("<QQQQQQIHBB", 0, 4096, 512, 512, 0, 0, 0, 0, 0, 1)
        free = struct.pack("<QQQQQQIHBB", 1, 8192, 512, 512, 0, 0, 0, 0, 0, 2)
        footer = struct.pack("<16xQ32x", 1)
        self.json_of(self.file("good.trace", header + event + footer))
        self.refuses_trace("record 1: the file is cut off", header + event, "cut.trace")
        self.refuses_trace("cut off inside its header", header[:30], "cut.trace")
        self.refuses_trace("version 9", header.replace(b"CISTRACE\1", b"CISTRACE\x09") + event + footer, "new.trace")
        self.refuses_trace("event 1: frees 8192, which is not live",
                           header + event + free + struct.pack("<16xQ32x", 2), "free.trace")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
