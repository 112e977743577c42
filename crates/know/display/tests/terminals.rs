//! Terminals as devices: the processes that are in use by them, and the processes that are not.

use std::collections::BTreeSet;

use spry_display::terminals::{Activity, Device, Size, TerminalObservations, Terminals, World};
use spry_policy::{Changes, DeviceOwner, Place, Sample, Server, Tgid};

const CONSOLE: Device = Device { major: 4, minor: 1 };
const PTY: Device = Device { major: 136, minor: 3 };
const SECOND_NS: u64 = 1_000_000_000;

const OWNER: u32 = 1000;
const SSHD: Tgid = Tgid(20);
const SHELL: Tgid = Tgid(21);
const WINDOW: Tgid = Tgid(30);

#[derive(Default)]
struct Machine {
    sessions: BTreeSet<Tgid>,
    size: Option<Size>,
}

impl World for Machine {
    fn is_remote_session(&mut self, holder: Tgid) -> bool {
        self.sessions.contains(&holder)
    }

    fn size(&mut self, _device: Device) -> Option<Size> {
        self.size
    }

    fn owner(&mut self, _device: Device) -> Option<u32> {
        Some(OWNER)
    }
}

/// The policy's name for a terminal: the device that its samples carry.
fn source(Device { major, minor }: Device) -> spry_policy::Device {
    spry_policy::Device { place: Place::Terminal { major, minor }, whose: DeviceOwner::User(OWNER) }
}

fn session() -> Server {
    Server { tgid: SSHD, device: Some(source(PTY)) }
}

fn machine() -> Machine {
    Machine { sessions: BTreeSet::from([SSHD]), size: None }
}

const fn activity(device: Device, holder: Tgid, reader: Tgid, typed: u32) -> Activity {
    Activity { device, holder: Some(holder), reader: Some(reader), typed, keyed: 0, shown: 0 }
}

fn seen(activity: Activity) -> TerminalObservations {
    Terminals::new().take(SECOND_NS, &[activity], &mut machine())
}

#[test]
fn keys_at_a_console_are_its_readers_input() {
    let keys = Activity { holder: None, keyed: 7, ..activity(CONSOLE, SSHD, SHELL, 0) };
    let changes = Changes { input: 7, output_ppm: 0 };
    let sample = Sample { tgid: SHELL, device: source(CONSOLE), changes };
    assert_eq!(seen(keys), TerminalObservations { servers: vec![], samples: vec![sample] });
}

#[test]
fn a_remote_session_is_a_device_and_its_key_reader_is_in_use() {
    let seen = seen(activity(PTY, SSHD, SHELL, 5));
    assert_eq!(seen.servers, [session()]);
    let changes = Changes { input: 5, output_ppm: 0 };
    assert_eq!(seen.samples, [Sample { tgid: SHELL, device: source(PTY), changes }]);
}

#[test]
fn a_window_terminal_s_holder_and_its_typist_are_no_roots() {
    assert_eq!(seen(activity(PTY, WINDOW, SHELL, 5)), TerminalObservations::default());
}

#[test]
fn a_process_gains_nothing_by_typing_to_itself() {
    assert_eq!(seen(activity(PTY, SSHD, SSHD, 5)), TerminalObservations::default());
}

#[test]
fn writing_into_a_terminal_alone_is_no_use() {
    let written = Activity { reader: None, shown: 4000, ..activity(PTY, SSHD, SHELL, 0) };
    assert_eq!(seen(written), TerminalObservations::default());
    // A reader shows nothing that counts before the user has typed.
    let unasked = Activity { shown: 4000, ..activity(PTY, SSHD, SHELL, 0) };
    assert_eq!(seen(unasked), TerminalObservations::default());
}

#[test]
fn a_reader_s_output_counts_as_at_most_one_screen_a_second() {
    let shown = |shown, size| {
        let activity = Activity { shown, ..activity(PTY, SSHD, SHELL, 1) };
        let mut machine = Machine { size, ..machine() };
        Terminals::new().take(SECOND_NS, &[activity], &mut machine).samples[0].changes.output_ppm
    };
    assert_eq!(shown(960, None), 500_000, "24 lines of 80 where it does not tell");
    assert_eq!(shown(960, Some(Size { rows: 48, columns: 80 })), 250_000);
    assert_eq!(shown(1_000_000, None), 1_000_000);
    let mut terminals = Terminals::new();
    let flood = [Activity { shown: 1_000_000, ..activity(PTY, SSHD, SHELL, 1_000_000) }];
    let mut total = Changes::default();
    for tenth in 10..20 {
        let seen = terminals.take(tenth * SECOND_NS / 10, &flood, &mut machine());
        seen.samples.iter().for_each(|sample| total.add(sample.changes));
    }
    assert!(total.output_ppm <= 2_000_000 && total.input <= 100, "{total:?}");
}

#[test]
fn a_session_without_typing_is_no_device_any_more() {
    let mut terminals = Terminals::new();
    let _ = terminals.take(0, &[activity(PTY, SSHD, SHELL, 1)], &mut machine());
    assert_eq!(terminals.take(9 * SECOND_NS, &[], &mut machine()).servers, [session()]);
    assert_eq!(terminals.take(10 * SECOND_NS, &[], &mut machine()).servers, []);
}

#[test]
fn a_session_that_ended_is_no_device_any_more() {
    let mut terminals = Terminals::new();
    let _ = terminals.take(0, &[activity(PTY, SSHD, SHELL, 1)], &mut machine());
    terminals.forget(SSHD);
    assert_eq!(terminals.take(SECOND_NS, &[], &mut machine()), TerminalObservations::default());
}

#[test]
fn a_terminal_number_taken_over_by_a_window_leaves_the_session() {
    let mut terminals = Terminals::new();
    let _ = terminals.take(0, &[activity(PTY, SSHD, SHELL, 1)], &mut machine());
    let seen = terminals.take(SECOND_NS, &[activity(PTY, WINDOW, SHELL, 1)], &mut machine());
    assert_eq!(seen, TerminalObservations::default());
}
