fn main() {
    let f = std::env::args().nth(1).unwrap();
    let o = libbpf_rs::ObjectBuilder::default().open_file(f).unwrap().load().unwrap();
    let l: Vec<_> = o.progs_mut().map(|p| p.attach().unwrap()).collect();
    std::thread::sleep(std::time::Duration::from_secs(std::env::args().nth(2).unwrap().parse().unwrap()));
    drop(l);
}
