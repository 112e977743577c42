//! The thesis' applications, and the lab's scenarios that stand for them.

/// An application that the thesis measured, and the scenario that stands for it.
#[derive(Debug)]
pub struct Application {
    /// The application's name in files and in JSON.
    pub key: &'static str,
    /// The application's name in the figures, as in the thesis.
    pub name: &'static str,
    /// The name of the scenario.
    pub scenario: &'static str,
    /// The values of the scenario's variables besides `stressers`.
    pub sets: &'static [(&'static str, &'static str)],
    /// The names of the application's tasks in a trace. All threads of a process belong to the application if
    /// one thread has such a name.
    pub comms: &'static [&'static str],
    /// The loads beside which the application is measured.
    pub beside: HogCounts,
    /// The loads that the thesis names for the application, as numbers of CPU hogs. The application is
    /// measured beside them even if few loads are requested, because the thesis' findings are decided
    /// at these loads.
    pub named: &'static [u32],
    /// The lab's substitute for the application, in one line.
    pub stands: &'static str,
}

/// The numbers of CPU hogs beside which an application is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HogCounts {
    /// The application is measured beside every requested number of CPU hogs: the figures show the
    /// effect of load.
    Loads,
    /// The application is measured without CPU hogs: the figures show it alone.
    Nothing,
    /// The application is itself this number of the scenario's CPU hogs.
    Itself(u32),
}

impl HogCounts {
    /// The numbers of CPU hogs with which the application is measured, out of the requested numbers. Every
    /// application of [`HogCounts::Loads`] is measured alone, too.
    pub fn stressers(self, wanted: &[u32]) -> Vec<u32> {
        match self {
            HogCounts::Loads => {
                let mut loads = wanted.to_vec();
                loads.push(0);
                loads.sort_unstable();
                loads.dedup();
                loads
            }
            HogCounts::Nothing => vec![0],
            HogCounts::Itself(count) => vec![count],
        }
    }
}

/// The X server's name in a trace.
pub(crate) const X_SERVER: &str = "Xvfb";
/// The name of the CPU hogs in a trace.
pub(crate) const STRESSER: &str = "stresser";

/// The number of CPU hogs up to which the X server does not suffer, according to the thesis (section 6.3.1).
pub(crate) const XINE_NAMED: u32 = 4;
/// The numbers of CPU hogs between which MPlayer begins to suffer, according to the thesis (section 6.3.1).
pub(crate) const MPLAYER_NAMED: [u32; 2] = [4, 6];

/// Typing at Emacs.
pub static EMACS: Application = Application {
    key: "emacs",
    name: "Emacs",
    scenario: "emacs",
    sets: &[],
    comms: &["emacs-lucid", "emacs"],
    beside: HogCounts::Loads,
    named: &[],
    stands: "Emacs itself, typed at 8 characters a second",
};

/// Typing at the text editor of LibreOffice, the successor of OpenOffice.
pub static OPENOFFICE: Application = Application {
    key: "openoffice",
    name: "OpenOffice",
    scenario: "writer",
    sets: &[],
    comms: &["soffice.bin"],
    beside: HogCounts::Loads,
    named: &[],
    stands: "LibreOffice Writer, which came of it, typed at as Emacs is",
};

/// A film with MPlayer, at its own size.
pub static MPLAYER: Application = Application {
    key: "mplayer",
    name: "MPlayer",
    scenario: "mplayer",
    sets: &[("zoom", "1")],
    comms: &["mplayer"],
    beside: HogCounts::Loads,
    named: &MPLAYER_NAMED,
    stands: "MPlayer itself with an MPEG-1 film of 352x288 at 25 frames a second, at its own size",
};

/// A film with Xine, zoomed 2:1.
pub static XINE: Application = Application {
    key: "xine",
    name: "Xine",
    scenario: "movie-x11",
    sets: &[("settle", "3")],
    comms: &["player", "decoder"],
    beside: HogCounts::Loads,
    named: &[XINE_NAMED],
    stands: "a player by the rules that the thesis tells of Xine, with a decoder and a displayer \
             thread, zoomed 2:1",
};

/// Quake with a player.
pub static QUAKE: Application = Application {
    key: "quake",
    name: "Quake",
    scenario: "quake-x11",
    sets: &[("played", "1")],
    comms: &["game"],
    beside: HogCounts::Loads,
    named: &[],
    stands: "a game that takes every cycle and draws past the X server, played with a mouse that reports \
             100 times a second",
};

/// The demonstration mode of Quake, which needs no player.
pub static QUAKE_DEMO: Application = Application {
    key: "quake-demo",
    name: "Quake (demo)",
    scenario: "quake-x11",
    sets: &[("played", "0")],
    comms: &["game"],
    beside: HogCounts::Nothing,
    named: &[],
    stands: "the same game without input",
};

/// A compilation: gcc on the files of libtomcrypt, with one job.
pub static COMPILE: Application = Application {
    key: "compile",
    name: "Compilation",
    scenario: "compile",
    sets: &[("films", "0"), ("jobs", "1")],
    comms: &["compile", "gcc", "cc1", "as", "collect2", "ld"],
    beside: HogCounts::Nothing,
    named: &[],
    stands: "gcc on the files of libtomcrypt, one after another; the lab has its files in memory, so nothing waits for a disk",
};

/// An endless loop.
pub static LOOP: Application = Application {
    key: "stresser",
    name: "Stresser",
    scenario: "compile",
    sets: &[("films", "0"), ("jobs", "0")],
    comms: &[STRESSER],
    beside: HogCounts::Itself(1),
    named: &[],
    stands: "an endless loop",
};

/// All applications, in the order in which they are measured: the most important first.
pub static ALL: [&Application; 8] =
    [&XINE, &QUAKE, &EMACS, &MPLAYER, &QUAKE_DEMO, &COMPILE, &LOOP, &OPENOFFICE];

impl Application {
    /// The application with this key; `None` if there is none.
    pub fn find(key: &str) -> Option<&'static Application> {
        ALL.into_iter().find(|application| application.key == key)
    }
}
