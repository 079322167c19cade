#!/usr/bin/env python3
"""Writes golden.csv anew from what the program places today. Read the difference before you commit it.

    write_golden.py build/dev/bin/cistern [FOLDER OF THE SHARED TRACES]

Without the folder the lines of the shared traces stay as they are.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
HEADER = "trace,strategy,peak_reserved_bytes,placement_hash"


def main():
    program, folders = sys.argv[1], [HERE / "traces", *map(pathlib.Path, sys.argv[2:])]
    golden = HERE / "golden.csv"
    lines = {}
    for line in golden.read_text().splitlines()[1:] if golden.exists() else []:
        trace, strategy, rest = line.split(",", 2)
        lines[trace, strategy] = rest
    for path in sorted(path for folder in folders for path in folder.glob("*.gz")):
        name = path.name.split(".")[0]
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder, "plan")
            subprocess.run([program, "plan", path, "-o", plan, "--seconds", "0"], check=True, stdout=subprocess.DEVNULL)
            for strategy in ([], ["--strategy=preallocate"], ["--strategy=plan", "--plan", plan]):
                command = [program, "replay", path, *strategy, "--repeat", "1", "--json"]
                (run,) = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["runs"]
                lines[name, run["strategy"]] = f'{run["peak_reserved_bytes"]},{run["placement_hash"]}'
    golden.write_text("\n".join([HEADER, *(",".join([*key, lines[key]]) for key in sorted(lines))]) + "\n")


if __name__ == "__main__":
    main()
