//! Files of guests that were recorded beside their host: their stamps are put on the host's clock, as
//! trace-cmd does it.

use std::io::Cursor;
use std::process::Command;

use spry_import::Import;
use spry_trace::Stamped;

use crate::{ROUNDS, forge, happened, notes, read};

const CLOCKS: &[u8] = b"local global [mono] boot\n";
const TSC_CLOCKS: &[u8] = b"local global mono [x86-tsc]\n";
/// The numbers of options.
const DATE: u16 = 1;
const OFFSET: u16 = 7;
const TIME_SHIFT: u16 = 12;
const GUEST: u16 = 13;
const TSC2NSEC: u16 = 14;

/// A measurement of the clocks' distance: time, offset, ratio, fraction bits.
type Sample = (u64, i64, u64, u64);

/// The data of corrections, for each of these CPUs.
fn shift(is_even: u32, cpus: &[&[Sample]]) -> Vec<u8> {
    let mut data =
        [&9u64.to_le_bytes()[..], &is_even.to_le_bytes(), &(cpus.len() as u32).to_le_bytes()].concat();
    for samples in cpus {
        data.extend((samples.len() as u32).to_le_bytes());
        samples.iter().for_each(|sample| data.extend(sample.0.to_le_bytes()));
        samples.iter().for_each(|sample| data.extend(sample.1.to_le_bytes()));
        samples.iter().for_each(|sample| data.extend(sample.2.to_le_bytes()));
    }
    cpus.iter().flat_map(|samples| samples.iter()).for_each(|sample| data.extend(sample.3.to_le_bytes()));
    data
}

/// The same file in both versions of the form, the second packed and not.
fn files(clocks: &[u8], options: &[u8]) -> [Vec<u8>; 3] {
    let records = forge::happening(ROUNDS);
    let name = String::from_utf8_lossy(clocks);
    let (_, rest) = name.split_once('[').unwrap();
    let buffers = [("", rest.split_once(']').unwrap().0, &records[..])];
    [
        forge::trace_dat_6_with(&records, clocks, &[], options),
        forge::trace_dat_7_of(&buffers, forge::Packing::None, options),
        forge::trace_dat_7_of(&buffers, forge::Packing::Zstd, options),
    ]
}

/// Each CPU's times.
fn times(events: &[Stamped]) -> [Vec<u64>; 2] {
    let of = |cpu| {
        let events = events.iter().filter(|stamped| stamped.cpu == cpu);
        events.map(|stamped| stamped.time_ns).collect()
    };
    [of(0), of(1)]
}

/// The time that a CPU's stamp stands for.
type Expected = fn(u64, u64) -> u64;

/// Options with their clock, and what they make of stamps.
fn cases() -> Vec<(&'static str, &'static [u8], Vec<u8>, Expected)> {
    let shift = |is_even, cpus: &[&[Sample]]| forge::option(TIME_SHIFT, &shift(is_even, cpus));
    let even: &[Sample] = &[(4_000_000, 5_000, 1, 0), (0, 1_000, 1, 0)];
    let sinking: &[Sample] = &[(0, -1_000, 1, 0), (2_000_000, -2_501, 1, 0), (3_000_000, -2_504, 1, 0)];
    let steps: &[Sample] =
        &[(1_500_000, 100, 1, 0), (2_500_000, 300, 1, 0), (2_500_000, 300, 1, 0), (3_500_000, 900, 1, 0)];
    let scaled: &[Sample] = &[(0, 70, 3, 1), (1_000_000, 70, 3, 1)];
    let one = shift(0, &[&[(0, 4_000_000_000, 1, 0)], &[(7, -500_000, 1, 0)]]);
    let to_ns = forge::option(TSC2NSEC, &[&3u32.to_le_bytes()[..], &1u32.to_le_bytes(), &[0; 8]].concat());
    let fixed = [forge::option(DATE, b"0x10\0"), forge::option(OFFSET, b"-250\0")].concat();
    vec![
        ("one sample", CLOCKS, one.clone(), |cpu, stamp| {
            [stamp + 4_000_000_000, stamp - 500_000][cpu as usize]
        }),
        ("even", CLOCKS, shift(1, &[even, even]), |_, stamp| {
            stamp + 1_000 + (stamp * 4_000 + 2_000_000) / 4_000_000
        }),
        ("steps", CLOCKS, shift(0, &[steps, steps]), |_, stamp| {
            stamp + if stamp < 2_500_000 { 100 } else { 300 }
        }),
        ("sinking", CLOCKS, shift(1, &[sinking, sinking]), |_, stamp| {
            let at = stamp as i64;
            let change = if stamp < 2_000_000 {
                -1_000 + (at * -1_501 + 1_000_000) / 2_000_000
            } else {
                -2_501 + ((at - 2_000_000) * -3 + 500_000) / 1_000_000
            };
            stamp.saturating_add_signed(change)
        }),
        ("scaled", CLOCKS, shift(0, &[scaled, scaled]), |_, stamp| stamp * 3 / 2 + 70),
        (
            "one CPU",
            CLOCKS,
            shift(0, &[scaled]),
            |cpu, stamp| if cpu == 0 { stamp * 3 / 2 + 70 } else { stamp },
        ),
        ("cycles", TSC_CLOCKS, [to_ns.clone(), one.clone()].concat(), |cpu, stamp| {
            [stamp + 4_000_000_000, stamp - 500_000][cpu as usize] * 3 / 2
        }),
        ("fixed", CLOCKS, fixed.clone(), |_, stamp| stamp + 16_000 - 250),
        ("all", TSC_CLOCKS, [fixed, one, to_ns].concat(), |cpu, stamp| {
            [stamp + 4_000_000_000, stamp - 500_000][cpu as usize] * 3 / 2 + 16_000 - 250
        }),
    ]
}

