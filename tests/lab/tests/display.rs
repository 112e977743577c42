//! Who is in use, as seen on a real Xorg with a keyboard of the kernel: keys count, and what pretends to be keys does not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use spry_lab::{FileSource, Flavour, GuestCommand, Job, KernelChoice, MachineSpec};
use spry_lab_tests::{machine, printed, run};

/// An example of the display crate, as new as this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(3).expect("cargo keeps tests three levels down");
    let profile = if test.starts_with(target.join("release")) { "release" } else { "checked" };
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--profile", profile, "-p", "spry-display", "--example", name, "--target-dir"]);
    let output = build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(profile).join("examples").join(name)
}

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
    job.files.insert("/spry/hands".into(), FileSource::File(example("hands")));
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
