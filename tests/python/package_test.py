#!/usr/bin/env python3
"""The Python package, installed by pip without a network into an environment that sees this build's torch. Exit code 77
where that torch has no Python.

    package_test.py --site-packages DIR --libraries DIR [--fake-runtime LIBCUDART:LIBCUDA] [arguments of unittest]
"""
import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SETTINGS = argparse.Namespace(site_packages="", libraries="", fake_runtime="")  # Paths; the last a list.
MIB = 1 << 20


def python_with_torch():
    """The interpreter that this torch was installed for, and what its environment needs."""
    own = pathlib.Path(SETTINGS.site_packages).parents[2] / "bin" / "python"
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("CISTERN_") and key not in ("LD_PRELOAD", "PYTHONPATH")}
    return str(own if own.exists() else sys.executable), {**environment, "OMP_NUM_THREADS": "1", "PIP_NO_INDEX": "1",
                                                          "PYTHONPATH": SETTINGS.site_packages}


def setUpModule():
    """Builds the wheel, and installs it into an environment of its own."""
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    Installed.folder = pathlib.Path(folder.name)
    base, Installed.environment = python_with_torch()
    subprocess.run([base, "-m", "venv", str(Installed.folder / "venv")], check=True, env=Installed.environment)
    Installed.interpreter = str(Installed.folder / "venv" / "bin" / "python")

    def pip(*arguments):
        subprocess.run([Installed.interpreter, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
                       check=True, env={**Installed.environment, "CISTERN_LIBRARY_DIR": SETTINGS.libraries})

    pip("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder.name, str(ROOT / "tools" / "python"))
    (Installed.wheel,) = Installed.folder.glob("*.whl")
    pip("install", str(Installed.wheel))


class Installed(unittest.TestCase):
    def python(self, script, **environment):
        return subprocess.run([self.interpreter, "-c", "import torch, cistern\n" + textwrap.dedent(script)],
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              timeout=120, env={**self.environment, **environment})

    def output_of(self, script, **environment):
        done = self.python(script, **environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        return done.stdout.splitlines()

    def errors_of(self, *calls, first="", **environment):
        """The line of the cistern.Error that each call must raise."""
        lines = self.output_of(first + "\nfor call in (" + ", ".join(f"lambda: {call}" for call in calls) + ",):" + """
            try:
                call()
                print("no error")
            except cistern.Error as error:
                print(error)
            """.replace("\n        ", "\n"), **environment)
        self.assertEqual(len(lines), len(calls), lines)
        return lines


class Package(Installed):
    def test_the_wheel_holds_the_package_its_libraries_and_nothing_else(self):
        wheel = zipfile.ZipFile(self.wheel)
        version = self.output_of("print(cistern.__version__)")[0]
        self.assertEqual(self.wheel.name, f"cistern-{version}-py3-none-linux_{platform.machine()}.whl")
        plugs = ["c_abi", "c10_cpu", "registry"] + (["c10_cuda", "c10_host"] if SETTINGS.fake_runtime else [])
        information = [f"cistern-{version}.dist-info/{name}" for name in ("LICENSE", "METADATA", "WHEEL", "RECORD")]
        self.assertEqual(sorted(wheel.namelist()), sorted(
            ["cistern/__init__.py", *(f"cistern/lib/libcistern_{plug}.so.0.1" for plug in plugs), *information]))
        for row in wheel.read(information[-1]).decode().splitlines()[:-1]:
            name, digest, size = row.split(",")
            data = wheel.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, size), ("sha256=" + expected, str(len(data))))
        for name in wheel.namelist():
            needed = re.findall(r"NEEDED.*\[(.*)\]", self.readelf(wheel, name)) if "/lib/" in name else []
            strange = [library for library in needed if not re.fullmatch(
                r"(ld-linux.*|lib(c|m|gcc_s|stdc\+\+|z|cistern_registry|c10|c10_cuda|torch_cpu)\.so(\.[0-9.]+)?)", library)]
            self.assertEqual(strange, [], name)

    def readelf(self, wheel, name):
        wheel.extract(name, self.folder / "unpacked")
        return subprocess.run(["readelf", "-d", str(self.folder / "unpacked" / name)], stdout=subprocess.PIPE, check=True,
                              universal_newlines=True).stdout

    def test_the_installed_package_brings_its_libraries(self):
        self.assertEqual(self.output_of("""
            import pathlib
            own = pathlib.Path(cistern.__file__).parent
            print(own.is_relative_to(pathlib.Path.cwd() / "venv"), cistern._library.cistern_version().decode() == cistern.__version__)
            mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libcistern_" in line}
            print(all(pathlib.Path(path).parent == own / "lib" for path in mapped), len(mapped))
            """), ["True True", "True 2"])

    def test_memory_info_follows_the_tensors(self):
        out = self.output_of("""
            old = torch.ones(1 << 20)
            cistern.install(strategy="growth", limit="64MiB", devices=("cpu",))
            print(old.sum().item())
            kept = torch.empty(4 << 20, dtype=torch.uint8)
            gone = torch.empty(8 << 20, dtype=torch.uint8)
            del gone, old
            info = cistern.memory_info("cpu")
            print(*(info[name] for name in ("current", "peak", "requested", "peak_requested", "limit")))
            print(info["reserved"] >= info["peak"], info["largest_free"] >= 8 << 20, info["live_count"])
            print(cistern.trim() >= 8 << 20, cistern.memory_info(torch.device("cpu"))["reserved"])
            cistern.reset_peak("cpu")
            print(cistern.memory_info()["peak"])
            """)
        self.assertEqual(out, [str(float(MIB)), " ".join(map(str, (4 * MIB, 12 * MIB, 4 * MIB, 12 * MIB, 64 * MIB))),
                               "True True 1", f"True {4 * MIB}", str(4 * MIB)])

    def test_a_limit_holds_and_can_be_changed(self):
        out = self.output_of("""
            cistern.install(limit=16 << 20)
            kept = torch.empty(10 << 20, dtype=torch.uint8)
            def fits():
                try:
                    torch.empty(16 << 20, dtype=torch.uint8)
                    return True
                except torch.OutOfMemoryError:
                    return False
            print(fits(), cistern.memory_info()["failure_count"])
            cistern.set_limit("32MiB")
            print(fits(), cistern.memory_info()["limit"])
            try:
                cistern.set_limit("8MiB")
            except cistern.Error as error:
                print(error)
            print(cistern.memory_info()["limit"])
            cistern.set_limit(None)
            print(cistern.memory_info()["limit"])
            """)
        self.assertEqual(out[:2] + out[3:], ["False 1", f"True {32 * MIB}", str(32 * MIB), "None"])
        self.assertRegex(out[2], r"limit not changed: a limit of 8 MiB is below what is in use; the least possible now is 10 MiB")

    def test_every_mistake_is_one_line(self):
        before = self.errors_of(
            "cistern.memory_info()", "cistern.install(limt='1GiB')", "cistern.install(limit='banana')",
            "cistern.install(record='a,b')", "cistern.install(devices='tpu')", "cistern.install(record='/nonesuch/trace')")
        for line, says in zip(before, ("nothing is installed", "the nearest is limit", "banana", "comma", "use cpu, cuda or pinned",
                                       "/nonesuch/trace")):
            self.assertIn(says, line)
        after = self.errors_of("cistern.install()", "cistern.memory_info(0)", "cistern.trim('pinned')",
                               "cistern.set_limit('12')", "cistern.snapshot('/nonesuch/file')", first="cistern.install()")
        for line, says in zip(after, ("served by cistern already", "'cuda:0'; it serves cpu", "'pinned'", "12MiB?",
                                      "/nonesuch/file")):
            self.assertIn(says, line)
        self.assertIn("CISTERN_CONF: key 'limt'", self.errors_of("cistern.install()", CISTERN_CONF="limt:1GiB")[0])

    def test_a_snapshot_is_what_torchs_visualiser_reads(self):
        out = self.output_of("""
            import pickle
            from torch.cuda import _memory_viz
            cistern.install(remap_slack=0)
            blocks = [torch.empty(size << 16, dtype=torch.uint8) for size in (1, 40, 3, 90, 7)]
            del blocks[1], blocks[2]
            cistern.trim()
            cistern.snapshot("memory.pickle")
            snapshot = pickle.load(open("memory.pickle", "rb"))
            info = cistern.memory_info()
            for segment in snapshot["segments"]:
                address = segment["address"]
                for block in segment["blocks"]:
                    assert block["address"] == address, "blocks tile the segment"
                    address += block["size"]
                assert address == segment["address"] + segment["total_size"]
            total = lambda name: sum(segment[name] for segment in snapshot["segments"])
            print(total("total_size") == info["reserved"], total("allocated_size") == info["current"],
                  total("requested_size") == info["requested"])
            tensors = {block.data_ptr(): block.numel() for block in blocks}
            print({block["address"]: block["requested_size"] for segment in snapshot["segments"]
                   for block in segment["blocks"] if block["state"] == "active_allocated"} == tensors)
            for plot in (_memory_viz.segment_plot, _memory_viz.trace_plot):
                assert "<script" in plot(snapshot)
            print("segments: " + str(len(snapshot["segments"])) in _memory_viz.segsum(snapshot))
            """)
        self.assertEqual(out, ["True True True", "True", "True"])

    def test_a_second_install_changes_nothing(self):
        out = self.output_of("""
            cistern.install(limit="1GiB")
            try:
                cistern.install(limit="2GiB")
            except cistern.Error:
                print(cistern.memory_info()["limit"])
            """)
        self.assertEqual(out, [str(1 << 30)])

    def test_without_its_library_the_import_says_where_it_looked(self):
        done = self.python("", CISTERN_LIBRARY_DIR="/nonesuch")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], "ImportError: libcistern_c_abi.* is in none of /nonesuch")