#[test]
fn a_guest_s_times_are_those_of_its_host_s_clock() {
    for (name, clocks, options, expected) in cases() {
        for (number, file) in files(clocks, &options).iter().enumerate() {
            let plain = &files(CLOCKS, &[])[number];
            let plain = times(&happened(&read(plain).unwrap().0));
            let (events, totals) = read(file).unwrap();
            let found = times(&happened(&events));
            for cpu in [0, 1] {
                let expected: Vec<u64> =
                    plain[cpu].iter().map(|&stamp| expected(cpu as u64, stamp)).collect();
                assert_eq!(found[cpu], expected, "{name}, file {number}, CPU {cpu}");
            }
            assert_eq!(totals.damaged_bytes, 0, "{name}");
            let is_said = notes(file).contains("all times are those of the host's clock");
            assert_eq!(is_said, name != "fixed", "{name}: {}", notes(file));
            let is_other_rate = notes(file).contains("at another rate");
            assert_eq!(is_other_rate, ["scaled", "one CPU"].contains(&name), "{name}: {}", notes(file));
        }
    }
}

/// The times of each CPU that `trace-cmd report` prints; `None` without trace-cmd.
fn told_by_trace_cmd(file: &[u8]) -> Option<[Vec<u64>; 2]> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("guest.dat");
    std::fs::write(&path, file).unwrap();
    let output = Command::new("trace-cmd").args(["report", "-t", "-R", "-i"]).arg(&path).output().ok()?;
    let mut times = [Vec::new(), Vec::new()];
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((cpu, rest)) = line.split_once('[').and_then(|(_, rest)| rest.split_once(']')) else {
            continue;
        };
        let Some((time, _)) = rest.trim_start().split_once(": ") else { continue };
        let digits = time.replace('.', "");
        // A line of lost events has other words in its brackets.
        if let Ok(cpu) = cpu.parse::<usize>() {
            times[cpu].push(digits.parse().unwrap());
        }
    }
    Some(times)
}

#[test]
fn a_guest_s_times_are_those_that_trace_cmd_tells() {
    for (name, clocks, options, _) in cases() {
        for (number, file) in files(clocks, &options).iter().enumerate() {
            let Some(theirs) = told_by_trace_cmd(file) else { return };
            let found = times(&happened(&read(file).unwrap().0));
            assert_eq!(found, theirs, "{name}, file {number}");
        }
    }
}

#[test]
fn damaged_corrections_are_left_out_and_told() {
    let sample: &[Sample] = &[(0, 1_000, 1, 0), (1, 1_000, 1, 0)];
    let whole = shift(0, &[sample, sample]);
    let plain = times(&happened(&read(&files(CLOCKS, &[])[0]).unwrap().0));
    // Older versions wrote no fraction bits.
    let without_bits = whole.len() - 4 * 8;
    let mut datas: Vec<Vec<u8>> =
        (0..whole.len()).filter(|&len| len != without_bits).map(|len| whole[..len].to_vec()).collect();
    // The number of CPUs, and the first CPU's number of samples.
    for at in [12, 16] {
        let mut data = whole.clone();
        data[at..at + 4].fill(0xff);
        datas.push(data);
    }
    for data in datas {
        for file in files(CLOCKS, &forge::option(TIME_SHIFT, &data)) {
            let (events, totals) = read(&file).unwrap();
            assert_eq!((times(&happened(&events)), totals.damaged_bytes), (plain.clone(), 0));
            assert!(notes(&file).contains("are damaged"), "{}", notes(&file));
        }
    }
    let file = &files(CLOCKS, &forge::option(TIME_SHIFT, &whole[..without_bits]))[0];
    assert!(!notes(file).contains("are damaged"), "{}", notes(file));
}

#[test]
fn a_host_s_file_is_as_any_other() {
    let guest =
        [&b"guest\0"[..], &7u64.to_le_bytes(), &[2u32, 6, 11, 7, 12].map(u32::to_le_bytes).concat()].concat();
    for (file, plain) in files(CLOCKS, &forge::option(GUEST, &guest)).iter().zip(files(CLOCKS, &[])) {
        assert_eq!(read(file).unwrap().0, read(&plain).unwrap().0);
        assert_eq!(Import::open(Cursor::new(file)).unwrap().header().cpus, 2);
        assert_eq!(notes(file), "");
    }
}
