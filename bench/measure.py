# What the benchmarks share: recorders and loads, measured runs, medians and spread, Markdown tables.
"""Helpers of bench/record and bench/report; standard library only."""

import argparse
import contextlib
import fcntl
import json
import multiprocessing
import os
import platform
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EVENTS = ["sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_process_fork"]
EVENTS += ["sched_process_exec", "sched_process_exit", "sched_migrate_task"]


class Failure(Exception):
    """What could not be measured, and why."""


class Run:
    """A command that was run to its end: what it said, what it used."""

    def __init__(self, command, watch=None, words="kept"):
        self.command = [str(word) for word in command]
        # A child's peak memory begins with its parent's: long texts are not taken in while memory is
        # measured.
        with tempfile.TemporaryFile() if words == "kept" else open(os.devnull, "r+b") as output:
            began = time.monotonic()
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
            child = subprocess.Popen(self.command, start_new_session=True, **streams)
            try:
                self.watched = watch(child.pid) if watch else None
                _, status, usage = os.wait4(child.pid, 0)
            except BaseException:
                # Nothing that was started outlives an interrupted measurement.
                os.killpg(child.pid, signal.SIGKILL)
                raise
            self.seconds = time.monotonic() - began
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            self.text = output.read().decode(errors="replace")
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.peak_kib = usage.ru_maxrss
        if child.returncode:
            raise Failure(f"{' '.join(self.command)}: exit {child.returncode}: {self.text.strip()[-400:]}")

    def find(self, pattern):
        """The number that the pattern's group matches."""
        found = re.search(pattern, self.text)
        if not found:
            raise Failure(f"{' '.join(self.command)}: nothing like {pattern} in: {self.text.strip()[-400:]}")
        return float(found[1])


class Recorder:
    """A way to record scheduling events while a command runs."""

    name = "no recorder"

    def __init__(self, scratch):
        self.file = scratch / (re.sub(r"\W+", "-", self.name) + ".data")

    def run(self, load, watch=None):
        """Runs the load under the recorder, and waits for the disk to be quiet again."""
        run = Run(self.command(load), watch)
        self.last = run
        os.sync()
        return run

    def command(self, load):
        return load

    def size(self):
        return self.file.stat().st_size

    def clean(self):
        self.file.unlink(missing_ok=True)


class Perf(Recorder):
    name = "perf sched record"

    def command(self, load):
        return ["perf", "sched", "record", "-o", self.file, "--", *load]

    def events(self):
        stats = Run(["perf", "report", "--stats", "-i", self.file])
        return int(stats.find(r"SAMPLE events:\s+(\d+)"))

    def lost(self):
        latency = Run(["perf", "sched", "latency", "-i", self.file])
        found = re.search(r"lost events \((\d+) out of", latency.text)
        return int(found[1]) if found else 0


class PerfSame(Perf):
    name = "perf record, same events"

    def command(self, load):
        events = ",".join(f"sched:{event}" for event in EVENTS)
        return ["perf", "record", "-a", "-e", events, "-o", self.file, "--", *load]


class TraceCmd(Recorder):
    name = "trace-cmd record"

    def command(self, load):
        events = [word for event in EVENTS for word in ("-e", f"sched:{event}")]
        return ["trace-cmd", "record", *events, "-o", self.file, "--", *load]

    def works(self):
        with contextlib.suppress(Failure):
            self.run(["sleep", "0.1"])
            return self.events() > 0
        return False

    def events(self):
        with subprocess.Popen(["trace-cmd", "report", "-N", self.file], stdout=subprocess.PIPE) as report:
            return sum(1 for line in report.stdout if b": sched_" in line)

    def lost(self):
        stats = Run(["trace-cmd", "report", "--stat", self.file]).text
        return sum(int(number) for number in re.findall(r"(?:overrun|dropped events): (\d+)", stats))


