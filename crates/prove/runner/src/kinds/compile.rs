//! The compilation: the C compiler compiles the files of a source package, one after another, in place of the
//! kernel that the thesis compiles (section 4.3).

use spry_scenario::kinds::Compile;
use spry_scenario::metrics::{Metrics, Samples};

use crate::RunError;
use crate::source::Source;
use crate::stage::{ChildEnd, Complaints, Stage};

/// An instance begins this part of all files after the instance before it, so that compilers side by side
/// compile different files.
const APART: usize = 16;

pub(super) fn play(compile: &Compile, stage: &Stage) -> Result<Metrics, RunError> {
    let source = Source::find(&compile.source, &compile.under)?;
    let files = source.files();
    let object = stage.scratch().join(format!("{}-{}.o", stage.task_name(), stage.instance()));
    let mut times = Samples::with_capacity(4096);
    let first = stage.instance() as usize % APART * files.len() / APART;
    let start = stage.start_line()?;
    for file in files.iter().cycle().skip(first) {
        if stage.over() {
            break;
        }
        let mut arguments = compile.options.clone();
        arguments.extend(["-c", file, "-o"].map(str::to_owned));
        arguments.push(object.display().to_string());
        let begun_ns = stage.now_ns();
        let ended =
            stage.run_program_in(source.root(), &compile.compiler, &arguments, Complaints::Dropped)?;
        if stage.over() {
            break;
        }
        if ended != ChildEnd::Code(0) {
            let (compiler, options) = (&compile.compiler, compile.options.join(" "));
            let root = source.root().display();
            return Err(RunError::Failed(format!(
                "in {root}: {compiler} {options} -c {file} failed: {ended:?}"
            )));
        }
        let now_ns = stage.now_ns();
        if start.counts(now_ns) {
            times.push(now_ns - begun_ns);
        }
    }
    let mut metrics = Metrics::new();
    metrics.count("files_compiled", times.len() as u64);
    metrics.quantiles("compile_ns", &times, &["p50", "max"]);
    Ok(metrics)
}