class OverTheFakeRuntime(Installed):
    def setUp(self):
        if not SETTINGS.fake_runtime:
            self.skipTest("without the CUDA plug")

    def on_cuda(self, script, **environment):
        return self.output_of(script, LD_PRELOAD=SETTINGS.fake_runtime, **environment)

    def test_every_kind_of_device_is_served_by_one_install(self):
        out = self.on_cuda("""
            cistern.install(strategy="growth", limit="64MiB", devices=("cpu", "cuda", "pinned"))
            kept = [torch.empty(3 << 20, dtype=torch.uint8), torch.empty(5 << 20, dtype=torch.uint8, device="cuda:1"),
                    torch.empty(7 << 20, dtype=torch.uint8, pin_memory=True)]
            for device in ("cpu", 1, "pinned"):
                print(cistern.memory_info(device)["current"] >> 20, cistern.memory_info(device)["limit"] >> 20)
                try:
                    torch.empty(99 << 20, dtype=torch.uint8, device=f"cuda:{device}" if device == 1 else "cpu",
                                pin_memory=device == "pinned")
                except torch.OutOfMemoryError as error:
                    print("limit of 64 MiB" in str(error))
            print(torch.cuda.memory_allocated(1) >> 20, torch.cuda.memory_stats(1)["reserved_bytes.all.current"] >> 20)
            print("Allocated memory" in torch.cuda.memory_summary(1), len(torch.cuda.memory_snapshot()))
            cistern.snapshot("cuda.pickle", 1)
            del kept
            print(cistern.trim("pinned") >> 20, cistern.trim(1) >> 20, cistern.memory_info(1)["reserved"])
            """)
        self.assertEqual(out, ["3 64", "True", "5 64", "True", "7 64", "True", "5 6", "True 1", "8 6 0"])

    def test_unless_told_install_serves_the_cpu_and_cuda_where_there_is_a_device(self):
        script = """
            cistern.install(strategy="growth", limit="64MiB")
            kept = torch.empty(3 << 20, dtype=torch.uint8)
            print(cistern.memory_info()["current"] >> 20)
            if torch.cuda.is_available():
                on_device = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
            try:
                print(cistern.memory_info(0)["current"] >> 20)
            except cistern.Error:
                print("not served")
            """
        self.assertEqual(self.on_cuda(script), ["3", "5"])
        self.assertEqual(self.output_of(script, CUDA_VISIBLE_DEVICES=""), ["3", "not served"])

    def test_what_cannot_be_installed_is_one_line(self):
        lines = self.on_cuda("""
            torch.empty(9, device="cuda")
            for devices in ("cuda", ("pinned", "pinned")):
                try:
                    cistern.install(devices=devices)
                except cistern.Error as error:
                    print(error)
            """)
        self.assertEqual(len(lines), 2, lines)
        self.assertIn("install before the first CUDA tensor", lines[0])
        self.assertIn("pinned is served by cistern already", lines[1])
        (line,) = self.errors_of("cistern.install(strategy='preallocate', devices='pinned')", LD_PRELOAD=SETTINGS.fake_runtime)
        self.assertIn("needs a limit", line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    for name in vars(SETTINGS):
        parser.add_argument("--" + name.replace("_", "-"), type=lambda paths: ":".join(map(os.path.abspath, paths.split(":"))),
                            default="")
    rest = parser.parse_known_args(namespace=SETTINGS)[1]
    interpreter, environment_of_torch = python_with_torch()
    if subprocess.call([interpreter, "-c", "import torch"], env=environment_of_torch) != 0:
        print("skipped: this torch has no Python")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + rest)
