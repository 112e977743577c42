//! Facts about a display's server that are found without a question to it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use spry_policy::Tgid;

/// The arguments with which a process was started.
fn arguments(tgid: Tgid) -> Vec<Vec<u8>> {
    let bytes = fs::read(format!("/proc/{}/cmdline", tgid.0)).unwrap_or_default();
    bytes.split(|&byte| byte == 0).filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
}

fn command_name(tgid: Tgid) -> String {
    fs::read_to_string(format!("/proc/{}/comm", tgid.0)).unwrap_or_default().trim_end().to_owned()
}

/// Whether the server draws no root window but passes each window to a compositor of Wayland.
pub(super) fn is_rootless(tgid: Tgid) -> bool {
    command_name(tgid) == "Xwayland" && arguments(tgid).iter().any(|argument| argument == b"-rootless")
}

/// The file of cookies that a server was started with. It is opened with this user's rights.
pub(super) fn authority_file(tgid: Tgid) -> Option<PathBuf> {
    let arguments = arguments(tgid);
    let at = arguments.iter().position(|argument| argument == b"-auth")?;
    let path = Path::new(OsStr::from_bytes(arguments.get(at + 1)?));
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    // The path is looked up from the directory of the server, as the server itself does.
    Some(PathBuf::from(format!("/proc/{}/cwd", tgid.0)).join(path))
}

/// The server of a compositor: if `listener` is a compositor that listens at the display's socket for its X
/// server, that server's process.
pub(super) fn nested_server(listener: Tgid, number: u32) -> Option<Tgid> {
    let display = format!(":{number}");
    let children = fs::read_dir(format!("/proc/{}/task", listener.0)).ok()?.flatten().flat_map(|thread| {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        list.split_whitespace().filter_map(|child| child.parse().ok().map(Tgid)).collect::<Vec<Tgid>>()
    });
    children.into_iter().find(|&child| {
        command_name(child).starts_with('X')
            && arguments(child).iter().any(|argument| argument == display.as_bytes())
    })
}
