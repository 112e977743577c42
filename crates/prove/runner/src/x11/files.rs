//! Files that scenarios need and that no package has. Each is made once on this machine and kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spry_scenario::kinds::x11::FILES;

use super::X11Error;

/// The environment variable that names a directory with all these files. A machine without `ffmpeg` needs it.
pub const DIRECTORY_VARIABLE: &str = "SPRY_FILES";

/// The number of the recipe by which the clip is made. A changed recipe gets another number, so that an old
/// file is not taken for a new one.
const CLIP_RECIPE: u32 = 1;

/// The directory that keeps the files made on this machine: `spry` in the user's directory for caches.
#[must_use]
pub fn cache() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let parent = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    parent.unwrap_or_else(std::env::temp_dir).join("spry")
}

/// The path of a file. It is in the directory that `SPRY_FILES` names. Without that variable it is in
/// `cache`, and is made if it does not exist. One release of `ffmpeg` makes the same bytes each time; another
/// release may make other bytes.
///
/// # Errors
/// If the name is none of [`FILES`], or the file cannot be made.
pub fn provide(name: &str, cache: &Path) -> Result<PathBuf, X11Error> {
    if !FILES.contains(&name) {
        let known = FILES.join(", ");
        return Err(X11Error::Generate(format!(
            "no generated file has the name {name:?}; there are: {known}"
        )));
    }
    if let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE) {
        let path = Path::new(&directory).join(name);
        if path.exists() {
            return Ok(path);
        }
    }
    let directory = cache.join(format!("files-{CLIP_RECIPE}"));
    let path = directory.join(name);
    if !path.exists() {
        fs::create_dir_all(&directory).map_err(|source| X11Error::File { path: directory, source })?;
        make_clip(&path)?;
    }
    Ok(path)
}

/// Makes the clip: a test picture with moving parts and a rising tone, at the bit rate of a video CD. It is
/// of the same kind as the clip of the thesis, section 4.3.
fn make_clip(path: &Path) -> Result<(), X11Error> {
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-y", "-threads", "1"]);
    command.args(["-f", "lavfi", "-i", "testsrc2=size=352x288:rate=25:duration=60"]);
    command.args(["-f", "lavfi", "-i", "aevalsrc=0.2*sin(2*PI*(220+5*t)*t):s=44100:d=60"]);
    command.args(["-c:v", "mpeg1video", "-b:v", "1150k", "-maxrate", "1150k", "-bufsize", "327680"]);
    command.args(["-g", "12", "-bf", "2", "-threads", "1", "-c:a", "mp2", "-b:a", "128k"]);
    command.args(["-flags:v", "+bitexact", "-flags:a", "+bitexact", "-fflags", "+bitexact", "-f", "mpeg"]);
    let made = command.arg(&part).stdin(Stdio::null()).output().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            X11Error::Missing { program: "ffmpeg".into(), package: "ffmpeg".into() }
        }
        _ => X11Error::File { path: "ffmpeg".into(), source },
    })?;
    if !made.status.success() {
        let _ = fs::remove_file(&part);
        let said = String::from_utf8_lossy(&made.stderr);
        return Err(X11Error::Generate(format!("ffmpeg cannot make {}: {}", path.display(), said.trim())));
    }
    fs::rename(&part, path).map_err(|source| X11Error::File { path: path.into(), source })
}
