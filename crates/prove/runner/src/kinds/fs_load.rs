//! The file-system load: the task copies a tree of files and has the copy written to the disk, over and over
//! (Goel et al. 2002, section 4.2.1, copy the sources of a kernel recursively, 13,000 files of 180 MB, and
//! flush the copy).

use std::io;
use std::path::Path;

use spry_scenario::chance::Rng;
use spry_scenario::kinds::FsLoad;
use spry_scenario::metrics::Metrics;

use crate::RunError;
use crate::stage::Stage;

/// How many files each directory of the tree has.
const FILES_A_DIRECTORY: u64 = 25;

pub(super) fn play(load: &FsLoad, stage: &Stage) -> Result<Metrics, RunError> {
    let failed = |error| RunError::Failed(format!("task {}: {error}", stage.task_name()));
    let root = stage.scratch().join(format!("{}-{}", stage.task_name(), stage.instance()));
    let (tree, copy) = (root.join("tree"), root.join("copy"));
    make(load, stage, &tree).map_err(failed)?;
    let root_dir = stage.open_directory(&root).map_err(failed)?;
    let start = stage.start_line()?;
    let (mut files, mut copies) = (0, 0);
    while !stage.over() {
        let copied = copy_tree(load, stage, &tree, &copy).map_err(failed)?;
        root_dir.flush_file_system().map_err(failed)?;
        if start.counts(stage.now_ns()) {
            files += copied;
            copies += 1;
        }
        stage.remove_tree(&copy).map_err(failed)?;
    }
    let mut metrics = Metrics::new();
    metrics.count("copies", copies);
    metrics.count("files_copied", files);
    Ok(metrics)
}

/// Makes the tree. The sizes of its files go up to twice the mean size, and are the same in every run.
fn make(load: &FsLoad, stage: &Stage, root: &Path) -> io::Result<()> {
    let mut rng = Rng::new(1, "tree", 0);
    let mean = load.bytes / load.files;
    for file in 0..load.files {
        let dir = root.join(format!("d{}", file / FILES_A_DIRECTORY));
        if file % FILES_A_DIRECTORY == 0 {
            stage.make_directories(&dir)?;
        }
        let size = rng.below(2 * mean + 1) as usize;
        stage.write_file(&dir.join(format!("f{file}")), &vec![b'a' + (file % 26) as u8; size])?;
    }
    Ok(())
}

/// Copies the tree, but stops when the run ends. Returns how many files were copied.
fn copy_tree(load: &FsLoad, stage: &Stage, from: &Path, to: &Path) -> io::Result<u64> {
    let mut copied = 0;
    for file in 0..load.files {
        if stage.over() {
            break;
        }
        let dir = format!("d{}", file / FILES_A_DIRECTORY);
        if file % FILES_A_DIRECTORY == 0 {
            stage.make_directories(&to.join(&dir))?;
        }
        let name = format!("f{file}");
        stage.copy_file(&from.join(&dir).join(&name), &to.join(&dir).join(&name))?;
        copied += 1;
    }
    Ok(copied)
}
