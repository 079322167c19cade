"""The layering check must be able to fail: plants one breach at a time in a small good tree."""
import pathlib
import subprocess
import sys
import tempfile

GOOD = {
    "allocator/cistern/base/units.hpp": "#include <cstddef>\n",
    "allocator/cistern/core/heap.hpp": '#include <vector>\n#include "cistern/base/units.hpp"\n',
    "allocator/cistern/sources/host_source.cpp": '#include <sys/mman.h>\n#include "cistern/core/heap.hpp"\n',
    "allocator/cistern/observe/sink.cpp": '#include <spdlog/spdlog.h>\n#include "cistern/core/heap.hpp"\n',
    "allocator/cistern/adapters/c10_cpu.cpp": '#include <c10/core/Allocator.h>\n#include "cistern/observe/sink.hpp"\n',
    "allocator/cistern/memory.hpp": '#include "cistern/adapters/memory.hpp"\n',
    "apps/train/main.cpp": "#include <torch/torch.h>\n",
}
BAD = {  # what -> (file, its text, words of the report)
    "core includes a source": ("core/a.hpp", '#include "cistern/sources/host_source.hpp"', "core must not include sources"),
    "base includes core": ("base/a.hpp", '#include "cistern/core/heap.hpp"', "base must not include core"),
    "core starts threads": ("core/a.cpp", "#include <thread>", "core must not include <thread>"),
    "core reads the environment": ("core/a.cpp", "#include <cstdlib>", "core must not include <cstdlib>"),
    "core asks the system": ("core/a.cpp", "#include <sys/mman.h>", "standard library only"),
    "core includes torch": ("core/a.cpp", "#include <c10/core/Device.h>", "standard library only"),
    "planning knows the allocator": ("planning/a.hpp", '#include "cistern/core/heap.hpp"', "planning must not include core"),
    "core plans": ("core/a.hpp", '#include "cistern/planning/placement.hpp"', "core must not include planning"),
    "sources and observe know each other": ("sources/a.cpp", '#include "cistern/observe/sink.hpp"', "sources must not include observe"),
    "observe and sources know each other": ("observe/a.cpp", '#include "cistern/sources/host_source.hpp"', "observe must not include sources"),
    "a source includes c10": ("sources/a.cpp", "#include <c10/core/Device.h>", "does not belong here"),
    "an adapter includes all of torch": ("adapters/c10_a.cpp", "#include <torch/torch.h>", "does not belong here"),
    "an adapter of no torch includes c10": ("adapters/c_abi.cpp", "#include <c10/core/Device.h>", "does not belong here"),
    "an adapter reads pictures": ("adapters/c10_a.cpp", "#include <opencv2/core.hpp>", "does not belong here"),
    "CUDA outside its folder": ("sources/host.cpp", "#include <cuda.h>", "does not belong here"),
    "a second file logs": ("sources/a.cpp", "#include <spdlog/spdlog.h>", "spdlog belongs in one file"),
    "a relative include": ("core/a.cpp", '#include "heap.hpp"', "not of the form"),
    "an unknown layer": ("misc/a.cpp", "", "is no layer"),
    "a file over the wall": ("core/a.cpp", "\n" * 501, "500 is the wall"),
}


def report_of(check, files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = subprocess.run([sys.executable, check, folder], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


def main():
    check = sys.argv[1]
    failures = []
    code, report = report_of(check, GOOD)
    if code != 0:
        failures.append(f"the good tree was refused: {report}")
    for what, (file, text, words) in BAD.items():
        code, report = report_of(check, {**GOOD, f"allocator/cistern/{file}": text})
        if code != 1 or words not in report or len(report.splitlines()) != 1:
            failures.append(f"{what}: exit {code}, report: {report}")
    print("\n".join(failures) if failures else f"{len(BAD)} planted breaches, all found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
