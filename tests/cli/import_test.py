#!/usr/bin/env python3
"""cistern import as a user meets it: memory snapshots and RMM logs become traces, and files from anybody are only data.

    import_test.py PROGRAM [arguments of unittest]
"""
import gzip
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
MIB = 1 << 20
STREAM = 0x7f0123456789
RMM = "Thread,Time,Action,Pointer,Size,Stream\n"


def event(action, address, size, stream=0):
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": 1,
            "frames": [{"name": "train", "filename": "/home/somebody/train.py", "line": 1}]}


def block(address, size, state="active_allocated", requested=None):
    return {"address": address, "size": size, "requested_size": requested or size, "state": state, "frames": []}


def snapshot():
    """At the start: 0x1000, of 700 bytes, and 0x9000, on another stream. At the end: 0x9000 and 0x3000."""
    return {"segments": [
        {"device": 0, "address": 0x1000, "total_size": 2 * MIB, "stream": 0,
         "blocks": [block(0x1000, 1024, "inactive"), block(0x3000, 512, requested=300)]},
        {"device": 0, "address": 0x9000, "total_size": 20 * MIB, "stream": STREAM, "blocks": [block(0x9000, 5 * MIB)]},
        {"device": 1, "address": 0xf000, "total_size": 2 * MIB, "stream": 0, "blocks": [block(0xf000, 512)]}],
        "device_traces": [[
            event("segment_alloc", 0x9000, 20 * MIB, STREAM), event("alloc", 0x2000, 4096),
            event("segment_free", 0x50000, 30 * MIB), event("free_requested", 0x1000, 700),
            event("free_completed", 0x1000, 700), event("alloc", 0x3000, 300),
            event("free_requested", 0x2000, 4096), event("free_completed", 0x2000, 4096)], []]}


class Import(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=60)

    def imported(self, content, *arguments, name="recorded"):
        done = self.run_program("import", self.file(name, content), "--out", "out.csv", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertEqual(self.run_program("replay", "out.csv").returncode, 0)
        return (self.folder / "out.csv").read_text()

    def refuses(self, says, content, *arguments, code=1):
        path = self.file("recorded", content)
        before = sorted(os.listdir(self.folder))
        done = self.run_program("import", path, "--out", "out.csv", *arguments)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (code, "", 1), done)
        self.assertTrue(done.stderr.startswith("cistern: "), done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before, "nothing left behind")

    # Memory snapshots.

    def test_a_snapshot_begins_with_what_its_events_leave_of_the_end(self):
        self.assertEqual(self.imported(pickle.dumps(snapshot())),
                         "# initial_blocks=2 pytorch_peak_reserved_bytes=54525952\n# peak_live_bytes=5247676\n"
                         "action,id,bytes,stream\nalloc,0,700,0\nalloc,1,5242880,1\nalloc,2,4096,0\nfree,0,700,0\n"
                         "alloc,3,300,0\nfree,2,4096,0\n")

    def test_every_protocol_of_python_3_and_gzip_read_alike(self):
        expected = self.imported(pickle.dumps(snapshot()))
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            self.assertEqual(self.imported(pickle.dumps(snapshot(), protocol)), expected, protocol)
        self.assertEqual(self.imported(gzip.compress(pickle.dumps(snapshot()))), expected)

    def test_nothing_of_paths_and_frames_gets_into_the_trace(self):
        self.assertNotIn("somebody", self.imported(pickle.dumps(snapshot())))

    def test_a_device_has_to_be_named_where_several_have_a_history(self):
        both = snapshot()
        both["device_traces"][1] = [event("alloc", 0xf000, 512)]
        self.refuses("has histories of the devices 0, 1: --device says which", pickle.dumps(both))
        self.assertIn("alloc,0,512,0\n", self.imported(pickle.dumps(both), "--device", "1"))
        self.refuses("has no history of device 7, but of 0, 1", pickle.dumps(both), "--device", "7")

    def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(self):
        class Harm:
            def __reduce__(self):
                return os.system, ("touch harmed",)

        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            self.refuses("wants to build an object of a class, or to call something",
                         pickle.dumps({"segments": [], "device_traces": [[Harm()]]}, protocol))
        self.assertFalse((self.folder / "harmed").exists())

    def test_pickles_that_are_no_snapshots(self):
        self.refuses('has no list "device_traces"', pickle.dumps([1, 2]))
        self.refuses("has no events: record them", pickle.dumps({"segments": [], "device_traces": [[]]}))
        self.refuses('no text "action"', pickle.dumps({"segments": [], "device_traces": [[{"addr": 1}]]}))
        self.refuses("the pickle is cut off", pickle.dumps(snapshot())[:-300])
        lost = snapshot()
        del lost["device_traces"][0][6]
        self.refuses("event 1 allocates what is not live after it", pickle.dumps(lost))

    # Logs of RMM.

    def test_an_rmm_log_becomes_a_trace(self):
        log = RMM + ("7,12:00:00:000001,allocate,0x7f0000000000,1024,0x0\n8,12:00:00:000002,allocate,0x7f0000000400,2048,0x2\n"
                     "7,12:00:00:000003,allocate failure,(nil),999999999999,0x0\n7,12:00:00:000004,free,0x7f0000000000,1024,0x0\n"
                     "7,12:00:00:000005,free,0x7f00000f0000,512,0x1\n")
        self.assertEqual(self.imported(log),
                         "# initial_blocks=1\n# peak_live_bytes=3584\naction,id,bytes,stream\nalloc,0,512,0\nalloc,1,1024,0\n"
                         "alloc,2,2048,1\nfree,1,1024,0\nfree,0,512,0\n")

    def test_rmm_lines_that_are_wrong(self):
        for says, line in {"line 2: expected six fields": "7,x,allocate,0x1,1024\n",
                           "line 2: Pointer is not a number": "7,x,allocate,0xzz,1024,0x0\n",
                           "line 2: Size is not a number": "7,x,allocate,0x1,-5,0x0\n",
                           "line 2: unknown action": "7,x,reallocate,0x1,5,0x0\n",
                           "line 3: allocates what is live already": "7,x,allocate,0x1,5,0x0\n" * 2,
                           "line 3: frees with 6 bytes what was allocated with 5":
                               "7,x,allocate,0x1,5,0x0\n7,x,free,0x1,6,0x0\n",
                           "has no allocation in it": ""}.items():
            with self.subTest(says):
                self.refuses(says, RMM + line)
        self.refuses("--device applies to memory snapshots only", RMM, "--device", "0", code=2)

    def test_files_that_are_neither(self):
        self.refuses("is neither a memory snapshot of PyTorch (a pickle) nor a log of RMM", "hello\n")
        self.refuses("is neither", "")
        done = self.run_program("import", "nothing.pickle", "--out", "x.csv")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        done = self.run_program("import", self.file("log.csv", RMM + "1,x,allocate,0x1,5,0x0\n"), "--out", "no/x.csv")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/x.csv: cannot write", done.stderr)
        self.assertEqual(self.run_program("import", "log.csv").returncode, 2)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
