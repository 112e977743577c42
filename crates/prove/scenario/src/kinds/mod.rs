//! The ready-made kinds of tasks, which are the papers' applications, with their actions and parameters. A
//! machine plays them.

mod alarms;
mod audio;
mod compile;
mod cost;
mod fs_load;
mod game;
mod kernel_load;
mod modem;
mod player;
mod sorter;
mod stresser;
mod typist;
pub mod x11;

pub use alarms::{Alarms, Load};
pub use audio::{Audio, Threads};
pub use compile::{Compile, SOURCES_DIRECTORY, SOURCES_VARIABLE};
pub use cost::{Cost, HACKBENCH};
pub use fs_load::FsLoad;
pub use game::Game;
pub use kernel_load::KernelLoad;
pub use modem::Modem;
pub use player::Player;
pub use sorter::Sorter;
pub use stresser::{Stresser, Worker};
pub use typist::Typist;

use crate::keys::Keys;
use crate::mistake::Mistake;

/// The parameters of the tasks of one kind.
trait Parameters: Sized {
    /// The word that names the kind in a scenario.
    const NAME: &'static str;
    /// What a task of the kind does, in one line.
    const ABOUT: &'static str;

    /// Reads the keys of a task from the scenario. Fails if a key is missing or wrong.
    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake>;

    fn threads(&self) -> u32 {
        1
    }

    fn programs(&self) -> Vec<String> {
        Vec::new()
    }

    fn files(&self) -> Vec<String> {
        Vec::new()
    }

    fn sources(&self) -> Vec<String> {
        Vec::new()
    }

    fn needs_display(&self) -> bool {
        false
    }
}

/// A kind that a scenario can name.
#[derive(Debug)]
pub struct KnownKind {
    /// The word that names the kind in a scenario.
    pub name: &'static str,
    /// What a task of the kind does and which keys it has, in one line.
    pub about: &'static str,
    parse: fn(&mut Keys<'_>) -> Result<Kind, Mistake>,
}

impl KnownKind {
    /// Reads the keys of a task of this kind.
    ///
    /// # Errors
    /// If a key is missing or wrong.
    pub(crate) fn parse(&self, keys: &mut Keys<'_>) -> Result<Kind, Mistake> {
        (self.parse)(keys)
    }
}

/// Makes of a list of kinds the enumeration [`Kind`], the list [`ALL`], and one method for each property
/// of a kind. So each kind is listed once.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident($parameters:ty),)*) => {
        /// What a task of a ready-made kind does, with its parameters.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Kind {
            $($(#[$about])* $kind($parameters),)*
        }

        /// All kinds, in the order in which messages name them.
        pub static ALL: &[KnownKind] = &[$(KnownKind {
            name: <$parameters>::NAME,
            about: <$parameters>::ABOUT,
            parse: |keys| <$parameters>::parse(keys).map(Kind::$kind),
        },)*];

        impl Kind {
            /// The word that names the kind in a scenario.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$kind(_) => <$parameters>::NAME,)* }
            }

            /// How many threads an instance of the task starts with.
            pub fn threads(&self) -> u32 {
                match self { $(Self::$kind(parameters) => parameters.threads(),)* }
            }

            /// The programs that the task needs on `PATH`.
            pub fn programs(&self) -> Vec<String> {
                match self { $(Self::$kind(parameters) => parameters.programs(),)* }
            }

            /// The generated files that the task needs. No package has them; a machine makes them once
            /// ([`x11::FILES`]).
            pub fn files(&self) -> Vec<String> {
                match self { $(Self::$kind(parameters) => parameters.files(),)* }
            }

            /// The source packages of the distribution that the task compiles.
            pub fn sources(&self) -> Vec<String> {
                match self { $(Self::$kind(parameters) => parameters.sources(),)* }
            }

            /// Whether the task draws on an X display.
            pub fn needs_display(&self) -> bool {
                match self { $(Self::$kind(parameters) => parameters.needs_display(),)* }
            }
        }
    };
}

kinds! {
    /// The movie player.
    Player(Player),
    /// The adaptive game.
    Game(Game),
    /// The typist and the editor, with pipes between them.
    Typist(Typist),
    /// The alarm tasks.
    Alarms(Alarms),
    /// The endless loop that reports how long it had no CPU.
    Stresser(Stresser),
    /// The endless loop that reports how much work it did.
    Worker(Worker),
    /// The sorting application.
    Sorter(Sorter),
    /// The compilation.
    Compile(Compile),
    /// The cost of small operations.
    Cost(Cost),
    /// The soft modem.
    Modem(Modem),
    /// The movie player with a window.
    X11Player(x11::Player),
    /// The adaptive game with a window.
    X11Game(x11::Game),
    /// The editor's window.
    X11Editor(x11::Editor),
    /// The typist at another task's window.
    X11Typist(x11::Typist),
    /// The pointer that moves over another task's window.
    X11Mouse(x11::Mouse),
    /// The observer that counts another task's frames.
    X11Frames(x11::Frames),
    /// A real program with a window.
    Program(x11::Program),
    /// The kernel load.
    KernelLoad(KernelLoad),
    /// The file-system load.
    FsLoad(FsLoad),
    /// The PipeWire graph.
    Audio(Audio),
}
