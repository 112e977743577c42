//! Runs Xorg without a screen and without `udev`: it uses the dummy video driver, and input devices that the
//! runner made in the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use spry_scenario::screen::Size;

use super::X11Error;
use super::uinput::{Device, Sort};

/// The keyboard and the mouse that an Xorg server reads.
#[derive(Debug)]
pub(super) struct Seat {
    keyboard: Device,
    mouse: Device,
}

impl Seat {
    /// Makes a keyboard and a mouse in the kernel.
    pub(super) fn make() -> Result<Self, X11Error> {
        Ok(Self { keyboard: Device::make(Sort::Keyboard)?, mouse: Device::make(Sort::Mouse)? })
    }

    pub(super) fn keyboard(&self) -> &Device {
        &self.keyboard
    }

    pub(super) fn mouse(&self) -> &Device {
        &self.mouse
    }

    /// The command that starts the server. The files that the server reads and writes are in `directory`.
    pub(super) fn command(&self, size: Size, directory: &Path) -> Result<Command, X11Error> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |source| X11Error::File { path, source }
        };
        let (config, more) = (directory.join("xorg.conf"), directory.join("xorg.conf.d"));
        fs::write(&config, self.config(size)).map_err(wrong(&config))?;
        fs::create_dir(&more).map_err(wrong(&more))?;
        let mut command = Command::new(program());
        // The server takes no console from another program, and does not read the configuration of this
        // machine.
        command.args(["-novtswitch", "-sharevts", "-keeptty"]);
        command.arg("-config").arg(&config).arg("-configdir").arg(&more);
        command.arg("-logfile").arg(directory.join("Xorg.log"));
        Ok(command)
    }

    fn config(&self, Size { width, height }: Size) -> String {
        // With a grab only this server gets the keys: neither the console of this machine nor another server.
        // A guest of the lab has no login on its console, so it needs no grab. There the scheduler's daemon
        // counts the events of the devices, which it cannot do if the devices are grabbed.
        let grabs = if is_guest() { "off" } else { "on" };
        let device = |name: &str, device: &Device, further: &str| {
            format!(
                "Section \"InputDevice\"\n Identifier \"{name}\"\n Driver \"evdev\"\n Option \"Device\" \
                 \"{}\"\n Option \"GrabDevice\" \"{grabs}\"\n{further}EndSection\n",
                device.node().display()
            )
        };
        let keyboard = device(
            "keyboard",
            &self.keyboard,
            " Option \"XkbRules\" \"evdev\"\n Option \"XkbModel\" \"pc105\"\n Option \"XkbLayout\" \"us\"\n",
        );
        let mouse = device("mouse", &self.mouse, "");
        let (w, h) = (u32::from(width), u32::from(height));
        let mode = format!(
            "\"{w}x{h}\" {:.2} {w} {} {} {} {h} {} {} {}",
            f64::from((w + 32) * (h + 8)) * 60.0 / 1e6,
            w + 8,
            w + 16,
            w + 32,
            h + 2,
            h + 4,
            h + 8
        );
        let memory_kib = (w * h * 4).div_ceil(1024) + 1024;
        format!(
            "Section \"ServerFlags\"\n Option \"AutoAddDevices\" \"false\"\n Option \"AutoAddGPU\" \
             \"false\"\n Option \"DontVTSwitch\" \"true\"\n Option \"DontZap\" \"true\"\n Option \
             \"BlankTime\" \"0\"\n Option \"StandbyTime\" \"0\"\n Option \"SuspendTime\" \"0\"\n Option \
             \"OffTime\" \"0\"\nEndSection\n\
             Section \"Module\"\n Disable \"glx\"\nEndSection\n\
             {keyboard}{mouse}\
             Section \"Device\"\n Identifier \"card\"\n Driver \"dummy\"\n VideoRam {memory_kib}\n\
             EndSection\n\
             Section \"Monitor\"\n Identifier \"monitor\"\n HorizSync 1-1000\n VertRefresh 1-1000\n \
             Modeline {mode}\nEndSection\n\
             Section \"Screen\"\n Identifier \"screen\"\n Device \"card\"\n Monitor \"monitor\"\n \
             DefaultDepth 24\n SubSection \"Display\"\n  Depth 24\n  Modes \"{w}x{h}\"\n  Virtual {w} {h}\n \
             EndSubSection\nEndSection\n\
             Section \"ServerLayout\"\n Identifier \"layout\"\n Screen \"screen\"\n InputDevice \"keyboard\" \
             \"CoreKeyboard\"\n InputDevice \"mouse\" \"CorePointer\"\nEndSection\n"
        )
    }
}

/// The path of the server's own program: some distributions put a wrapper before it.
fn program() -> PathBuf {
    let plain = Path::new("/usr/lib/xorg/Xorg");
    if plain.is_file() { plain.to_owned() } else { "Xorg".into() }
}

/// Whether this machine is a guest of the lab: there the first process is the lab's.
fn is_guest() -> bool {
    fs::read_to_string("/proc/1/comm").is_ok_and(|comm| comm.trim() == "spry-guest")
}
