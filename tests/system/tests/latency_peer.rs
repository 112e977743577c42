//! `spry latency` beside cyclictest. The test is in a program of its own, so that no other test samples the
//! same CPU at that time.

use std::fs;
use std::process::Command;

use spry_latency::histfile::{self, Column};
use spry_system_tests::{need_root, run, spry};

#[test]
fn beside_cyclictest_it_says_the_same_of_the_same_cpu() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let (mut ours, mut theirs) = (Column::default(), Column::default());
    // The two tools measure in short turns, so that a varying load of this machine affects both alike.
    for turn in 0..32 {
        let file = dir.path().join(format!("{turn}.hist"));
        let mut command;
        if turn % 2 == 0 {
            command = Command::new(spry());
            command.args(["latency", "--quiet", "--cpus", "0", "--samples", "1000", "--histfile"]).arg(&file);
        } else {
            command = Command::new("cyclictest");
            command.args(["-q", "-m", "-p80", "-i488", "-a0", "-t1", "-l1000", "-h2000"]);
            command.arg(format!("--histfile={}", file.display()));
        }
        run(&mut command);
        let text = fs::read_to_string(&file).expect("a histogram was written");
        let columns = histfile::read(&text).expect("both write the same format");
        assert_eq!(columns.len(), 1);
        add(if turn % 2 == 0 { &mut ours } else { &mut theirs }, &columns[0]);
    }
    for part in [0.5, 0.9] {
        let quantile =
            |column: &Column| column.quantile_us(part).expect("it is far below the last line") as f64;
        let (our_us, their_us) = (quantile(&ours), quantile(&theirs));
        // The quantiles of this machine itself differ by this much from one such run to the next.
        assert!(
            (our_us - their_us).abs() <= (0.35 * their_us).max(5.0),
            "{part}: {our_us} us, cyclictest {their_us} us"
        );
    }
}

fn add(sum: &mut Column, column: &Column) {
    sum.counts.resize(sum.counts.len().max(column.counts.len()), 0);
    sum.counts.iter_mut().zip(&column.counts).for_each(|(sum, count)| *sum += count);
    sum.overflows += column.overflows;
}
