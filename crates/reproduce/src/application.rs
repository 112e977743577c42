//! The thesis' applications, and what stands for each of them in the lab.

/// Something that the thesis measured, and the scenario that stands for it.
#[derive(Debug)]
pub struct Application {
    /// Its name in files and in JSON.
    pub key: &'static str,
    /// Its name in figures: the thesis'.
    pub name: &'static str,
    /// The scenario.
    pub scenario: &'static str,
    /// The scenario's variables beside `stressers`.
    pub sets: &'static [(&'static str, &'static str)],
    /// The names of its tasks in a trace; all threads of a process with one of them belong to it.
    pub comms: &'static [&'static str],
    /// Beside which loads it is measured.
    pub beside: Beside,
    /// What stands for it, in a line.
    pub stands: &'static str,
}

/// Beside how many stressers an application is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// None to as many as are asked for: its figures show what load does to it.
    Loads,
    /// None: its figures show it alone.
    Nothing,
    /// It is itself so many of the scenario's stressers.
    Itself(u32),
}

impl Beside {
    /// The numbers of stressers to measure it with, of those that are asked for. It is always measured alone.
    pub fn stressers(self, wanted: &[u32]) -> Vec<u32> {
        match self {
            Beside::Loads => {
                let mut loads = wanted.to_vec();
                loads.push(0);
                loads.sort_unstable();
                loads.dedup();
                loads
            }
            Beside::Nothing => vec![0],
            Beside::Itself(count) => vec![count],
        }
    }
}

/// The X server's name in a trace.
pub(crate) const X_SERVER: &str = "Xvfb";
/// The stressers' name in a trace.
pub(crate) const STRESSER: &str = "stresser";

/// Typing at Emacs.
pub static EMACS: Application = Application {
    key: "emacs",
    name: "Emacs",
    scenario: "emacs",
    sets: &[],
    comms: &["emacs-lucid", "emacs"],
    beside: Beside::Loads,
    stands: "Emacs itself, typed at 8 characters a second",
};

/// Typing at LibreOffice's text editor, which OpenOffice's has become.
pub static OPENOFFICE: Application = Application {
    key: "openoffice",
    name: "OpenOffice",
    scenario: "writer",
    sets: &[],
    comms: &["soffice.bin"],
    beside: Beside::Loads,
    stands: "LibreOffice Writer, which came of it, typed at as Emacs is",
};

/// A film with MPlayer, at its own size.
pub static MPLAYER: Application = Application {
    key: "mplayer",
    name: "MPlayer",
    scenario: "mplayer",
    sets: &[("zoom", "1")],
    comms: &["mplayer"],
    beside: Beside::Loads,
    stands: "MPlayer itself with an MPEG-1 film of 352x288 at 25 frames a second, at its own size",
};

/// A film with Xine, zoomed 2:1.
pub static XINE: Application = Application {
    key: "xine",
    name: "Xine",
    scenario: "movie-x11",
    sets: &[("settle", "3")],
    comms: &["player", "decoder"],
    beside: Beside::Loads,
    stands: "a player by the rules that the thesis tells of Xine, with a decoder and a displayer thread, zoomed 2:1",
};

/// Quake, played.
pub static QUAKE: Application = Application {
    key: "quake",
    name: "Quake",
    scenario: "quake-x11",
    sets: &[("played", "1")],
    comms: &["game"],
    beside: Beside::Loads,
    stands: "a game that takes every cycle and draws past the X server, played with a mouse that reports 100 times a second",
};

/// Quake's demonstration.
pub static QUAKE_DEMO: Application = Application {
    key: "quake-demo",
    name: "Quake (demo)",
    scenario: "quake-x11",
    sets: &[("played", "0")],
    comms: &["game"],
    beside: Beside::Nothing,
    stands: "the same game without input",
};

/// A compilation.
pub static COMPILE: Application = Application {
    key: "compile",
    name: "Compilation",
    scenario: "compile",
    sets: &[("films", "0"), ("jobs", "1")],
    comms: &["compile", "gcc", "cc1", "as", "collect2", "ld"],
    beside: Beside::Nothing,
    stands: "gcc on one file after another; the lab has its files in memory, so nothing waits for a disk",
};

/// An endless loop.
pub static LOOP: Application = Application {
    key: "stresser",
    name: "Stresser",
    scenario: "compile",
    sets: &[("films", "0"), ("jobs", "0")],
    comms: &[STRESSER],
    beside: Beside::Itself(1),
    stands: "an endless loop",
};

/// All of them, in the order in which they are measured: the most telling first.
pub static ALL: [&Application; 8] =
    [&XINE, &QUAKE, &EMACS, &MPLAYER, &QUAKE_DEMO, &COMPILE, &LOOP, &OPENOFFICE];

impl Application {
    /// The one of that key.
    pub fn find(key: &str) -> Option<&'static Application> {
        ALL.into_iter().find(|application| application.key == key)
    }
}
