"""Who is measured: names, drivers, variants, and whether they are there."""
import dataclasses
import fnmatch
import pathlib

GROWS, FIXED, HOST = "grows", "fixed", "host"
MALLOC_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
SETUP = "tools/setup.sh --peers brings it; then configure and build again"
WITHOUT_TORCH = "needs a build with torch, CUDA and tests: the preset full"


@dataclasses.dataclass
class Contender:
    name: str
    driver: str
    variant: str
    group: str
    environment: dict = dataclasses.field(default_factory=dict)
    how_to_get: str = ""
    why_absent: str = ""  # empty: it is there

    @property
    def is_ours(self):
        return self.name.startswith("cistern")


def everybody(granule_bytes):
    """All contenders, ours first. What cannot be measured here at all is among them, with the reason."""
    found = [Contender(f"cistern-{strategy}-{source}", "cistern", f"{strategy},{source},{granule_bytes}",
                       FIXED if strategy == "preallocate" else GROWS)
             for source in ("vmm", "contiguous", "malloc") for strategy in ("growth", "geometric", "preallocate", "plan")]
    found += [Contender(f"cistern-torch-{source}", "torch", "cistern", GROWS, {"CISTERN_CONF": f"source:{source}"},
                        WITHOUT_TORCH) for source in ("vmm", "malloc")]
    found += [Contender("torch-native", "torch", "native", GROWS, {}, WITHOUT_TORCH),
              Contender("torch-expandable", "torch", "native", GROWS,
                        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, WITHOUT_TORCH),
              Contender("bfc-growing", "bfc", "growing", GROWS, {}, SETUP),
              Contender("bfc-preallocate", "bfc", "preallocate", FIXED, {}, SETUP),
              Contender("rmm-growing", "rmm", "growing", GROWS, {}, SETUP),
              Contender("rmm-fixed", "rmm", "fixed", FIXED, {}, SETUP),
              Contender("rmm-arena", "", "", FIXED,
                        why_absent="the wheel's own CUDA runtime finds no device when it defragments; needs a source build"),
              Contender("cuda-async", "", "", GROWS, why_absent="the fake CUDA runtime has no stream-ordered pool"),
              Contender("cistern-host", "malloc", "cistern", HOST),
              Contender("glibc", "malloc", "malloc", HOST)]
    for name, library in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc.so.4"), ("mimalloc", "libmimalloc.so.2")):
        found.append(Contender(name, "malloc", "malloc", HOST, {"LD_PRELOAD": f"{MALLOC_LIBRARIES}/{library}"}, SETUP))
    return found


def choose(patterns, folder, granule_bytes):
    """Those whose names match, each marked as there or absent. A pattern that matches nobody is a ValueError."""
    found = everybody(granule_bytes)
    for pattern in patterns:
        if not any(fnmatch.fnmatch(contender.name, pattern) for contender in found):
            raise ValueError(f"no contender is called {pattern}; there are: {' '.join(one.name for one in found)}")
    chosen = [one for one in found if any(fnmatch.fnmatch(one.name, pattern) for pattern in patterns)]
    for contender in chosen:
        if contender.why_absent:
            continue
        preloaded = contender.environment.get("LD_PRELOAD")
        if not (pathlib.Path(folder) / contender.driver).exists():
            contender.why_absent = f"no driver peers/{contender.driver} was built: {contender.how_to_get}"
        elif preloaded and not pathlib.Path(preloaded).exists():
            contender.why_absent = f"no {preloaded}: {contender.how_to_get}"
    return chosen
