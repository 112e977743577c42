//! Endless loops that pretend to be in use. Each uses one trick that an ordinary user can write: `deceive
//! TRICK`. They run until they are killed. `contest` measures the CPU time that each trick gains.
//!
//! `loop`: no trick.
//! `blinker`: a process blinks in 6x6 pixels for each byte that the loop writes into a pipe.
//! `poll`: a thread polls the terminal, in which the person types into another program.
//! `server`: the process listens at a socket of an X server.
//! `churn`: makes and removes a file in the directory that the panel watches, without end.
//! `xtest`: takes the focus, and passes on by XTEST the keys that it gets.
//! `xtest-big`: the same with a window that is seen, and by another connection.
//! `xtest-two`: the same by another process.
//! `grid`: has a grid of input-only windows of one pixel under the pointer.
//! `grid-none`: the same with windows that could be drawn in.
//! `shield`: has one such window over the whole screen.
//! `moment`: draws for 2 s, and no more.
//! `flood`: draws for 2 s, then asks, reports to and burdens the daemon without end.
//! `dbus`: a thread calls the session's bus without end.
//! `ssh`: types at itself through `ssh -tt localhost`.

#[path = "../common/bus.rs"]
mod bus;
mod flood;
mod x11;

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use spry_sys::poll;

/// A result; its error may be of any kind.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// The directory that the person's panel watches.
const WATCHED: &str = "/tmp/watched";

fn main() -> Outcome<()> {
    let mut args = env::args().skip(1);
    let trick = args.next().ok_or("usage: deceive TRICK")?;
    let part = args.next();
    match (trick.as_str(), part.as_deref()) {
        ("loop", _) => spin(),
        ("blinker", None) => blinker(),
        ("blinker", Some(_)) => x11::blink_for_each_byte(),
        ("poll", _) => beside(poll),
        ("server", _) => beside(serve),
        ("churn", _) => beside(churn),
        ("xtest", _) => beside(x11::pass_keys_on),
        ("xtest-big", _) => beside(x11::pass_keys_on_in_sight),
        ("xtest-two", None) => beside(pass_keys_to_a_part),
        ("xtest-two", Some(_)) => x11::make_keys(),
        ("grid", _) => beside(x11::grid),
        ("grid-none", _) => beside(x11::grid_of_windows),
        ("shield", _) => beside(x11::shield),
        ("moment", _) => beside(|| x11::be_seen(Duration::from_secs(2))),
        ("flood", _) => beside(flood::flood),
        ("dbus", _) => beside(call),
        ("ssh", None) => type_through_ssh(),
        ("ssh", Some(_)) => beside(read),
        (other, _) => Err(format!("there is no trick {other:?}").into()),
    }
}

/// The endless loop.
fn spin() -> ! {
    let mut count = 0_u64;
    loop {
        count = std::hint::black_box(count.wrapping_add(1));
    }
}

/// The endless loop, with a trick in a thread beside it.
fn beside(trick: fn() -> Outcome<()>) -> ! {
    thread::spawn(move || {
        if let Err(error) = trick() {
            eprintln!("deceive: the trick failed: {error}");
        }
    });
    spin()
}

/// Starts this program once more, with one more argument.
fn part(trick: &str, stdin: Stdio) -> io::Result<std::process::Child> {
    Command::new(env::current_exe()?).args([trick, "part"]).stdin(stdin).spawn()
}

fn blinker() -> Outcome<()> {
    let child = part("blinker", Stdio::piped())?;
    let mut pipe = child.stdin.ok_or("a pipe")?;
    let mut count = 0_u64;
    loop {
        count = std::hint::black_box(count + 1);
        if count % (1 << 20) == 0 {
            pipe.write_all(&[0])?;
        }
    }
}

fn pass_keys_to_a_part() -> Outcome<()> {
    let child = part("xtest-two", Stdio::piped())?;
    x11::pass_keys_into(child.stdin.ok_or("a pipe")?)
}

fn poll() -> Outcome<()> {
    // The process goes into a process group of its own, as a shell does with a job in the background.
    rustix::process::setpgid(None, None)?;
    let terminal = File::open("/dev/tty")?;
    loop {
        _ = poll::wait(&mut [poll::readable(&terminal)], None);
        // The process waits, so that the program that the key is for reads it first.
        thread::sleep(Duration::from_millis(5));
    }
}

fn serve() -> Outcome<()> {
    // The number of a display that no server has; each user has another number.
    let path = format!("/tmp/.X11-unix/X{}", rustix::process::getuid().as_raw());
    _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    let mut clients = Vec::new();
    loop {
        clients.push(listener.accept()?);
    }
}

fn churn() -> Outcome<()> {
    let path = format!("{WATCHED}/{}", std::process::id());
    loop {
        File::create(&path)?;
        fs::remove_file(&path)?;
        thread::sleep(Duration::from_millis(2));
    }
}

fn call() -> Outcome<()> {
    let mut bus = bus::Bus::connect()?;
    loop {
        bus.ask()?;
    }
}

fn type_through_ssh() -> Outcome<()> {
    let own = env::current_exe()?;
    let options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentityFile=/tmp/key"];
    let mut ssh = Command::new("ssh");
    ssh.arg("-tt").args(options.iter().flat_map(|option| ["-o", option])).arg("localhost");
    ssh.arg(format!("{} ssh part", own.display())).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = ssh.spawn()?;
    let mut keys = child.stdin.take().ok_or("a pipe")?;
    loop {
        keys.write_all(b"a\n")?;
        thread::sleep(Duration::from_millis(50));
    }
}

/// Reads the typed characters, without end.
fn read() -> Outcome<()> {
    let mut line = [0; 64];
    while io::stdin().read(&mut line)? > 0 {}
    Ok(())
}
