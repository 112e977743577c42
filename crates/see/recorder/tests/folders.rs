//! The BPF programs are the same bytes in each folder of a build.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Copies the files of a folder, without the files in folders below it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("scratch space");
    for entry in fs::read_dir(from).expect("the folder is there").map(|entry| entry.expect("an entry")) {
        if entry.file_type().expect("a type").is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}

/// The recorder's programs, compiled in a copy of the tree that lies in this folder.
fn compiled_in(root: &Path) -> Vec<u8> {
    let out = Path::new(env!("OUT_DIR"));
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tree = package.ancestors().nth(3).expect("the tree");
    let within = package.strip_prefix(tree).expect("the package is in the tree");
    for folder in [within.join("src/bpf"), within.join("examples"), "crates/base/kernel/include".into()] {
        copy(&tree.join(&folder), &root.join(&folder));
    }
    fs::create_dir_all(root.join("out")).expect("scratch space");
    fs::copy(out.join("vmlinux.h"), root.join("out/vmlinux.h")).expect("a copy");
    let script = fs::read_to_string(out.join("clang")).expect("the build left it");
    let own = script.replace(&format!("'{}'", tree.display()), &format!("'{}'", root.display()));
    assert_ne!(script, own);
    let object = root.join("out/recorder.o");
    let output = Command::new("sh")
        .args(["-c", &own, "clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wno-missing-declarations"])
        .args(["-D__TARGET_ARCH_x86", "-I"])
        .arg(root.join("out"))
        .args(["-I", env!("SPRY_LIBBPF_HEADERS"), "-c", "src/bpf/recorder.bpf.c", "-o"])
        .arg(&object)
        .current_dir(root.join(within))
        .output()
        .expect("a shell starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read(object).expect("it was compiled")
}

// Clang orders some types of BTF by addresses, which depend on the lengths of paths.
#[test]
fn the_programs_are_the_same_bytes_in_each_folder() {
    let scratch = tempfile::tempdir().expect("scratch space");
    let folders =
        ["a", "a-folder/of-another/length", "a-folder/with-a-name-that-is-much-longer-than-the-others"];
    let objects = folders.map(|folder| compiled_in(&scratch.path().join(folder)));
    assert!(objects[0].len() > 100_000 && objects[0] == objects[1] && objects[0] == objects[2]);
}
