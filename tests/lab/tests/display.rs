//! Who is in use, as seen on a real Xorg with a keyboard of the kernel: keys count, and what pretends to be keys does not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use spry_lab::{FileSource, Flavour, GuestCommand, Job, KernelChoice, MachineSpec};
use spry_lab_tests::{machine, printed, run};

/// An example of the display crate, as new as this test, and optimised, because it is measured.
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

/// A film with a window of its own, in Xvfb, for ten seconds while a program runs: what that program printed, and the server's CPU time, ms.
fn beside_a_film(arguments: &str) -> (String, f64) {
    let machine = machine(&MachineSpec { packages: ["xvfb".to_owned()].into(), ..MachineSpec::default() });
    let film = include_str!("../../../scenarios/movie-x11.toml");
    let mut job = Job::scenario(film, &[], 120);
    job.files.insert("/spry/watch".into(), FileSource::File(example("watch")));
    // What the server ran, ns, waited, ns, and how often.
    let server = "grep -l '^Xvfb' /proc/[0-9]*/comm | sed s/comm/schedstat/ | xargs cat";
    let runner = job.commands[0].argv.join(" ");
    let text = format!("{runner} & sleep 6; {server}; {arguments}; {server}; wait");
    job.commands[0].argv = ["/bin/sh", "-c", &text].map(str::to_owned).into();
    let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    let ran_ms = |line: &str| Some(line.split(' ').next()?.parse::<f64>().ok()? / 1e6);
    let times: Vec<f64> =
        text.lines().filter(|line| line.split(' ').count() == 3).filter_map(ran_ms).collect();
    assert_eq!(times.len(), 2, "{text}\n{}", String::from_utf8_lossy(&outcome.files["0.stderr"]));
    (text, times[1] - times[0])
}

#[test]
fn watching_a_film_costs_at_most_half_a_percent_of_a_cpu() {
    let (_, alone_ms) = beside_a_film("sleep 10");
    let (text, watched_ms) = beside_a_film("/spry/watch --trust-synthetic --seconds 10");
    let cpu_ms: Vec<f64> = text
        .lines()
        .filter_map(|line| line.split_once(" news, cpu ")?.1.strip_suffix(" ms")?.parse().ok())
        .collect();
    assert_eq!(cpu_ms.len(), 10, "{text}");
    // The first second has the connecting.
    let watch_ms_per_s = (cpu_ms[9] - cpu_ms[0]) / 9.0;
    let server_ms_per_s = (watched_ms - alone_ms) / 10.0;
    println!("{watch_ms_per_s} ms/s, server {alone_ms} ms alone and {watched_ms} ms watched");
    assert!(text.contains("25.0 frames/s"), "{text}");
    assert!(watch_ms_per_s <= 5.0, "{watch_ms_per_s} ms a second; {text}");
    assert!(server_ms_per_s <= 5.0, "{server_ms_per_s} ms a second more of the server; {text}");
}
