"""Asks drivers, one process a question, in turns: A B A B ..."""
import json
import os
import statistics
import subprocess
import sys

from .contenders import FIXED, HOST

REPLAYS = 4            # of a trace on one allocator: the first is cold, the last in steady state
LONGEST_SECONDS = 1200
MAP_MICROSECONDS = 80  # a granule of 2 MiB with CUDA's virtual memory calls, as others measured: 256 of them 20.4 ms
LIVE_COUNTS = (100, 1000, 10000, 100000)
THREAD_COUNTS = (1, 2, 4)
MIB = 1 << 20


class DriverError(Exception):
    pass


def ask(contender, folder, question):
    """The driver's answer. Raises DriverError with one line."""
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("LD_PRELOAD", "CISTERN_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")}
    environment.update(contender.environment, TF_CPP_MIN_LOG_LEVEL="3")
    try:
        done = subprocess.run([os.path.join(folder, contender.driver), contender.variant], input=question + "\n",
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              timeout=LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        raise DriverError(f"no answer within {LONGEST_SECONDS} s") from None
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            return json.loads(line)
    last = (done.stderr.strip().splitlines() or [f"ended with exit code {done.returncode}"])[-1]
    raise DriverError(last[:300])


def in_turns(contenders, folder, rounds, question, say):
    """Contender -> its answers, one a round. One that fails is told and not asked again."""
    answers, failed = {contender.name: [] for contender in contenders}, {}
    for turn in range(rounds):
        for contender in contenders:
            if contender.name in failed:
                continue
            try:
                answers[contender.name].append(ask(contender, folder, question(contender)))
            except DriverError as error:
                failed[contender.name] = str(error)
                print(f"failed: {contender.name}: {error}", file=sys.stderr)
        say(f"round {turn + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
    return answers, failed


def fits_here(lower_bound_bytes):
    """Whether a trace may be touched page by page on this machine."""
    return lower_bound_bytes * 4 <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def replay(trace, contenders, folder, rounds, capacity_bytes, say):
    """A row for each contender."""
    asked = [one for one in contenders if one.group != HOST or fits_here(trace["lower_bound_bytes"])]
    answers, failed = in_turns(asked, folder, rounds, lambda _: f"replay {REPLAYS} {capacity_bytes} {trace['path']}", say)
    rows = []
    for contender in contenders:
        row = {"trace": trace["name"], "contender": contender.name}
        if contender not in asked:
            rows.append({**row, "completed": False, "why": "too large for this machine's memory"})
            continue
        if contender.name in failed:
            rows.append({**row, "completed": False, "why": failed[contender.name]})
            continue
        first = answers[contender.name][0]
        if not first["completed"]:
            rows.append({**row, "completed": False, "why": "out of memory"})
            continue
        replays = first["rounds"]
        rows.append({
            **row, "completed": True, "peak_reserved_bytes": first["peak_reserved_bytes"],
            "ratio": None if contender.group == FIXED else first["peak_reserved_bytes"] / first["lower_bound_bytes"],
            "source_calls": [one["source_calls"] for one in replays],
            "mapped_bytes": [one["mapped_bytes"] for one in replays],
            "modelled_map_ms": [one["mapped_bytes"] / (2 * MIB) * MAP_MICROSECONDS / 1000 for one in replays],
            "cold_ns": statistics.median(one["rounds"][0]["ns_per_operation"] for one in answers[contender.name]),
            "warm_ns": statistics.median(one["rounds"][-1]["ns_per_operation"] for one in answers[contender.name])})
    return rows


def timelines(trace, contenders, folder, capacity_bytes, say):
    answers, _ = in_turns(contenders, folder, 1, lambda _: f"timeline {capacity_bytes} {trace['path']}", say)
    return [{"trace": trace["name"], "contender": name, **found[0]} for name, found in answers.items() if found]


def fit(trace, contenders, folder, capacity_bytes, step_bytes, say):
    answers, failed = in_turns(contenders, folder, 1, lambda _: f"fit {step_bytes} {capacity_bytes} {trace['path']}", say)
    rows = []
    for contender in contenders:
        row = {"trace": trace["name"], "contender": contender.name}
        if contender.name in failed:
            rows.append({**row, "fits": False, "why": failed[contender.name]})
            continue
        found = answers[contender.name][0]
        rows.append({**row, **found, "ratio": found["smallest_bytes"] / found["lower_bound_bytes"]})
    return rows


def scaling(contenders, folder, rounds, say):
    """Last in, first out, by threads; churn, by live blocks and by threads."""
    cases = [("pairs", 512, threads) for threads in THREAD_COUNTS]
    cases += [("churn", live, 1) for live in LIVE_COUNTS] + [("churn", 1000, threads) for threads in THREAD_COUNTS[1:]]
    rows = []
    for what, size, threads in cases:
        say(f"{what} {size}, {threads} threads")
        answers, _ = in_turns(contenders, folder, rounds, lambda _: f"{what} {size} {threads}", say)
        rows += [{"what": what, "size": size, "threads": threads, "contender": name,
                  "ns_per_pair": statistics.median(one["ns_per_pair"] for one in found),
                  "least_ns_per_pair": min(one["ns_per_pair"] for one in found)}
                 for name, found in answers.items() if found]
    return rows
