#!/usr/bin/env python3
"""cistern run as a user meets it, without torch: what it hands on, what it refuses, and that it does nothing to
programs that are none of its business.

    run_test.py --program CISTERN --preload LIBCISTERN_PRELOAD [arguments of unittest]
"""
import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SETTINGS = argparse.Namespace(program="", preload="", site_packages="", fake_runtime="")  # Paths; the last a list.


class RunCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def call(self, *command, **environment):
        """Runs a command as it is."""
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith("CISTERN_") and key not in ("LD_PRELOAD", "PYTHONPATH")}
        return subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              universal_newlines=True, timeout=120, env={**clean, **environment})

    def run_under(self, flags, *command, **environment):
        return self.call(SETTINGS.program, "run", *flags, "--", *command, **environment)

    def environment_under(self, *flags, **environment):
        """What COMMAND finds in its environment."""
        done = self.run_under(flags, "env", **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def check_one_line(self, done, code, says):
        self.assertEqual((done.returncode, done.stdout), (code, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("cistern: "), done.stderr)
        self.assertIn(says, done.stderr)


class HandsOn(RunCase):
    def test_the_exit_code_output_and_arguments_are_those_of_the_command(self):
        done = self.run_under([], "sh", "-c", 'cat; echo "$1|$2|$3"; echo to stderr >&2; exit 7', "sh", "--limit", "--",
                              "a b")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (7, "--limit|--|a b\n", "to stderr\n"))

    def test_it_becomes_the_command_so_signals_reach_it(self):
        done = self.run_under([], "sh", "-c", "kill -TERM $$")
        self.assertEqual(done.returncode, -signal.SIGTERM)
        process = subprocess.Popen([SETTINGS.program, "run", "--", "sh", "-c", "echo $$"], stdout=subprocess.PIPE)
        self.assertEqual(int(process.communicate()[0]), process.pid)

    def test_a_preload_that_is_there_stays_behind_ours(self):
        self.assertEqual(self.environment_under()["LD_PRELOAD"], SETTINGS.preload)
        there = self.environment_under(LD_PRELOAD="libm.so.6:libdl.so.2")["LD_PRELOAD"]
        self.assertEqual(there, SETTINGS.preload + ":libm.so.6:libdl.so.2")

    def test_flags_become_the_configuration(self):
        environment = self.environment_under("--limit", "8GiB", "--strategy", "preallocate", "--preallocate", "1GiB",
                                             "--trim", "idle", "--record", "run.trace", "--report")
        self.assertEqual(set(environment["CISTERN_CONF"].split(",")),
                         {"limit:8GiB", "strategy:preallocate", "preallocate:1GiB", "trim:idle",
                          f"record:{os.path.realpath(self.folder)}/run.trace"})
        self.assertEqual((environment["CISTERN_DEVICES"], environment["CISTERN_REPORT"]), ("cpu", "1"))

    def test_flags_win_over_the_environment_which_is_otherwise_kept(self):
        environment = self.environment_under("--limit", "1GiB", CISTERN_CONF="misuse:report,limit:2GiB,trim:idle")
        self.assertEqual(environment["CISTERN_CONF"], "misuse:report,trim:idle,limit:1GiB")

    def test_without_flags_nothing_is_configured_or_reported(self):
        environment = self.environment_under()
        self.assertEqual(environment["CISTERN_CONF"], "")
        self.assertNotIn("CISTERN_REPORT", environment)


class DoesNothingElsewhere(RunCase):
    def test_a_shell_runs_and_says_nothing(self):
        done = self.run_under(["--report"], "sh", "-c", "true")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_wrong_configuration_is_no_matter_of_programs_without_torch(self):
        done = self.call("sh", "-c", "echo fine", LD_PRELOAD=SETTINGS.preload, CISTERN_CONF="limt:1GiB")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "fine\n", ""))

    def test_python_without_torch_gets_aligned_memory_from_where_it_always_did(self):
        """Many threads and a child that forks, all of which call the interposed function."""
        script = """if True:
            import ctypes, os, threading
            libc = ctypes.CDLL(None)
            def work():
                for turn in range(20000):
                    block = ctypes.c_void_p()
                    assert libc.posix_memalign(ctypes.byref(block), 4096, 100) == 0
                    assert block.value % 4096 == 0
                    libc.free(block)
            threads = [threading.Thread(target=work) for _ in range(4)]
            [thread.start() for thread in threads]
            child = os.fork()
            if child == 0:
                work()
                os._exit(0)
            [thread.join() for thread in threads]
            assert os.waitpid(child, 0)[1] == 0
            assert libc.posix_memalign(ctypes.byref(ctypes.c_void_p()), 3, 100) == 22  # EINVAL
            loaded = open("/proc/self/maps").read()
            assert "libcistern_preload" in loaded and "libcistern_c10_cpu" not in loaded
            print("ok")"""
        done = self.run_under(["--report"], sys.executable, "-S", "-c", script)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ok\n", ""))

    def test_the_preloaded_file_needs_the_c_library_only(self):
        if shutil.which("readelf") is None:
            self.skipTest("readelf is not installed")
        needed = [line for line in self.call("readelf", "-d", SETTINGS.preload).stdout.splitlines() if "NEEDED" in line]
        self.assertEqual(len(needed), 1)
        self.assertIn("[libc.so.6]", needed[0])


