#!/usr/bin/env python3
"""cistern-bench as a user meets it, with no peer but glibc: what is absent is said, what was measured has one shape.

    bench_test.py PROGRAM [arguments of unittest]
"""
import html.parser
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HEADER = "action,id,bytes,stream\n"
SMALL = HEADER + "alloc,1,3145728,0\nalloc,2,700,0\nfree,1,3145728,0\nalloc,3,2000000,0\n"
OURS = "cistern-growth-vmm"


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.small = self.file("work_small.csv", SMALL)
        self.other = self.file("work_other.csv", SMALL + "use,2,700,3\nsync,0,0,3\nfree,2,700,0\n")

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return str(path)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=240)

    def results(self, *arguments):
        done = self.run_program(*arguments, "--json", "-", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done)
        return json.loads(done.stdout)

    def refuses(self, code, says, *arguments):
        before = sorted(os.listdir(self.folder))
        done = self.run_program(*arguments)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1), done)
        self.assertTrue(done.stderr.startswith("cistern-bench: "), done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "nothing left behind")

    def test_a_replay_has_its_figures(self):
        results = self.results(self.small, "--peers", f"{OURS},cistern-preallocate-vmm", "--fit")
        trace, = results["traces"]
        self.assertEqual((trace["name"], trace["operations"], trace["lower_bound_bytes"]), ("work_small", 4, 3146428))
        growth, preallocate = results["replays"]
        self.assertTrue(growth["completed"])
        self.assertEqual(growth["ratio"], growth["peak_reserved_bytes"] / 3146428)
        self.assertEqual(len(growth["source_calls"]), 4)
        self.assertGreater(growth["source_calls"][0], 0)
        self.assertEqual(growth["source_calls"][-1], 0, "steady state")
        self.assertGreater(growth["cold_ns"], 0)
        self.assertIsNone(preallocate["ratio"], "its size is what it was told")
        fit = results["fits"][0]
        self.assertEqual((fit["smallest_bytes"] % (2 << 20), fit["fits"]), (0, True))

    def test_absent_contenders_are_among_the_results_with_the_reason(self):
        results = self.results(self.small, "--peers", f"{OURS},rmm-arena,cuda-async")
        absent = {one["name"]: one["why_absent"] for one in results["contenders"]}
        self.assertEqual(absent[OURS], "")
        self.assertIn("source build", absent["rmm-arena"])
        self.assertIn("no stream-ordered pool", absent["cuda-async"])
        self.assertEqual([row["contender"] for row in results["replays"]], [OURS])
        done = self.run_program(self.small, "--peers", f"{OURS},rmm-arena", "--rounds", "1")
        self.assertIn("absent: rmm-arena: ", done.stdout)

    def test_the_list_has_every_contender_there_or_absent(self):
        done = self.run_program("--list")
        self.assertEqual(done.returncode, 0)
        lines = done.stdout.splitlines()
        for name in (OURS, "torch-native", "torch-expandable", "bfc-growing", "rmm-growing", "glibc", "jemalloc", "tcmalloc",
                     "mimalloc"):
            line, = [line for line in lines if line.split()[0] == name]
            self.assertTrue(line.endswith("there") or "absent: " in line, line)

    def test_one_out_of_memory_is_told_and_leaves_the_others(self):
        pinned = self.file("pinned.csv", HEADER + "alloc,1,4194304,0\nfree,1,4194304,0\nalloc,2,1048576,0\nalloc,3,4194304,0\n")
        arguments = pinned, "--peers", f"{OURS},cistern-growth-malloc", "--capacity", "5MiB", "--granule", "1MiB"
        ours, whole = self.results(*arguments)["replays"]
        self.assertTrue(ours["completed"])
        self.assertEqual((whole["completed"], whole["why"]), (False, "out of memory"))
        self.assertIn("not measured: cistern-growth-malloc on pinned: out of memory",
                      self.run_program(*arguments, "--rounds", "1").stdout)

    def test_without_a_trace_there_are_pairs_by_live_blocks_and_threads(self):
        done = self.run_program("--scaling", "--peers", OURS, "--rounds", "1", "--json", "out.json", "--html", "out.html")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("churn 100000", done.stdout)
        rows = json.loads((self.folder / "out.json").read_text())["scaling"]
        self.assertEqual({row["what"] for row in rows}, {"pairs", "churn"})
        self.assertTrue(all(row["ns_per_pair"] > 0 for row in rows))

    def test_cpu_memory_is_touched(self):
        results = self.results(self.small, "--peers", "cistern-host,glibc")
        for row in results["replays"]:
            self.assertGreaterEqual(row["peak_reserved_bytes"], 3 << 20, row)

    def test_tables_have_a_column_a_trace_without_what_names_share(self):
        done = self.run_program(self.small, self.other, "--peers", f"{OURS},cistern-growth-malloc", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"peak reserved / lower bound +small +other\n")
        self.assertRegex(done.stdout, OURS + r" +\d\.\d{4} +\d\.\d{4}\n")

    def test_the_page_is_whole_and_asks_nothing_of_the_network(self):
        done = self.run_program(self.small, "--peers", f"{OURS},cistern-growth-malloc", "--rounds", "1", "--fit", "--html", "out.html")
        self.assertEqual(done.returncode, 0, done)
        text = (self.folder / "out.html").read_text()
        html.parser.HTMLParser().feed(text)
        self.assertGreaterEqual(text.count("<svg"), 3)
        self.assertEqual(text.count("<svg"), text.count("</svg>"))
        for outside in ("http:", "https:", "src=", "<script", "@import"):
            self.assertNotIn(outside, text)
        self.assertEqual(sorted(os.listdir(self.folder)), ["out.html", "work_other.csv", "work_small.csv"])

    def test_wrong_command_lines(self):
        for says, arguments in {"no TRACE is given": [], "--rounds: at least 1": [self.small, "--rounds", "0"],
                                "no contender is called nobody": [self.small, "--peers", "nobody"],
                                "--frob": [self.small, "--frob"], "not a power of two": [self.small, "--granule", "3MiB"],
                                "invalid size value": [self.small, "--capacity", "banana"],
                                "its folder does not exist": [self.small, "--json", "no/x.json"],
                                "two traces have one name": [self.small, self.small]}.items():
            with self.subTest(says):
                self.refuses(2, says, *arguments)

    def test_traces_that_are_none(self):
        self.refuses(1, "nothing.csv: no such file", "nothing.csv")
        self.refuses(1, "line 2: frees 5, which is not live", self.file("bad.csv", HEADER + "free,5,10,0\n"))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
