//! Kernel modules: the modules that a module needs, and the order in which they are inserted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::run;
use crate::error::{LabError, at};
use crate::progress::Stop;

/// The modules of one kernel.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

/// An unpacked module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The module's name, with underscores.
    pub name: String,
    /// The content of the module's object file.
    pub bytes: Vec<u8>,
}

impl Modules {
    /// Opens the modules below a directory (`/lib/modules/RELEASE`). If the directory is missing, there
    /// are no modules.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(directory: &Path) -> Result<Self, LabError> {
        let mut modules = Self::default();
        if directory.join("kernel").is_dir() {
            collect(&directory.join("kernel"), &mut modules.files)?;
        }
        if let Ok(list) = fs::read_to_string(directory.join("modules.builtin")) {
            modules.built_in = list.lines().filter_map(|line| name_of(Path::new(line))).collect();
        }
        Ok(modules)
    }

    /// These modules and all modules that they need. Each module comes after the modules that it needs.
    /// Modules that are built into the kernel are left out.
    ///
    /// # Errors
    /// If a module neither exists nor is built in, or cannot be unpacked.
    pub fn closure(&self, names: &[&str], stop: &Stop) -> Result<Vec<Module>, LabError> {
        in_order(names, &mut |name| {
            if self.built_in.contains(name) {
                return Ok(None);
            }
            let Some(path) = self.files.get(name) else {
                return Err(LabError::Kernel(format!(
                    "this kernel has no module {name}, neither built in nor in its packages: \
                     choose another kernel"
                )));
            };
            unpack(path, stop).map(Some)
        })
    }
}

/// A function that returns the bytes of the module with this name, or `None` if the module need
/// not be inserted.
type Load<'a> = dyn FnMut(&str) -> Result<Option<Vec<u8>>, LabError> + 'a;

/// Lists the modules depth first, so that each comes after the modules that it needs.
fn in_order(names: &[&str], load: &mut Load<'_>) -> Result<Vec<Module>, LabError> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for name in names {
        visit(&name.replace('-', "_"), load, &mut seen, &mut found)?;
    }
    Ok(found)
}

fn visit(
    name: &str,
    load: &mut Load<'_>,
    seen: &mut BTreeSet<String>,
    found: &mut Vec<Module>,
) -> Result<(), LabError> {
    if !seen.insert(name.to_owned()) {
        return Ok(());
    }
    if let Some(bytes) = load(name)? {
        for needed in needs(&bytes) {
            visit(&needed, load, seen, found)?;
        }
        found.push(Module { name: name.to_owned(), bytes });
    }
    Ok(())
}

/// The modules on which a kernel object depends, according to the object's own list.
fn needs(object: &[u8]) -> Vec<String> {
    const FIELD: &[u8] = b"\0depends=";
    let Some(start) = object.windows(FIELD.len()).position(|window| window == FIELD) else {
        return Vec::new();
    };
    let value = &object[start + FIELD.len()..];
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    let value = String::from_utf8_lossy(&value[..end]);
    value.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

fn collect(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), LabError> {
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let path = entry.map_err(at(directory))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (stem, packed) = name.split_once(".ko")?;
    matches!(packed, "" | ".xz" | ".zst" | ".gz").then(|| stem.replace('-', "_"))
}

fn unpack(path: &Path, stop: &Stop) -> Result<Vec<u8>, LabError> {
    let unpacker = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(at(path)),
    };
    run(Command::new(unpacker).arg("-dc").arg(path), stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(needs: &str) -> Vec<u8> {
        format!("\x7fELF..license=GPL\0depends={needs}\0retpoline=Y\0").into_bytes()
    }

    fn order(names: &[&str]) -> Result<Vec<String>, LabError> {
        let mut load = |name: &str| match name {
            "nd_pmem" => Ok(Some(object("libnvdimm,nd-btt"))),
            "nd_btt" => Ok(Some(object("libnvdimm"))),
            "libnvdimm" | "erofs" => Ok(Some(object(""))),
            "ext4" => Ok(None),
            _ => Err(LabError::Kernel(name.to_owned())),
        };
        Ok(in_order(names, &mut load)?.into_iter().map(|module| module.name).collect())
    }

    #[test]
    fn a_module_comes_after_all_that_it_needs_and_once() {
        let names = order(&["nd-pmem", "nd_btt", "ext4", "erofs"]).expect("all are there");
        assert_eq!(names, ["libnvdimm", "nd_btt", "nd_pmem", "erofs"]);
    }

    #[test]
    fn a_module_that_is_not_there_is_an_error_that_names_it() {
        assert!(order(&["erofs", "uinput"]).expect_err("it is missing").to_string().contains("uinput"));
    }

    #[test]
    fn packed_and_plain_modules_have_the_same_name() {
        for file in ["kernel/a/nd-btt.ko.xz", "nd_btt.ko", "nd-btt.ko.zst"] {
            assert_eq!(name_of(Path::new(file)).as_deref(), Some("nd_btt"));
        }
        assert_eq!(name_of(Path::new("modules.order")), None);
    }
}
