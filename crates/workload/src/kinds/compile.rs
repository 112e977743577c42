//! The compilation: the C compiler on C source, over and over (the kernel's compilation in the thesis, section 4.3).

use std::fmt::Write;
use std::fs;
use std::process::Stdio;

use super::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::runner::sys::Ended;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// The kind.
pub(super) struct Compile;

impl Kind for Compile {
    fn name(&self) -> &'static str {
        "compile"
    }

    fn about(&self) -> &'static str {
        "the C compiler on C source, repeated; keys: compiler, options, functions"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let functions = keys.whole("functions")?.unwrap_or(20);
        if !(1..=100_000).contains(&functions) {
            let text = format!("\"functions\" must be from 1 to 100000, not {functions}");
            return Err(keys.mistake("functions", text));
        }
        Ok(Box::new(Compilation {
            compiler: keys.text("compiler")?.unwrap_or_else(|| "gcc".into()),
            options: keys.texts("options")?.unwrap_or_else(|| vec!["-O2".into()]),
            functions,
        }))
    }
}

#[derive(Debug)]
struct Compilation {
    compiler: String,
    options: Vec<String>,
    functions: u64,
}

impl Role for Compilation {
    fn programs(&self) -> Vec<String> {
        vec![self.compiler.clone()]
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let name = format!("{}-{}", stage.task_name(), stage.instance());
        let (source, object) = (format!("{name}.c"), format!("{name}.o"));
        fs::write(stage.scratch().join(&source), c_source(self.functions))
            .map_err(|error| RunError::Failed(format!("{source}: {error}")))?;
        let mut times = Samples::with_capacity(4096);
        let start = stage.start_line()?;
        while !stage.over() {
            let begun_ns = stage.now_ns();
            let mut command = stage.command(&self.compiler);
            command.args(&self.options).args(["-c", &source, "-o", &object]).current_dir(stage.scratch());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn();
            let child = child.map_err(|error| RunError::Failed(format!("{}: {error}", self.compiler)))?;
            let ended = stage.wait(child.id() as i32);
            if stage.over() {
                break;
            }
            if ended != Ended::Code(0) {
                let text =
                    format!("{} {} -c {source} failed: {ended:?}", self.compiler, self.options.join(" "));
                return Err(RunError::Failed(text));
            }
            let now_ns = stage.now_ns();
            if (start.measure_from_ns..start.measure_to_ns).contains(&now_ns) {
                times.push(now_ns - begun_ns);
            }
        }
        let mut metrics = Metrics::new();
        metrics.count("files_compiled", times.len() as u64);
        metrics.quantiles("compile_ns", &times, &["p50", "max"]);
        Ok(metrics)
    }
}

/// C source of so many functions: lists, tables, strings, sums, switches, as programs have them.
fn c_source(functions: u64) -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <stdint.h>\n\n\
         struct node { struct node *next; uint32_t key; char name[24]; double weight; };\n\
         static uint32_t table[256];\n\n",
    );
    for at in 0..functions {
        let (a, b, c) = (at * 7 + 3, at % 13 + 2, at % 29 + 5);
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "static uint32_t mix_{at}(const unsigned char *text, size_t count)\n{{\n\
             \tuint32_t sum = {a}u;\n\tfor (size_t i = 0; i < count; i++) {{\n\
             \t\tsum = (sum << {b} | sum >> (32 - {b})) ^ text[i];\n\
             \t\tswitch (text[i] % {c}) {{\n\
             \t\tcase 0: sum += table[text[i]]; break;\n\t\tcase 1: table[sum & 255] ^= sum; break;\n\
             \t\tcase 2: sum *= 2654435761u; break;\n\t\tdefault: sum ^= sum >> {b};\n\t\t}}\n\t}}\n\treturn sum;\n}}\n\n\
             static struct node *insert_{at}(struct node *head, const char *name, double weight)\n{{\n\
             \tstruct node *fresh = calloc(1, sizeof(*fresh));\n\tstruct node **at = &head;\n\
             \tif (!fresh)\n\t\treturn head;\n\tstrncpy(fresh->name, name, sizeof(fresh->name) - 1);\n\
             \tfresh->key = mix_{at}((const unsigned char *)name, strlen(name));\n\tfresh->weight = weight * {a}.5;\n\
             \twhile (*at && ((*at)->key < fresh->key || ((*at)->key == fresh->key && strcmp((*at)->name, name) < 0)))\n\
             \t\tat = &(*at)->next;\n\tfresh->next = *at;\n\t*at = fresh;\n\treturn head;\n}}\n\n\
             double run_{at}(int rows, double *cells)\n{{\n\tstruct node *head = NULL;\n\tdouble total = 0;\n\
             \tchar name[32];\n\tfor (int i = 0; i < rows; i++) {{\n\
             \t\tsnprintf(name, sizeof(name), \"n%d-%u\", i, {a}u);\n\
             \t\tfor (int j = 0; j < rows; j++)\n\
             \t\t\tcells[i * rows + j] += cells[j * rows + i] * {b}.25 + (double)(i ^ j) / {c};\n\
             \t\thead = insert_{at}(head, name, cells[i]);\n\t}}\n\
             \tfor (struct node *node = head, *next; node; node = next) {{\n\
             \t\tnext = node->next;\n\t\ttotal += node->weight * node->key;\n\t\tfree(node);\n\t}}\n\treturn total;\n}}\n"
        );
    }
    text
}
