//! The parameters of the compilation.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// The environment variable that names the directory with the unpacked source packages, one directory each.
pub const SOURCES_VARIABLE: &str = "SPRY_SOURCES";
/// The directory with the unpacked source packages, where the variable names none.
pub const SOURCES_DIRECTORY: &str = "/usr/src";

/// The source that is compiled if a scenario names no other: 412 C files in 63 directories, which compile
/// without a configuration.
const SOURCE: &str = "libtomcrypt";
const UNDER: &str = "src";
const OPTIONS: [&str; 3] = ["-O2", "-Isrc/headers", "-DLTC_SOURCE"];

/// The compilation of a source package of the distribution, one C file after another, in place of the kernel
/// that the thesis compiles (section 4.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Compile {
    /// The compiler's program.
    pub compiler: String,
    /// The options that the compiler gets. Relative paths in them begin in the source's directory.
    pub options: Vec<String>,
    /// The name of the source package.
    pub source: String,
    /// The directory of the source in which C files are compiled, with all directories below it; ".":
    /// the whole source.
    pub under: String,
}

impl Parameters for Compile {
    const NAME: &'static str = "compile";
    const ABOUT: &'static str =
        "the C compiler on a source package, file after file; keys: compiler, options, source, under";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let source = keys.text("source")?.unwrap_or_else(|| SOURCE.into());
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        if !source.starts_with(|c: char| c.is_ascii_alphanumeric()) || !source.chars().all(is_plain) {
            let text = format!("\"source\" must be the name of a source package, not \"{source}\"");
            return Err(keys.mistake("source", text));
        }
        let under = keys.text("under")?.unwrap_or_else(|| UNDER.into());
        if under.is_empty() || under.starts_with('/') || under.split('/').any(|part| part == "..") {
            let text = format!("\"under\" must be a directory of the source, not \"{under}\"");
            return Err(keys.mistake("under", text));
        }
        let options = keys.texts("options")?.unwrap_or_else(|| OPTIONS.map(str::to_owned).into());
        let compiler = keys.text("compiler")?.unwrap_or_else(|| "gcc".into());
        Ok(Self { compiler, options, source, under })
    }

    fn programs(&self) -> Vec<String> {
        vec![self.compiler.clone()]
    }

    fn sources(&self) -> Vec<String> {
        vec![self.source.clone()]
    }
}
