fn main() {
    let mut r = spry_trace::Reader::new(std::io::BufReader::new(std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap())).unwrap();
    if std::env::args().nth(2).is_some() { println!("{:#?}", r.header()); }
    while let Some(e) = r.next_event().unwrap() { println!("{} {} {:?}", e.time_ns, e.cpu, e.event); }
    eprintln!("{:?}", r.totals());
}
