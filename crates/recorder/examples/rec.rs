use spry_recorder::{Recorder, create};
use spry_trace::{Group, Groups};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let secs: f64 = args[2].parse().unwrap();
    let groups: Groups = args.get(3).map(|s| s.split(',').map(|n| Group::from_name(n).unwrap()).collect()).unwrap_or_default();
    let r = Recorder::builder().groups(groups).start(create(args[1].as_ref()).unwrap());
    let r = match r { Ok(r) => r, Err(e) => { eprintln!("{e}"); std::process::exit(1) } };
    eprintln!("started");
    if args.get(4).is_some_and(|a| a == "toggle") {
        use spry_recorder::Switch;
        let mut line = String::new();
        let mut on = true;
        while { line.clear(); std::io::stdin().read_line(&mut line).unwrap() > 0 } {
            on = line.trim() == "1";
            r.set_enabled(if on { Switch::On } else { Switch::Off }).unwrap();
            println!("{}", line.trim());
        }
        let _ = on;
    } else {
        let t = std::time::Instant::now();
        while t.elapsed().as_secs_f64() < secs && !r.has_failed() { std::thread::sleep(std::time::Duration::from_millis(20)); }
    }
    match r.stop() { Ok(s) => { eprintln!("{s:?}");
      eprintln!("rate {:.0}/s drain {:.2}% writer {:.2}% ns/event {:.0} bytes/event {:.2}", s.events as f64*1e9/s.duration_ns as f64, s.drain_cpu_ns as f64*100./s.duration_ns as f64, s.writer_cpu_ns as f64*100./s.duration_ns as f64, (s.drain_cpu_ns+s.writer_cpu_ns) as f64/s.events as f64, s.bytes as f64/s.events as f64);
    } Err(e) => eprintln!("{e}") }
}
