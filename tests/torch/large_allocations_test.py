#!/usr/bin/env python3
"""Lists by library what cistern-train asks of malloc in pieces of 64 KiB and more, and holds that torch's tensors are
not among it: libc10.so, whose alloc_cpu is the system allocator of tensors, asks for none once ours is installed.

    large_allocations_test.py CISTERN_TRAIN LIBLARGE_ALLOCATIONS
"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from train_test import write_mnist  # noqa: E402


def large_allocations(program, preload, folder, *arguments):
    """Counts and bytes by the library's file name."""
    report = folder / "report"
    subprocess.run([program, "--data", str(folder), "--epochs", "2", "--threads", "2", "--device", "cpu",
                    "--batch-size", "128", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ, "LD_PRELOAD": preload, "LARGE_ALLOCATIONS": str(report)})
    rows = [line.split(None, 3) for line in report.read_text().splitlines()]
    return {pathlib.Path(path).name: (int(count), int(total), int(largest)) for count, total, largest, path in rows}


def main():
    program, preload = (os.path.abspath(path) for path in sys.argv[1:])
    failures = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_mnist(folder, train=1000)
        for loop in ("plain", "tuned"):
            for strategy in ("growth", "system"):
                found = large_allocations(program, preload, folder, "--strategy", strategy, "--loop", loop)
                print(f"{loop} loop, {strategy}:")
                for library, (count, total, largest) in sorted(found.items()):
                    print(f"  {count:6} allocations  {total:12} bytes  largest {largest:10}  {library}")
                tensors = found.get("libc10.so", (0,))[0]
                if (tensors == 0) != (strategy == "growth"):
                    failures.append(f"{loop} loop, {strategy}: {tensors} tensors from malloc")
    print("\n".join(failures) or "ok: no tensor of 64 KiB or more outside of the allocator, all of them without it")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
