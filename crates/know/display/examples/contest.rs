//! Measures the CPU time of programs that pretend to be in use, beside one honest loop: `contest SECONDS
//! TRICK@ROLE...`, as root, in the directory of the programs `deceive` and `honest` (the same file). A role
//! is the number of a user, or `terminal`: then the trick is started in the terminal of the person's editor.
//! It prints one line of JSON for each trick.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spry_sys::schedule::{Children, Policy, set_policy};
use spry_sys::settle::{Setting, settle};
use spry_sys::{Signal, signal};

type Outcome<T> = Result<T, Box<dyn Error>>;

const DAEMON: &str = "/run/spry/sched.sock.root";
/// From this file the shell in the person's terminal takes the commands to start.
const JOBS: &str = "/tmp/jobs";
/// The numbers of the users of the terminal and of the honest loop.
const PERSON: u32 = 1000;
const HONEST: u32 = 1001;
/// A trick's CPU time in this first time, s, is counted apart: a gain only in that time does not last.
const FIRST_S: f64 = 5.0;
/// The pause between two looks at the processes.
const PAUSE: Duration = Duration::from_millis(250);

/// The observations of a process that deceives.
#[derive(Default)]
struct Deceiver {
    /// The trick and the user, as `TRICK@UID`.
    trick: String,
    cpu_s: f64,
    /// The part of the CPU time that the process had in the first seconds.
    first_cpu_s: f64,
    used_s: f64,
    way: String,
}

/// The observations of all processes.
#[derive(Default)]
struct Book {
    deceivers: BTreeMap<u32, Deceiver>,
    honest_s: f64,
    first_honest_s: f64,
    /// The time for which the person's programs were in use, by name, s.
    person_s: BTreeMap<String, f64>,
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().ok_or("usage: contest SECONDS TRICK@ROLE...")?.parse()?;
    let asked: Vec<String> = args.collect();
    become_real_time()?;
    let mut children = vec![begin("honest", "loop", HONEST)?];
    for asked in &asked {
        let (trick, role) = asked.split_once('@').ok_or("a trick has a role")?;
        match role {
            "terminal" => fs::write(JOBS, format!("/spry/deceive {trick}\n"))?,
            uid => children.push(begin("deceive", trick, uid.parse()?)?),
        }
    }
    let mut book = Book::default();
    let start = Instant::now();
    let mut before = start;
    while start.elapsed() < Duration::from_secs(seconds) {
        thread::sleep(PAUSE);
        let now = Instant::now();
        book.look(children[0].id(), (now - before).as_secs_f64())?;
        if start.elapsed().as_secs_f64() < FIRST_S {
            book.end_first();
        }
        before = now;
    }
    end(&book, &mut children);
    for asked in &asked {
        println!("{}", book.of(asked));
    }
    println!("person in use of {:.1} s: {:?}", start.elapsed().as_secs_f64(), book.person_s);
    // A trick's effect on the policy's averages must be over before the next trick begins.
    thread::sleep(Duration::from_secs(3));
    Ok(())
}

/// Makes this process real-time, so that its looks do not wait for the processes that it looks at. Programs
/// that it starts are ordinary again.
fn become_real_time() -> Outcome<()> {
    Ok(set_policy(0, Policy::RoundRobin(1), Children::Ordinary)?)
}

/// Starts a program in a session of its own.
fn begin(program: &str, trick: &str, uid: u32) -> Outcome<Child> {
    let mut command = Command::new(format!("/spry/{program}"));
    command.arg(trick).env("DISPLAY", fs::read_to_string("/tmp/display")?.trim()).env("HOME", "/tmp");
    command.uid(uid).gid(uid).stdin(Stdio::null()).current_dir("/tmp");
    Ok(settle(&mut command, [Setting::OwnSession]).spawn()?)
}

fn end(book: &Book, children: &mut [Child]) {
    for &tgid in book.deceivers.keys() {
        if trick_of(tgid).is_some() {
            // The number was a deceiver's a moment ago.
            _ = signal::send(tgid, Signal::KILL);
        }
    }
    for child in children {
        _ = child.kill();
        _ = child.wait();
    }
}

/// The trick of a process that deceives, and its user: `TRICK@UID`.
fn trick_of(tgid: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{tgid}/cmdline")).ok()?;
    let mut words = line.split(|&byte| byte == 0);
    let is_one = words.next() == Some(b"/spry/deceive");
    let trick = String::from_utf8_lossy(words.next().filter(|_| is_one)?).into_owned();
    let uid = fs::metadata(format!("/proc/{tgid}")).ok()?.uid();
    Some(format!("{trick}@{uid}"))
}

/// The CPU time of a process so far, s.
fn cpu_s(tgid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{tgid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

fn status() -> Outcome<Value> {
    let mut stream = UnixStream::connect(DAEMON)?;
    stream.write_all(b"{\"ask\":\"status\"}\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

impl Book {
    /// Adds the CPU time and the use since the latest look.
    fn look(&mut self, honest: u32, since_s: f64) -> Outcome<()> {
        self.honest_s = cpu_s(honest).ok_or("the honest loop ended")?;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(tgid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let (Some(trick), Some(cpu_s)) = (trick_of(tgid), cpu_s(tgid)) else { continue };
            let seen = self.deceivers.entry(tgid).or_default();
            (seen.trick, seen.cpu_s) = (trick, cpu_s);
        }
        let status = status()?;
        let tasks = status["status"]["tasks"].as_array().ok_or("a status has tasks")?;
        for task in tasks.iter().filter(|task| task["class"] == "interactive") {
            let tgid = task["tgid"].as_u64().unwrap_or(0) as u32;
            if let Some(seen) = self.deceivers.get_mut(&tgid) {
                seen.used_s += since_s;
                seen.way = way(task);
            } else if let Some(name) = task["comm"].as_str() {
                *self.person_s.entry(name.to_owned()).or_default() += since_s;
            }
        }
        Ok(())
    }

    /// Notes that all CPU time so far was in the first seconds.
    fn end_first(&mut self) {
        self.first_honest_s = self.honest_s;
        self.deceivers.values_mut().for_each(|seen| seen.first_cpu_s = seen.cpu_s);
    }

    /// The result of one trick.
    fn of(&self, asked: &str) -> Value {
        let trick = asked.replace("terminal", &PERSON.to_string());
        let all = self.deceivers.values().filter(|seen| seen.trick == trick);
        let hog = all.clone().max_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s));
        let used = all.clone().max_by(|one, other| one.used_s.total_cmp(&other.used_s));
        json!({
            "trick": asked,
            "deceiver_s": all.clone().map(|seen| seen.cpu_s).sum::<f64>(),
            "honest_s": self.honest_s,
            "later_deceiver_s": all.map(|seen| seen.cpu_s - seen.first_cpu_s).sum::<f64>(),
            "later_honest_s": self.honest_s - self.first_honest_s,
            "hog_used_s": hog.map_or(0.0, |seen| seen.used_s),
            "used_s": used.map_or(0.0, |seen| seen.used_s),
            "way": hog.filter(|seen| seen.used_s > 0.0).map_or("", |seen| &seen.way),
        })
    }
}

fn way(task: &Value) -> String {
    let steps = task["path"].as_array().into_iter().flatten();
    let names: Vec<&str> = steps.filter_map(|step| step["name"].as_str()).collect();
    names.join(" > ")
}
