//! Makes small files of every form that is read, all with the same records.

use std::io::Write;

/// A record as both recorders store it: its time, its CPU, and its bytes.
#[derive(Clone, Debug)]
pub struct Record {
    pub time_ns: u64,
    pub cpu: u32,
    pub data: Vec<u8>,
}

const SWITCH: u16 = 300;
const WAKING: u16 = 301;
const WAKEUP: u16 = 302;
const IDLE: u16 = 400;

/// Formats as a kernel might describe them, by system, with gaps between fields where no kernel has gaps.
fn formats() -> [(&'static str, Vec<String>); 2] {
    let common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
    let wake = "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int \
        prio;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";
    let switch = "\tfield:int next_prio;\toffset:8;\tsize:4;\tsigned:1;\n\
        \tfield:char prev_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:28;\tsize:4;\tsigned:1;\n\
        \tfield:int prev_prio;\toffset:32;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:40;\tsize:8;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:48;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:64;\tsize:4;\tsigned:1;\n\n\
        print fmt: \"\", __print_flags(REC->prev_state, \"|\", { 0x1, \"S\" }, { 0x2, \"D\" }, \
        { 0x10, \"X\" }, { 0x20, \"Z\" })\n";
    let format =
        |name: &str, id: u16, fields: &str| format!("name: {name}\nID: {id}\nformat:\n{common}{fields}");
    let idle = "\tfield:u32 state;\toffset:12;\tsize:4;\tsigned:0;\n\
        \tfield:u32 cpu_id;\toffset:16;\tsize:4;\tsigned:0;\n";
    let sched = vec![
        format("sched_switch", SWITCH, switch),
        format("sched_waking", WAKING, wake),
        format("sched_wakeup", WAKEUP, wake),
    ];
    [("sched", sched), ("power", vec![format("cpu_idle", IDLE, idle)])]
}

fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

fn record(time_ns: u64, cpu: u32, kind: u16, current: u32, fields: &[u8]) -> Record {
    let mut data = kind.to_le_bytes().to_vec();
    data.extend_from_slice(&[0, 0]);
    data.extend_from_slice(&current.to_le_bytes());
    data.extend_from_slice(fields);
    Record { time_ns, cpu, data }
}

fn switch(time_ns: u64, cpu: u32, (prev, state): (u32, u64), next: u32) -> Record {
    let mut fields = 120u32.to_le_bytes().to_vec();
    fields.extend_from_slice(&comm(&name(prev)));
    fields.extend_from_slice(&prev.to_le_bytes());
    fields.extend_from_slice(&120u32.to_le_bytes());
    fields.extend_from_slice(&[0; 4]);
    fields.extend_from_slice(&state.to_le_bytes());
    fields.extend_from_slice(&comm(&name(next)));
    fields.extend_from_slice(&next.to_le_bytes());
    record(time_ns, cpu, SWITCH, prev, &fields)
}

fn wake(time_ns: u64, cpu: u32, kind: u16, (waker, wakee): (u32, u32)) -> Record {
    let mut fields = comm(&name(wakee)).to_vec();
    for number in [wakee, 120, cpu] {
        fields.extend_from_slice(&number.to_le_bytes());
    }
    record(time_ns, cpu, kind, waker, &fields)
}

fn idle(time_ns: u64, cpu: u32, state: u32) -> Record {
    let fields = [0, state, cpu].map(u32::to_le_bytes).concat();
    record(time_ns, cpu, IDLE, 0, &fields)
}

fn name(tid: u32) -> String {
    if tid == 0 { "swapper".into() } else { format!("task-{tid}") }
}

/// Two tasks pass a token on each of two CPUs, which then enter and leave an idle state.
pub fn happening(rounds: u64) -> Vec<Record> {
    let mut records = Vec::new();
    for round in 0..rounds {
        for cpu in 0..2 {
            let (one, other) = (10 * cpu + 11, 10 * cpu + 12);
            let at = 1_000_000 + round * 100_000 + u64::from(cpu) * 7;
            records.push(wake(at, cpu, WAKING, (one, other)));
            records.push(wake(at + 1_000, cpu, WAKEUP, (one, other)));
            records.push(switch(at + 2_000, cpu, (one, 1), other));
            records.push(wake(at + 50_000, cpu, WAKING, (other, one)));
            records.push(wake(at + 51_000, cpu, WAKEUP, (other, one)));
            records.push(switch(at + 52_000, cpu, (other, if round % 2 == 0 { 1 } else { 0x40 }), one));
            records.push(idle(at + 53_000, cpu, 2));
            records.push(idle(at + 90_000, cpu, u32::MAX));
        }
    }
    records.sort_by_key(|record| record.time_ns);
    records
}

/// A task sleeps on CPU 0, which is then idle. Another task, which has CPU 1, wakes it; the waking still
/// names CPU 0. The woken task gets CPU 1 after a millisecond, and its move there has no record.
pub fn woken_elsewhere() -> Vec<Record> {
    const MS: u64 = 1_000_000;
    let mut waking = wake(3 * MS, 1, WAKING, (22, 11));
    waking.data[32..36].fill(0);
    vec![
        switch(MS, 0, (0, 0), 11),
        switch(MS + 1, 1, (0, 0), 22),
        switch(2 * MS, 0, (11, 1), 0),
        waking,
        wake(3 * MS + 1, 1, WAKEUP, (22, 11)),
        switch(4 * MS, 1, (22, 0x40), 11),
        switch(5 * MS, 1, (11, 1), 22),
        switch(6 * MS, 1, (22, 1), 0),
    ]
}

/// Takes the description of an event out of a file that is not packed: the event has another name there.
pub fn undescribe(file: &mut [u8], event: &str) {
    let line = format!("name: {event}\n").into_bytes();
    while let Some(at) = file.windows(line.len()).position(|bytes| bytes == line) {
        file[at + "name: ".len()] = b'x';
    }
}

/// Puts another text into the description of switches, in a file that is not packed: what `states` says of
/// them, with `S` for the field of states.
pub fn describe_states(file: &mut [u8], states: &str) {
    let text = states.replace("S&", "REC->prev_state&");
    let begins = b"__print_flags(REC->prev_state, ";
    let at = file.windows(begins.len()).position(|bytes| bytes == begins).expect("it is described");
    let len = file[at..].iter().position(|&byte| byte == b'\n').expect("the text ends");
    let text = format!("{text:len$}");
    assert_eq!(text.len(), len, "{text}");
    file[at..at + len].copy_from_slice(text.as_bytes());
}

/// The descriptions that both recorders copy from the kernel.
struct Meta {
    pages: Vec<u8>,
    own: Vec<u8>,
    formats: Vec<u8>,
    kallsyms: Vec<u8>,
    printk: Vec<u8>,
    names: Vec<u8>,
}

fn sized64(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn meta() -> Meta {
    let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    let mut formats_part = (formats().len() as u32).to_le_bytes().to_vec();
    for (system, formats) in formats() {
        formats_part.extend_from_slice(system.as_bytes());
        formats_part.push(0);
        formats_part.extend_from_slice(&(formats.len() as u32).to_le_bytes());
        formats.iter().for_each(|format| formats_part.extend(sized64(format)));
    }
    let functions = "ffffffff81000010 t hrtimer_wakeup\n";
    Meta {
        pages: [&b"header_page\0"[..], &sized64(page), b"header_event\0", &sized64("# none\n")].concat(),
        own: 0u32.to_le_bytes().to_vec(),
        formats: formats_part,
        kallsyms: [&(functions.len() as u32).to_le_bytes(), functions.as_bytes()].concat(),
        printk: 0u32.to_le_bytes().to_vec(),
        names: sized64("11 task-11\n12 task-12\n"),
    }
}

impl Meta {
    fn joined(&self) -> Vec<u8> {
        [&self.pages, &self.own, &self.formats, &self.kallsyms, &self.printk, &self.names]
            .map(|part| &part[..])
            .concat()
    }
}

fn start(version: &str) -> Vec<u8> {
    [b"\x17\x08Dtracing", version.as_bytes(), b"\0\0\x08", &4096u32.to_le_bytes()].concat()
}

/// `IDENTIFIER | TID | TIME | CPU | RAW`
const SAMPLE_TYPE: u64 = (1 << 16) | (1 << 1) | (1 << 2) | (1 << 7) | (1 << 10);
const ID: u64 = 77;

fn attr(kind: u16) -> Vec<u8> {
    let mut attr = vec![0; 128];
    attr[0] = 2;
    attr[4] = 128;
    attr[8..10].copy_from_slice(&kind.to_le_bytes());
    attr[24..32].copy_from_slice(&SAMPLE_TYPE.to_le_bytes());
    // `sample_id_all`, `use_clockid`; the monotonic clock.
    attr[40..48].copy_from_slice(&((1u64 << 18) | (1 << 25)).to_le_bytes());
    attr[92] = 1;
    attr
}

fn perf_record(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (body.len() + 8) as u16;
    [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes(), body].concat()
}

fn trailer(time_ns: u64, cpu: u32) -> Vec<u8> {
    let mut trailer = vec![0; 8];
    trailer.extend_from_slice(&time_ns.to_le_bytes());
    trailer.extend_from_slice(&u64::from(cpu).to_le_bytes());
    trailer.extend_from_slice(&ID.to_le_bytes());
    trailer
}

/// perf's records: the tasks' names, then samples CPU by CPU in rounds, one loss of seven events.
fn perf_records(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for tid in [11u32, 12] {
        let ids = [5u32.to_le_bytes(), tid.to_le_bytes()].concat();
        bytes.extend(perf_record(3, &[&ids[..], &comm(&name(tid)), &trailer(0, 0)].concat()));
    }
    for round in records.chunks(100) {
        for cpu in 0..2 {
            for record in round.iter().filter(|record| record.cpu == cpu) {
                let mut body = ID.to_le_bytes().to_vec();
                body.extend_from_slice(&[0; 8]);
                body.extend_from_slice(&record.time_ns.to_le_bytes());
                body.extend_from_slice(&u64::from(cpu).to_le_bytes());
                body.extend_from_slice(&(record.data.len() as u32 + 4).to_le_bytes());
                body.extend_from_slice(&record.data);
                body.extend_from_slice(&[0; 4]);
                bytes.extend(perf_record(9, &body));
            }
        }
        bytes.extend(perf_record(68, &[]));
    }
    let last_ns = records.last().map_or(0, |record| record.time_ns);
    let lost = [&ID.to_le_bytes()[..], &7u64.to_le_bytes(), &trailer(last_ns + 5, 1)].concat();
    bytes.extend(perf_record(2, &lost));
    bytes
}

/// A perf.data as `perf record` writes it.
pub fn perf_plain(records: &[Record]) -> Vec<u8> {
    perf_file(&perf_records(records))
}

/// A perf.data as `perf record -z` writes it: a stream of zstd in records that end anywhere.
pub fn perf_compressed(records: &[Record]) -> Vec<u8> {
    // perf flushes the stream of zstd, and never ends it.
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("zstd starts");
    encoder.write_all(&perf_records(records)).and_then(|()| encoder.flush()).expect("zstd packs");
    let packed: Vec<u8> = encoder.get_ref().chunks(1000).flat_map(|chunk| perf_record(81, chunk)).collect();
    perf_file(&packed)
}

fn perf_file(data: &[u8]) -> Vec<u8> {
    let kinds = [SWITCH, WAKING, WAKEUP, IDLE];
    let ids_at = 104u64;
    let attrs_at = ids_at + 8;
    let attrs: Vec<u8> = kinds
        .iter()
        .flat_map(|&kind| [&attr(kind)[..], &ids_at.to_le_bytes(), &8u64.to_le_bytes()].concat())
        .collect();
    let data_at = attrs_at + attrs.len() as u64;
    let tracing = [start("0.6"), meta().joined()].concat();
    let release = [&8u32.to_le_bytes()[..], b"6.1.0\0\0\0"].concat();
    let cpus = [2u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
    let features = [(1u64, tracing), (4, release), (7, cpus)];
    let mut at = data_at + data.len() as u64 + 16 * features.len() as u64;
    let mut table = Vec::new();
    for (_, feature) in &features {
        table.extend_from_slice(&at.to_le_bytes());
        table.extend_from_slice(&(feature.len() as u64).to_le_bytes());
        at += feature.len() as u64;
    }
    let bits = features.iter().map(|(bit, _)| 1u64 << bit).sum::<u64>();
    let numbers = [104, 144, attrs_at, attrs.len() as u64, data_at, data.len() as u64, 0, 0, bits, 0, 0, 0];
    let mut file = b"PERFILE2".to_vec();
    numbers.iter().for_each(|number: &u64| file.extend_from_slice(&number.to_le_bytes()));
    file.extend_from_slice(&ID.to_le_bytes());
    file.extend(attrs);
    file.extend_from_slice(data);
    file.extend(table);
    features.iter().for_each(|(_, feature)| file.extend_from_slice(feature));
    file
}

/// A perf.data as `perf record -o -` writes it.
pub fn perf_piped(records: &[Record]) -> Vec<u8> {
    let mut file = [&b"PERFILE2"[..], &16u64.to_le_bytes()].concat();
    for (bit, data) in [(4u64, &b"\x08\0\0\x006.1.0\0\0\0"[..]), (7, b"\x02\0\0\0\x02\0\0\0")] {
        file.extend(perf_record(80, &[&bit.to_le_bytes(), data].concat()));
    }
    for kind in [SWITCH, WAKING, WAKEUP, IDLE] {
        file.extend(perf_record(64, &[&attr(kind)[..], &ID.to_le_bytes()].concat()));
    }
    let mut tracing = [start("0.6"), meta().joined()].concat();
    tracing.resize(tracing.len().next_multiple_of(8), 0);
    file.extend(perf_record(66, &(tracing.len() as u32).to_le_bytes()));
    file.extend(tracing);
    file.extend(perf_records(records));
    file
}

/// The pages of a CPU, twenty records each. The last page of the second CPU states that seven events were
/// lost before it.
fn pages(records: &[Record], cpu: u32) -> Vec<u8> {
    let own: Vec<&Record> = records.iter().filter(|record| record.cpu == cpu).collect();
    let mut pages = Vec::new();
    let count = own.len().div_ceil(20);
    for (at, chunk) in own.chunks(20).enumerate() {
        let mut data = Vec::new();
        let mut last_ns = chunk[0].time_ns;
        for record in chunk {
            let delta = (record.time_ns - last_ns) as u32;
            last_ns = record.time_ns;
            let words = record.data.len().div_ceil(4) as u32;
            data.extend_from_slice(&((delta << 5) | words).to_le_bytes());
            data.extend_from_slice(&record.data);
            data.resize(data.len().next_multiple_of(4), 0);
        }
        let is_lossy = cpu == 1 && at + 1 == count;
        let flags = if is_lossy { (1u64 << 31) | (1 << 30) } else { 0 };
        let mut page = chunk[0].time_ns.to_le_bytes().to_vec();
        page.extend_from_slice(&(data.len() as u64 | flags).to_le_bytes());
        page.extend(data);
        page.extend_from_slice(&7u64.to_le_bytes());
        page.resize(4096, 0);
        pages.extend(page);
    }
    pages
}

pub fn option(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), data].concat()
}

fn options(clock: &[u8]) -> Vec<u8> {
    [option(4, clock), option(5, b"Linux node 6.1.0 x86_64\0"), option(8, &2u32.to_le_bytes())].concat()
}

/// A trace.dat of version 6.
pub fn trace_dat_6(records: &[Record]) -> Vec<u8> {
    trace_dat_6_of(records, b"local global [mono] boot\n")
}

/// A trace.dat of version 6 with this list of clocks. The option is empty: the list stands after the list of
/// CPUs.
pub fn trace_dat_6_of(records: &[Record], clocks: &[u8]) -> Vec<u8> {
    trace_dat_6_in(records, clocks, &[])
}

/// A trace.dat of version 6 with more buffers, each with its own list of clocks.
pub fn trace_dat_6_in(records: &[Record], clocks: &[u8], others: &[(&[Record], &[u8])]) -> Vec<u8> {
    trace_dat_6_with(records, clocks, others, &[])
}

/// A trace.dat of version 6 with more buffers and these further options.
pub fn trace_dat_6_with(
    records: &[Record],
    clocks: &[u8],
    others: &[(&[Record], &[u8])],
    more: &[u8],
) -> Vec<u8> {
    let mut file = [start("6"), meta().joined(), 2u32.to_le_bytes().to_vec()].concat();
    file.extend_from_slice(b"options  \0");
    file.extend(options(b""));
    file.extend_from_slice(more);
    let buffers: Vec<(&[Record], &[u8])> = [&[(records, clocks)], others].concat();
    let list_len = |clocks: &[u8]| 10 + 32 + 8 + clocks.len();
    // Each option has a number, a length, a place and a name.
    let mut list_at = file.len() + others.len() * (2 + 4 + 8 + 2) + 2 + list_len(clocks);
    for (_, clocks) in others {
        file.extend(option(3, &[&(list_at as u64).to_le_bytes()[..], b"x\0"].concat()));
        list_at += list_len(clocks);
    }
    file.extend_from_slice(&[0, 0]);
    let mut at = list_at.next_multiple_of(4096);
    for (records, clocks) in &buffers {
        file.extend_from_slice(b"flyrecord\0");
        for cpu in 0..2 {
            let len = pages(records, cpu).len();
            file.extend_from_slice(&(at as u64).to_le_bytes());
            file.extend_from_slice(&(len as u64).to_le_bytes());
            at += len;
        }
        file.extend_from_slice(&(clocks.len() as u64).to_le_bytes());
        file.extend_from_slice(clocks);
    }
    file.resize(file.len().next_multiple_of(4096), 0);
    buffers.iter().for_each(|(records, _)| file.extend([pages(records, 0), pages(records, 1)].concat()));
    file
}

/// The compression of a trace.dat of version 7.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    None,
    Zstd,
    Zlib,
}

