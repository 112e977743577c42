//! Tests which programs count as in use. On a real Xorg the keys of the kernel's keyboard count, and faked
//! keys do not. Real programs are found by the path that information takes to them.

use std::collections::BTreeMap;

use serde_json::Value;
use spry_experiment::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Flavour, GuestCommand, Job, KernelChoice, MachineSpec};
use spry_lab_tests::{example, machine, printed, programs, run, script};

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
    job.files.insert("/spry/spry-eyes".into(), FileSource::File(programs().join("spry-eyes")));
    job.commands.push(GuestCommand { argv: vec!["/spry/hands".into()], env: Vec::new(), limit_s: 120 });
    let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    let said: BTreeMap<&str, u32> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(what, count)| Some((what, count.parse().ok()?)))
        .collect();
    let errors = String::from_utf8_lossy(&outcome.files["0.stderr"]);
    let said = |what: &str| *said.get(what).unwrap_or_else(|| panic!("{what} was not tried: {text}{errors}"));
    assert_eq!(said("nothing"), 0);
    assert_eq!(said("typed"), 20, "ten keys, pressed and let go");
    assert_eq!(said("xtest"), 0);
    assert_eq!(said("xtest-in-its-name"), 0);
    // A faked key in the same milliseconds as a real key may hide the real key, but must have no other
    // effect.
    assert!((16..=20).contains(&said("both")), "{text}");
    assert!((16..=20).contains(&said("both-in-its-name")), "{text}");
    assert!((10..=80).contains(&said("held")), "a key that is held repeats: {text}");
    // These are the keys that another process passed on. The first key may have counted for that process.
    assert!((18..=40).contains(&said("passed-on")), "{text}");
    assert!(said("relay") <= 2, "{text}");
}

/// A person at an X server beside eight loops. The person uses an editor in a terminal, an editor with
/// windows, and a film. The script prints the way of each program as soon as it has one, and the time from
/// the first key or frame until then.
const PERSON: &str = r#"
export DISPLAY=:7 HOME=/root; cd /root
Xvfb :7 -screen 0 1024x768x24 2>/dev/null &
until [ -S /tmp/.X11-unix/X7 ]; do sleep 0.1; done
for loop in 1 2 3 4 5 6 7 8; do /spry/spin & done
of() { for process in /proc/[0-9]*; do read -r comm <"$process/comm" && [ "$comm" = "$1" ] && echo "${process#/proc/}"; done 2>/dev/null; }
ms() { read -r up rest </proc/uptime; echo "$up" | tr -d . | sed 's/$/0/'; }
found() {
    from=$(ms)
    while [ $(($(ms) - from)) -lt 6000 ]; do
        /spry/spry explain "$(of "$1")" --json >why && grep -q '"in_use": *true' why && break
        sleep 0.05
    done
    echo "$1 $(($(ms) - from)) $(tr -d '\n' <why)"
}
# A window that goes while it is asked about ends xdotool.
seen() { until xdotool search --sync --onlyvisible --class "$1" >&2; do sleep 0.1; done; }
# A key that is down when xdotool is killed repeats into the next window, so it is none that ends a player.
hands() { xdotool mousemove 200 150; xdotool type --delay 100 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa & hands=$!; }
xterm -geometry 80x24+0+0 -e vi letter & shown=$!
seen XTerm; sleep 2; hands; found vi; kill $shown $hands
emacs-lucid -Q --no-splash -g 80x24+0+0 note & shown=$!
seen Emacs; sleep 4; hands; found emacs-lucid; kill $shown $hands
mplayer -vo x11 -nosound -demuxer rawvideo -rawvideo w=640:h=480:fps=25:format=i420 /dev/zero </dev/null >film 2>&1 & shown=$!
seen MPlayer; found mplayer; kill $shown; tail -c 300 film >&2
kill $(jobs -p) 2>/dev/null
"#;

#[test]
fn what_a_person_uses_is_found_within_two_seconds_by_its_way() {
    let packages = ["xvfb", "xterm", "vim-tiny", "emacs-lucid", "fonts-dejavu-core", "mplayer", "xdotool"];
    let machine =
        machine(&MachineSpec { packages: packages.map(str::to_owned).into(), ..MachineSpec::default() });
    let args = ["run", "--display", ":7", "--trust-synthetic"].map(str::to_owned).into();
    let program = Program { file: programs().join("spry-sched"), args, sign: Sign::SchedExt };
    let mut job = Job { setup: Setup { program: Some(program), ..Setup::default() }, ..script(PERSON) };
    job.files.insert("/spry/spry".to_owned(), FileSource::File(programs().join("spry")));
    let outcome = run(&machine, &job).unwrap_or_else(|error| panic!("{error}"));
    let text = printed(&outcome);
    let found: BTreeMap<&str, (u64, Value)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let (comm, ms, why) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
            Some((comm, (ms, serde_json::from_str(why).ok()?)))
        })
        .collect();
    let ways: [(&str, &[&str]); 3] = [
        ("vi", &["Xvfb", "xterm", "vi"]),
        ("emacs-lucid", &["Xvfb", "emacs-lucid"]),
        ("mplayer", &["Xvfb", "mplayer"]),
    ];
    for (comm, way) in ways {
        let (ms, why) = found.get(comm).unwrap_or_else(|| {
            panic!("{comm} was not found: {text}\n{}", String::from_utf8_lossy(&outcome.files["0.stderr"]))
        });
        println!("{comm} after {ms} ms: {}", why["path"]);
        assert!(*ms <= 2000, "{comm} after {ms} ms");
        let steps = why["path"].as_array().unwrap_or_else(|| panic!("{why}"));
        let comms: Vec<&str> = steps.iter().filter_map(|step| step["name"].as_str()).collect();
        assert!(comms.ends_with(way), "{comm} by {comms:?}");
    }
}
