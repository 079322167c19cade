"""What was measured, as text: a table for each question, contenders down, traces across; then who beats us where."""
import math

from .contenders import FIXED, HOST

OURS = "cistern-growth-vmm"
HOST_OURS = "cistern-host"


def short_names(names):
    """Without what all have in common in front."""
    first, last = min(names), max(names)
    common = 0
    while common < min(len(first), len(last)) and first[common] == last[common]:
        common += 1
    common = first.rfind("_", 0, common) + 1
    return {name: name[common:] for name in names}


def grid(title, rows, columns, cell):
    """Lines of a table; rows all of whose cells are empty are left out."""
    body = [[row] + [cell(row, column) for column in columns] for row in rows]
    body = [line for line in body if any(line[1:])]
    if not body:
        return []
    lines = [[title] + [str(column) for column in columns]] + [[text or "-" for text in line] for line in body]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    return ["  ".join(text.ljust(width) if index == 0 else text.rjust(width)
                      for index, (text, width) in enumerate(zip(line, widths))).rstrip() for line in lines] + [""]


def numbers(values, digits):
    return "" if values is None else f"{values:.{digits}f}"


def of_traces(results, key, title, value):
    """`value` gets the row of one contender on one trace."""
    if not results["traces"]:
        return []
    rows = {(row["trace"], row["contender"]): row for row in results[key]}
    names = [trace["name"] for trace in results["traces"]]
    short = short_names(names)

    def cell(contender, trace):
        row = rows.get((trace, contender))
        return "" if row is None else value(row)

    contenders = [one["name"] for one in results["contenders"] if not one["why_absent"]]
    by_short = {short[name]: name for name in names}
    return grid(title, contenders, list(by_short), lambda row, column: cell(row, by_short[column]))


def replay_tables(results):
    def served(value):
        return lambda row: value(row) if row["completed"] else ("OOM" if row["why"] == "out of memory" else "")

    lines = of_traces(results, "replays", "peak reserved / lower bound", served(lambda row: numbers(row["ratio"], 4)))
    lines += of_traces(results, "replays", "ns/operation, new allocator", served(lambda row: numbers(row["cold_ns"], 0)))
    lines += of_traces(results, "replays", "ns/operation, steady state", served(lambda row: numbers(row["warm_ns"], 1)))
    lines += of_traces(results, "replays", "source calls, first + fourth replay",
                       served(lambda row: f"{row['source_calls'][0]}+{row['source_calls'][-1]}" if sum(row["source_calls"]) else ""))
    lines += of_traces(results, "replays", "modelled ms of mapping, first + fourth replay",
                       served(lambda row: f"{row['modelled_map_ms'][0]:.0f}+{row['modelled_map_ms'][-1]:.0f}"
                              if sum(row["modelled_map_ms"]) else ""))
    return lines


def fit_tables(results):
    if not results["fits"]:
        return []
    return of_traces(results, "fits", "smallest device / lower bound",
                     lambda row: f"{row['ratio']:.4f}" + ("" if row["smaller_tried"] == row["smaller_count"] else "*")
                     if row["fits"] else "none") + \
        ["* not all of the smaller devices were tried", ""]


def scaling_tables(results):
    rows = {(row["what"], row["size"], row["threads"], row["contender"]): row for row in results["scaling"]}
    contenders = [one["name"] for one in results["contenders"] if not one["why_absent"]]

    def table(title, cases):
        heads = {head: case for head, case in cases}
        return grid(title, contenders, list(heads),
                    lambda name, head: numbers(rows.get((*heads[head], name), {}).get("ns_per_pair"), 0))

    cases = sorted({key[:3] for key in rows}, key=lambda key: (key[0] != "pairs", key[2] != 1, key[1], key[2]))
    return table("ns/pair of one thread", [(f"{what} {size}" + (f" x{threads}" if threads > 1 else ""), (what, size, threads))
                                           for what, size, threads in cases])


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def group_of(results):
    return {one["name"]: one["group"] for one in results["contenders"]}


def verdicts(results):
    """Where somebody is better than we are, and by how much we are faster than each."""
    groups, lines = group_of(results), []

    def compare(key, value, what, ours, groups_compared):
        rows = {(row["trace"], row["contender"]): row for row in results[key] if row.get("completed", row.get("fits"))}
        for trace in results["traces"]:
            mine = rows.get((trace["name"], ours))
            if mine is None:
                continue
            for (name, other), row in rows.items():
                if name != trace["name"] or other.startswith("cistern") or groups[other] not in groups_compared:
                    continue
                if value(row) is not None and value(row) < value(mine):
                    lines.append(f"worse than {other} on {name}: {what} {value(mine):.4f} against {value(row):.4f}")

    compare("replays", lambda row: row["ratio"], "reserved / lower bound", OURS, ("grows",))
    compare("replays", lambda row: row["ratio"], "resident / lower bound", HOST_OURS, (HOST,))
    compare("fits", lambda row: row["ratio"], "smallest device / lower bound", OURS, ("grows", FIXED))
    warm = {(row["trace"], row["contender"]): row["warm_ns"] for row in results["replays"] if row["completed"]}
    for other, group in groups.items():
        ours = {"grows": OURS, FIXED: OURS, HOST: HOST_OURS}[group]
        if other.startswith("cistern"):
            continue
        if other.startswith("torch"):
            ours = "cistern-torch-vmm"
        ratios = [warm[trace["name"], other] / warm[trace["name"], ours] for trace in results["traces"]
                  if (trace["name"], other) in warm and (trace["name"], ours) in warm]
        if ratios:
            lines.append(f"{ours} against {other}, steady state: {geometric_mean(ratios):.2f} x as fast in the geometric mean, "
                         f"{min(ratios):.2f} to {max(ratios):.2f}")
    return lines


def text(results):
    lines = [f"absent: {one['name']}: {one['why_absent']}" for one in results["contenders"] if one["why_absent"]]
    lines += [f"not measured: {row['contender']} on {row['trace']}: {row['why']}" for row in results["replays"]
              if not row["completed"]]
    lines += [""] if lines else []
    lines += replay_tables(results) + fit_tables(results) + scaling_tables(results) + verdicts(results)
    return "\n".join(lines) + "\n"
