use std::collections::HashMap;
use spry_trace::event::*;
fn main() {
    let mut r = spry_trace::Reader::new(std::io::BufReader::new(std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap())).unwrap();
    #[derive(Default)] struct T { comm: String, first: Option<(u64,u64)>, run: u64, stolen: u64, stays: u64, on: Option<u64>, done: bool, wall: u64 }
    let mut t: HashMap<u32, T> = HashMap::new();
    let mut cur: HashMap<u16, (u32,u32,u64)> = HashMap::new();
    while let Some(e) = r.next_event().unwrap() {
        match e.event {
            Event::Task(i) => t.entry(i.tid.0).or_default().comm = i.comm.to_string(),
            Event::Fork(f) => { let x = t.entry(f.child.0).or_default(); *x = T { comm: f.comm.to_string(), first: Some((e.time_ns, 0)), ..T::default() }; }
            Event::Switch(s) => {
                if s.prev.0 != 0 { let x = t.entry(s.prev.0).or_default(); if let Some(&(n, p, at)) = cur.get(&e.cpu) { if n != s.prev.0 && p == s.prev.0 { x.on = Some(at); } } if let Some(on) = x.on.take() { x.wall += e.time_ns - on; x.run += (e.time_ns - on).saturating_sub(s.stolen_ns.into()); x.stolen += u64::from(s.stolen_ns); x.stays += 1; } }
                cur.insert(e.cpu, (s.next.0, s.prev.0, e.time_ns));
                if s.next.0 != 0 { t.entry(s.next.0).or_default().on = Some(e.time_ns); }
            }
            Event::Stat(s) => {
                let x = t.entry(s.tid.0).or_default();
                match x.first { None => { x.first = Some((e.time_ns, s.exec_ns)); x.run = 0; if s.state == StatState::Running { x.on = Some(e.time_ns); } }
                  Some((t0, e0)) => { if x.done { continue } x.done = true;
                     let run = x.run + x.on.map_or(0, |on| e.time_ns - on); let exec = s.exec_ns - e0;
                     let diff = run as i64 - exec as i64;
                     let bad = x.comm.as_str() != "rec" && diff.unsigned_abs() > (exec / 1000).max(20_000);
                     if bad || exec > 50_000_000 { println!("{:7} {:16} {:?} window {:.3}s exec {:.6} run {:.6} diff {:+} ns ({:+.3}%) stolen {} stays {} per stay {:.1} {}", s.tid.0, x.comm, s.state, (e.time_ns-t0) as f64/1e9, exec as f64/1e9, run as f64/1e9, diff, diff as f64*100./exec as f64, x.stolen, x.stays, diff as f64/x.stays.max(1) as f64, if bad {"BAD"} else {""}) } } }
            }
            _ => {}
        }
    }
}