impl Packing {
    fn pack(self, data: &[u8]) -> Vec<u8> {
        let packed = match self {
            Packing::None => return data.to_vec(),
            Packing::Zstd => zstd::bulk::compress(data, 3).expect("zstd packs"),
            Packing::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(data).expect("memory takes it");
                encoder.finish().expect("zlib packs")
            }
        };
        [&(packed.len() as u32).to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), &packed].concat()
    }

    fn section(self, kind: u16, data: &[u8]) -> Vec<u8> {
        let packed = self.pack(data);
        let flags = u16::from(self != Packing::None);
        let head =
            [&kind.to_le_bytes()[..], &flags.to_le_bytes(), &[0; 4], &(packed.len() as u64).to_le_bytes()];
        [&head.concat()[..], &packed].concat()
    }

    fn pages(self, pages: &[u8]) -> Vec<u8> {
        if self == Packing::None {
            return pages.to_vec();
        }
        let chunks: Vec<Vec<u8>> = pages.chunks(4096).map(|page| self.pack(page)).collect();
        [(chunks.len() as u32).to_le_bytes().to_vec(), chunks.concat()].concat()
    }
}

/// A trace.dat of version 7, with a second buffer that has no pages.
pub fn trace_dat_7(records: &[Record], packing: Packing) -> Vec<u8> {
    trace_dat_7_of(&[("other", "mono", &[]), ("", "mono", records)], packing, &[])
}

