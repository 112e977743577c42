//! Holds the first CPU up for 5 ms twenty times a second, for tests: `plant tracepoint|softirq SECONDS`.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{ObjectBuilder, OpenObject, ProgramInput};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plant.bpf.o"));

const PERIOD: Duration = Duration::from_millis(50);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, kind, seconds] = args.as_slice() else { return Err("plant tracepoint|softirq SECONDS".into()) };
    let until = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    on_first_cpu();
    let program = match kind.as_str() {
        "tracepoint" => "plant_tracepoint",
        "softirq" => "plant_timer",
        other => return Err(format!("{other} is no place for a delay").into()),
    };
    let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
    for mut each in open.progs_mut() {
        let wanted = each.name() == program;
        each.set_autoload(wanted);
    }
    set_tid(&mut open)?;
    let object = open.load()?;
    let planted = object.progs_mut().find(|each| each.name() == program).ok_or("the program is missing")?;
    let _link = match kind.as_str() {
        "tracepoint" => Some(planted.attach()?),
        _ => {
            let ran = planted.test_run(ProgramInput::default())?;
            if ran.return_value != 0 {
                return Err("the timer does not start".into());
            }
            None
        }
    };
    println!("planted");
    while Instant::now() < until {
        thread::sleep(PERIOD);
        if kind == "tracepoint" {
            // SAFETY: the name is a C string.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"planted".as_ptr()) };
        }
    }
    Ok(())
}

fn on_first_cpu() {
    // SAFETY: the set is whole, and 0 is the calling thread.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut cpus);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&cpus), &cpus), 0);
    }
}

/// Gives the program this thread's number: it holds up this thread's change of name.
fn set_tid(open: &mut OpenObject) -> libbpf_rs::Result<()> {
    // SAFETY: no preconditions.
    let tid = unsafe { libc::gettid() }.unsigned_abs();
    for mut map in open.maps_mut() {
        if map.name() == ".rodata.tid" {
            map.set_initial_value(&tid.to_ne_bytes())?;
        }
    }
    Ok(())
}