class Refuses(RunCase):
    def refuses(self, says, flags, **environment):
        marker = self.folder / "started"
        self.check_one_line(self.run_under(flags, "touch", str(marker), **environment), 2, says)
        self.assertFalse(marker.exists(), "the command was started")

    def test_wrong_flags_before_the_command_starts(self):
        for flags, says in ((["--limit", "banana"], "--limit: "), (["--limit", "512"], "512MiB"),
                            (["--limit", "1GiB,trim:idle"], "comma"), (["--strategy", "grow"], "growth"),
                            (["--preallocate", "-1"], "--preallocate: "), (["--trim", "idel"], "idle"),
                            (["--trim", "above_high_water"], "high_water:SIZE"), (["--devices", "gpu"], "gpu"),
                            (["--record", "a,b"], "comma"), (["--strategy", "preallocate"], "--preallocate or --limit"),
                            (["--devices", "cpu,pined"], "use cpu, cuda or pinned"),
                            (["--limmit", "1GiB"], "limmit"), (["python3"], "python3")):
            with self.subTest(flags=flags):
                self.refuses(says, flags)

    def test_a_wrong_environment_names_the_nearest_key(self):
        self.refuses("the nearest is limit", [], CISTERN_CONF="limt:1GiB")

    def test_a_plug_that_this_build_lacks(self):
        lonely = self.folder / "bin" / "cistern"
        lonely.parent.mkdir()
        (self.folder / "lib").mkdir()
        shutil.copy(SETTINGS.program, lonely)
        done = self.call(str(lonely), "run", "--", "true")
        self.check_one_line(done, 1, "libcistern_preload.so is missing")
        shutil.copy(SETTINGS.preload, self.folder / "lib")
        self.check_one_line(self.call(str(lonely), "run", "--", "true"), 2, "no plug for cpu")
        self.check_one_line(self.call(str(lonely), "run", "--devices", "cuda", "--", "true"), 2, "no plug for cuda")

    def test_a_path_that_cannot_be_preloaded(self):
        spaced = self.folder / "a b"
        for place, file in (("bin", SETTINGS.program), ("lib", SETTINGS.preload)):
            (spaced / place).mkdir(parents=True)
            shutil.copy(file, spaced / place)
        (spaced / "lib" / "libcistern_c10_cpu.so.0.1").touch()
        self.check_one_line(self.call(str(spaced / "bin" / "cistern"), "run", "--", "true"), 1, "a space or colon")

    def test_no_command(self):
        self.check_one_line(self.call(SETTINGS.program, "run"), 2, "COMMAND is missing")
        self.check_one_line(self.run_under([]), 2, "COMMAND is missing")

    def test_a_command_that_is_not_there_or_cannot_run(self):
        self.check_one_line(self.run_under([], "no-such-program"), 127, "no-such-program")
        (self.folder / "text").write_text("hello")
        self.check_one_line(self.run_under([], "./text"), 126, "./text")

    def test_help_tells_of_every_flag_and_exit_code(self):
        done = self.call(SETTINGS.program, "run", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("-- COMMAND", "--devices", "--limit", "--strategy", "--preallocate", "--trim", "--record", "--report",
                     "CISTERN_CONF", "LD_PRELOAD", "127", "126"):
            self.assertIn(word, done.stdout)


def parse_settings():
    """Fills SETTINGS in from the command line; returns what is left for unittest."""
    parser = argparse.ArgumentParser(add_help=False)
    for name in vars(SETTINGS):
        parser.add_argument("--" + name.replace("_", "-"), type=lambda paths: ":".join(map(os.path.abspath, paths.split(":"))))
    return sys.argv[:1] + parser.parse_known_args(namespace=SETTINGS)[1]


if __name__ == "__main__":
    unittest.main(argv=parse_settings())