/// A trace.dat of version 7 with these buffers (name, clock and records) and these further options.
pub fn trace_dat_7_of(buffers: &[(&str, &str, &[Record])], packing: Packing, more: &[u8]) -> Vec<u8> {
    let mut file = start("7");
    let name = match packing {
        Packing::None => "none",
        Packing::Zstd => "zstd",
        Packing::Zlib => "zlib",
    };
    file.extend_from_slice(name.as_bytes());
    file.extend_from_slice(b"\x001.0\0");
    let options_place = file.len();
    file.extend_from_slice(&[0; 8]);
    let mut all = options(b"local global [mono] boot\0");
    let meta = meta();
    let parts =
        [(16, &meta.pages), (17, &meta.own), (18, &meta.formats), (19, &meta.kallsyms), (21, &meta.names)];
    for (kind, data) in parts {
        all.extend(option(kind, &(file.len() as u64).to_le_bytes()));
        file.extend(packing.section(kind, data));
    }
    all.extend_from_slice(more);
    for (name, clock, records) in buffers {
        let section_at = file.len() as u64;
        let flags = u16::from(packing != Packing::None);
        file.extend([&3u16.to_le_bytes()[..], &flags.to_le_bytes(), &[0; 12]].concat());
        let mut buffer = section_at.to_le_bytes().to_vec();
        buffer.extend_from_slice(format!("{name}\0{clock}\0").as_bytes());
        buffer.extend_from_slice(&4096u32.to_le_bytes());
        buffer.extend_from_slice(&2u32.to_le_bytes());
        for cpu in 0..2u32 {
            let pages = pages(records, cpu);
            let pages = if pages.is_empty() { pages } else { packing.pages(&pages) };
            if packing == Packing::None {
                file.resize(file.len().next_multiple_of(4096), 0);
            }
            buffer.extend_from_slice(&cpu.to_le_bytes());
            buffer.extend_from_slice(&(file.len() as u64).to_le_bytes());
            buffer.extend_from_slice(&(pages.len() as u64).to_le_bytes());
            file.extend(pages);
        }
        all.extend(option(3, &buffer));
    }
    all.extend(option(0, &0u64.to_le_bytes()));
    let options_at = file.len() as u64;
    file.extend(packing.section(0, &all));
    file[options_place..options_place + 8].copy_from_slice(&options_at.to_le_bytes());
    file
}

/// Every form, by name.
pub fn forms(records: &[Record]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("perf.data", perf_plain(records)),
        ("perf.data, compressed", perf_compressed(records)),
        ("perf.data, piped", perf_piped(records)),
        ("trace.dat 6", trace_dat_6(records)),
        ("trace.dat 7", trace_dat_7(records, Packing::None)),
        ("trace.dat 7, zstd", trace_dat_7(records, Packing::Zstd)),
        ("trace.dat 7, zlib", trace_dat_7(records, Packing::Zlib)),
    ]
}
