//! Who is in use, as seen on a real Xorg with a keyboard of the kernel: keys count, and what pretends to be keys does not.

use std::collections::BTreeMap;

use spry_lab::{FileSource, Flavour, GuestCommand, Job, KernelChoice, MachineSpec};
use spry_lab_tests::{example, machine, printed, run};

#[test]
fn on_xorg_a_person_s_keys_count_and_others_do_not() {
    let packages = ["xserver-xorg-core", "xserver-xorg-video-dummy", "xserver-xorg-input-evdev"];
    let machine = machine(&MachineSpec {
        kernel: KernelChoice::Newest(Flavour::Generic),
        packages: packages.map(str::to_owned).into(),
        modules: ["uinput", "evdev"].map(str::to_owned).into(),
        ..MachineSpec::default()
    });
    let mut job = Job::default();
    job.files.insert("/spry/hands".into(), FileSource::File(example("spry-display", "hands")));
    job.commands.push(GuestCommand { argv: vec!["/spry/hands".into()], env: Vec::new(), limit_s: 120 });
    let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    let said: BTreeMap<&str, u32> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(what, count)| Some((what, count.parse().ok()?)))
        .collect();
    let said = |what: &str| *said.get(what).unwrap_or_else(|| panic!("{what} was not tried: {text}"));
    assert_eq!(said("nothing"), 0);
    assert_eq!(said("typed"), 20, "ten keys, pressed and let go");
    assert_eq!(said("xtest"), 0);
    assert_eq!(said("xtest-in-its-name"), 0);
    // What is faked in the very milliseconds of a key may hide it, and no more.
    assert!((16..=20).contains(&said("both")), "{text}");
    assert!((16..=20).contains(&said("both-in-its-name")), "{text}");
    assert!((10..=80).contains(&said("held")), "a key that is held repeats: {text}");
}