class Ftrace(Recorder):
    """What trace-cmd does, through tracefs itself: some kernels refuse trace-cmd's set-up writes."""

    name = "ftrace, as trace-cmd drives it"
    root = Path("/sys/kernel/tracing/instances/spry-bench")

    def run(self, load, watch=None):
        with contextlib.suppress(OSError):
            self.root.rmdir()
        self.root.mkdir()
        try:
            return self.run_in_instance(load, watch)
        finally:
            (self.root / "events/enable").write_text("0")
            self.root.rmdir()

    def run_in_instance(self, load, watch):
        for event in EVENTS:
            (self.root / f"events/sched/{event}/enable").write_text("1")
        cpus = sorted((self.root / "per_cpu").iterdir())
        files = [self.file.with_suffix(f".{cpu.name}") for cpu in cpus]
        over = multiprocessing.Event()
        drains = [multiprocessing.Process(target=self.drain, args=(*pair, over)) for pair in zip(cpus, files)]
        for drain in drains:
            drain.start()
        try:
            self.last = Run(load, (lambda _: watch(os.getpid())) if watch else None)
        finally:
            (self.root / "tracing_on").write_text("0")
            over.set()
            for drain in drains:
                drain.join()
        stats = "".join((cpu / "stats").read_text() for cpu in cpus)
        self.read = sum(int(number) for number in re.findall(r"read events: (\d+)", stats))
        self.overrun = sum(int(number) for number in re.findall(r"(?:overrun|dropped events): (\d+)", stats))
        self.bytes = sum(file.stat().st_size for file in files)
        for file in files:
            file.unlink()
        os.sync()
        return self.last

    def drain(self, cpu, file, over):
        """Splices whole pages into the file whenever the kernel's buffer is half full, as trace-cmd does."""
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 1 << 20)
        source = os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
        target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        poll = select.poll()
        poll.register(source, select.POLLIN)
        last = False
        while not last:
            last = over.is_set()
            with contextlib.suppress(BlockingIOError):
                while moved := os.splice(source, write_end, 1 << 20):
                    os.splice(read_end, target, moved)
            if not last:
                poll.poll(100)
        for descriptor in (read_end, write_end, source, target):
            os.close(descriptor)

    def events(self):
        return self.read

    def lost(self):
        return self.overrun

    def size(self):
        return self.bytes


class Spry(Recorder):
    compress = "none"
    name = "spry record, raw"
    program = Path("spry")

    def command(self, load):
        options = ["--json", "--quiet", "--compress", self.compress, "-o", self.file]
        return [self.program, "record", *options, "--", *load]

    def summary(self):
        """The line of JSON, wherever it is among the last words of other recorders."""
        lines = reversed(self.last.text.splitlines())
        return next(json.loads(line) for line in lines if line.startswith("{"))

    def events(self):
        return self.summary()["events"]

    def lost(self):
        return self.summary()["lost"]


class SpryZstd(Spry):
    compress = "zstd"
    name = "spry record, zstd"


def cpu_ns(tgid):
    """The run time of all threads of a process and of its helpers of the same name, not of the load."""
    total, name = 0, Path(f"/proc/{tgid}/comm").read_text()
    for task in Path(f"/proc/{tgid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
            for child in (task / "children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text() == name:
                    total += cpu_ns(int(child))
    return total


def share_watch(settle, seconds):
    """A watch that returns the share of a CPU which a recorder uses, once it has settled."""

    def watch(tgid):
        time.sleep(settle)
        before, began = cpu_ns(tgid), time.monotonic()
        time.sleep(seconds)
        return (cpu_ns(tgid) - before) / 1e9 / (time.monotonic() - began)

    return watch


def spread(values, digits=0, sign=""):
    """Median and range between the quartiles, as text."""
    form = f"{sign},.{digits}f"
    middle = statistics.median(values)
    if len(values) < 2:
        return f"{middle:{form}}"
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def table(head, rows):
    """A Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def machine():
    """The machine, in one line."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    name = model[1] if model else platform.machine()
    virtual = ", virtual" if "hypervisor" in Path("/proc/cpuinfo").read_text() else ""
    load = os.getloadavg()[0]
    cpus = f"{os.cpu_count()} CPUs ({name}{virtual})"
    return f"{cpus}, Linux {platform.release()}, load average {load:.2f} when it began"


def write_section(page_name, name, text):
    """Puts the text into its page of docs/benchmarks in place of its section of that name."""
    page = Path(__file__).parent.parent / f"docs/benchmarks/{page_name}.md"
    page.parent.mkdir(exist_ok=True)
    old = page.read_text() if page.exists() else f"# {page_name.capitalize()}\n"
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    new = begin + text + "\n" + end
    if begin in old:
        new = old[: old.index(begin)] + new + old[old.index(end) + len(end) :]
    else:
        new = old + "\n" + new
    page.write_text(new)


def main(name, arguments, parts):
    """Parses, measures part by part in a scratch directory that goes away, prints, writes.

    Returns the exit status.
    """
    parser = argparse.ArgumentParser(prog=f"bench/{name}")
    parser.add_argument("--spry", type=Path, required=True, help="the spry to measure, built for release")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each measurement (default: 7)")
    part = "only this part; can be given several times"
    parser.add_argument("--part", choices=parts, action="append", help=part)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks")
    parser.add_argument("--scratch", type=Path, help="where recordings go meanwhile; needs up to 12 GB")
    for flag, settings in arguments.items():
        parser.add_argument(flag, **settings)
    options = parser.parse_args()
    Spry.program = options.spry.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    scratch = Path(tempfile.mkdtemp(prefix="spry-bench-", dir=options.scratch or "/var/tmp"))
    try:
        for part in options.part or parts:
            command = f"./x bench {name} --part {part} --rounds {options.rounds}"
            about = f"## {part.capitalize()}\n\n```sh\n{command}\n```\n\n{machine()}.\n\n"
            text = about + parts[part](options, scratch)
            print(text, flush=True)
            if options.write:
                write_section(name, f"{name} {part}", text)
        return 0
    except Failure as failure:
        print(f"bench/{name}: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch)
