//! stress-ng: the command that starts it, and the metrics that it writes at its end.

use std::path::Path;
use std::process::Command;

use crate::needs;
use crate::options::Share;
use crate::suite::Stress;

/// The file into which stress-ng writes its metrics.
pub(crate) const METRICS: &str = "metrics.yaml";

/// A time that stands for ever. stress-ng's own value for ever is 0, but some stressors treat it as no time.
/// fpunch then sleeps for 0 s while its children work, and ends; sometimes this ends the other stressors too.
const FOR_EVER: &str = "10y";

/// The command that runs these stressors in the current directory until stress-ng receives a signal to end.
pub(crate) fn command(stress: Stress, share: &Share) -> Command {
    let program = needs::program("stress-ng").unwrap_or_else(|| "stress-ng".into());
    let mut command = Command::new(program);
    command.args(arguments(stress, share));
    command.args(["--timeout", FOR_EVER, "--temp-path", ".", "--metrics-brief", "--yaml", METRICS]);
    // With this option the load is the same each time.
    command.arg("--no-rand-seed");
    command
}

fn arguments(stress: Stress, share: &Share) -> Vec<String> {
    let workers = share.workers.to_string();
    let (memory, disk) = share.each();
    let kib = |bytes: u64| format!("{}K", bytes / 1024);
    let words: Vec<&str> = match stress {
        Stress::Sockets => vec!["--sock", &workers],
        // The program itself takes some of the memory, and two processes may hold the same pages.
        Stress::FifosAndMaps => {
            let bytes = kib((memory / 4).min(disk / 2));
            let fifos = ["--fifo", &workers, "--fifo-readers", "1", "--fifo-data-size", "4096"];
            let maps = ["--mmap", &workers, "--mmap-file", "--mmap-bytes", &bytes];
            return fifos.iter().chain(&maps).map(|&word| word.to_owned()).collect();
        }
        Stress::Matrices => vec!["--matrix", &workers, "--matrix-size", "128"],
        // A file with punched holes has 16 MiB, regardless of the size in the options.
        Stress::Files => {
            let bytes = kib((disk - (16 << 20)) / 2);
            let holes = ["--fpunch", &workers, "--fallocate", &workers, "--fallocate-bytes", &bytes];
            let seeks = ["--seek", &workers, "--seek-punch", "--seek-size", &bytes];
            return holes.iter().chain(&seeks).map(|&word| word.to_owned()).collect();
        }
        Stress::RandomCode => vec!["--opcode", &workers, "--opcode-method", "random"],
        Stress::Loop => vec!["--cpu", &workers, "--cpu-method", "loop"],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// The number of bogo operations of all stressors together; `None` if stress-ng has not written its metrics.
pub(crate) fn operations(directory: &Path) -> Option<u64> {
    sum(&std::fs::read_to_string(directory.join(METRICS)).ok()?)
}

fn sum(text: &str) -> Option<u64> {
    let counts =
        text.lines().filter_map(|line| line.trim().strip_prefix("bogo-ops:")?.trim().parse::<u64>().ok());
    counts.reduce(|sum, count| sum.saturating_add(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bogo_operations_are_summed_over_stressors_and_rates_are_not() {
        let text = "metrics:\n    - stressor: fifo\n      bogo-ops: \
                    578\n      bogo-ops-per-second-real-time: 9.5\n\
            \n    - stressor: mmap\n      bogo-ops: 22\n...\n";
        assert_eq!(sum(text), Some(600));
        assert_eq!(sum("metrics:\n...\n"), None);
    }

    #[test]
    fn files_of_one_worker_stay_within_its_disk_space() {
        let share = Share { memory_bytes: 64 << 20, disk_bytes: 64 << 20, workers: 1 };
        let words = arguments(Stress::Files, &share);
        let sizes: Vec<u64> =
            words.iter().filter_map(|word| word.strip_suffix('K')?.parse::<u64>().ok()).collect();
        assert_eq!(sizes.len(), 2, "{words:?}");
        assert!(16 * 1024 + sizes.iter().sum::<u64>() <= 64 * 1024, "{words:?}");
    }
}
