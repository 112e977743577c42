#!/usr/bin/env python3
# Opens exports of one trace in the programs they are for, and compares what each of them sees.
#
# Needs, in a virtual environment: pip install perfetto pandas pyarrow polars
# Use: open_exports.py trace.csv trace.parquet trace.perfetto
import sys
from collections import Counter

import pandas
import polars
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

# Our events, and the field of FtraceEvent that carries each.
FTRACE = {
    "switch": ["sched_switch"],
    "waking": ["sched_waking"],
    "wakeup": ["sched_wakeup", "sched_wakeup_new"],
    "fork": ["sched_process_fork"],
    "exec": ["sched_process_exec"],
    "exit": ["sched_process_exit"],
    "comm": ["task_rename"],
    "migrate": ["sched_migrate_task"],
    "irq_enter": ["irq_handler_entry", "local_timer_entry", "ipi_entry"],
    "irq_exit": ["irq_handler_exit", "local_timer_exit", "ipi_exit"],
    "softirq_enter": ["softirq_entry"],
    "softirq_exit": ["softirq_exit"],
    "idle": ["cpu_idle"],
}
# Our events, and the category of the track events that carry them.
TRACKS = {"mark": "mark", "tick": "tick", "timer_expire": "timer", "need_resched": "resched",
          "ipc_write": "ipc", "ipc_read": "ipc", "prio": "prio", "stat": "stat", "stack": "stack",
          "lost": "lost", "schedule_enter": "resched"}


def check(claim, got, want):
    if got != want:
        sys.exit(f"{claim}: {got} instead of {want}")


def main(csv, parquet, perfetto):
    text = polars.read_csv(csv, infer_schema_length=None)
    table = polars.read_parquet(parquet)
    frame = pandas.read_parquet(parquet)
    check("columns of CSV and Parquet", table.columns, text.columns)
    check("rows in polars", table.height, text.height)
    check("rows in pandas", len(frame), text.height)
    check("time in pandas", frame["time_ns"].tolist(), text["time_ns"].to_list())
    for column in text.columns:
        ours, theirs = table[column].cast(polars.String), text[column].cast(polars.String)
        check(f"values of {column}", ours.to_list(), theirs.to_list())
    events = Counter(table["event"].to_list())
    events["idle"] = events["idle_enter"] + events["idle_exit"]

    trace = perfetto_trace_pb2.Trace()
    with open(perfetto, "rb") as file:
        trace.ParseFromString(file.read())
    size = trace.ByteSize()
    trace.DiscardUnknownFields()
    check("bytes in fields that the schema has", trace.ByteSize(), size)
    ftrace, tracks, lost = Counter(), Counter(), 0
    for packet in trace.packet:
        last = {}
        for event in packet.ftrace_events.event:
            ftrace[event.WhichOneof("event")] += 1
            cpu = packet.ftrace_events.cpu
            check("order in a bundle", event.timestamp >= last.get(cpu, 0), True)
            last[cpu] = event.timestamp
        if packet.HasField("track_event"):
            tracks.update(packet.track_event.categories)
        for cpu in packet.ftrace_stats.cpu_stats:
            lost += cpu.overrun
    for name, fields in FTRACE.items():
        check(f"{name} in Perfetto", sum(ftrace[field] for field in fields), events[name])
    for category in set(TRACKS.values()):
        want = sum(events[name] for name in TRACKS if TRACKS[name] == category)
        check(f"{category} in Perfetto", tracks[category], want)
    counts = table.filter(polars.col("event") == "lost")["count"]
    check("lost in Perfetto", lost, int(counts.sum() or 0))
    names = {thread.name for packet in trace.packet for thread in packet.process_tree.threads}
    told = set(table.filter(polars.col("event") == "task")["comm"].drop_nulls().to_list())
    check("names in Perfetto's process tree", names - {""}, told)
    print(f"{table.height} rows open in pandas {pandas.__version__} and polars {polars.__version__}; "
          f"{len(trace.packet)} Perfetto packets agree with them")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: open_exports.py trace.csv trace.parquet trace.perfetto")
    main(*sys.argv[1:])
