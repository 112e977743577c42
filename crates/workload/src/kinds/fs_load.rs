//! The file-system load: a tree of files copied and written to the disk, over and over (Goel et al. 2002, section 6.1:
//! the sources of a kernel, 13,000 files of 180 MB, copied recursively and flushed).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::{Kind, Role};
use crate::metrics::Metrics;
use crate::runner::RunError;
use crate::runner::rng::Rng;
use crate::runner::stage::Stage;
use crate::runner::sys;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// Files of a directory of the tree.
const FILES_A_DIRECTORY: u64 = 25;

/// The kind.
pub(super) struct FsLoad;

impl Kind for FsLoad {
    fn name(&self) -> &'static str {
        "fs-load"
    }

    fn about(&self) -> &'static str {
        "a tree of files copied and flushed, repeated; keys: files, bytes"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let files = keys.whole("files")?.unwrap_or(1300);
        let bytes = keys.bytes("bytes")?.unwrap_or(18_000_000);
        if !(1..=1_000_000).contains(&files) {
            return Err(keys.mistake("files", format!("\"files\" must be from 1 to 1000000, not {files}")));
        }
        Ok(Box::new(Copies { files, bytes }))
    }
}

#[derive(Debug)]
struct Copies {
    files: u64,
    bytes: u64,
}

impl Copies {
    /// Makes the tree: files of all sizes up to twice the mean, the same every time.
    fn make(&self, root: &Path) -> io::Result<()> {
        let mut rng = Rng::new(1, "tree", 0);
        let mean = self.bytes / self.files;
        for file in 0..self.files {
            let dir = root.join(format!("d{}", file / FILES_A_DIRECTORY));
            if file % FILES_A_DIRECTORY == 0 {
                fs::create_dir_all(&dir)?;
            }
            let size = rng.below(2 * mean + 1) as usize;
            fs::write(dir.join(format!("f{file}")), vec![b'a' + (file % 26) as u8; size])?;
        }
        Ok(())
    }

    /// Copies the tree, as far as the run lasts; how many files.
    fn copy(&self, stage: &Stage, from: &Path, to: &Path) -> io::Result<u64> {
        let mut copied = 0;
        for file in 0..self.files {
            if stage.over() {
                break;
            }
            let dir = format!("d{}", file / FILES_A_DIRECTORY);
            if file % FILES_A_DIRECTORY == 0 {
                fs::create_dir_all(to.join(&dir))?;
            }
            let name = format!("f{file}");
            fs::copy(from.join(&dir).join(&name), to.join(&dir).join(&name))?;
            copied += 1;
        }
        Ok(copied)
    }
}

impl Role for Copies {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let failed = |error| RunError::Failed(format!("task {}: {error}", stage.task_name()));
        let root = stage.scratch().join(format!("{}-{}", stage.task_name(), stage.instance()));
        let (tree, copy) = (root.join("tree"), root.join("copy"));
        self.make(&tree).map_err(failed)?;
        let root_dir = File::open(&root).map_err(failed)?;
        let start = stage.start_line()?;
        let (mut files, mut copies) = (0, 0);
        while !stage.over() {
            let copied = self.copy(stage, &tree, &copy).map_err(failed)?;
            sys::flush_file_system(root_dir.as_raw_fd()).map_err(failed)?;
            let now_ns = stage.now_ns();
            if (start.measure_from_ns..start.measure_to_ns).contains(&now_ns) {
                files += copied;
                copies += 1;
            }
            fs::remove_dir_all(&copy).map_err(failed)?;
        }
        let mut metrics = Metrics::new();
        metrics.count("copies", copies);
        metrics.count("files_copied", files);
        Ok(metrics)
    }
}
