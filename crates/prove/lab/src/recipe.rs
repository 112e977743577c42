//! The part of a recipe's code that the cache's keys contain: code without comments and tests.

/// The code of a Rust source file, without comment lines, empty lines and tests. It is part of the keys of
/// its products: a change of the code rebuilds them, a change of a comment does not.
pub(crate) fn code_of(source: &str) -> String {
    let code = source.split_once("\n#[cfg(test)]\nmod tests {").map_or(source, |(code, _)| code);
    without(code, "//")
}

/// The commands of a shell script, without comments and empty lines.
pub(crate) fn commands_of(script: &str) -> String {
    without(script, "#")
}

fn without(text: &str, comment: &str) -> String {
    let lines = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with(comment)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! What lives here.\n\n/// Adds.\nfn add(a: u32) -> u32 {\n    a + 1\n}\n";

    #[test]
    fn a_comment_and_a_test_change_nothing_and_code_does() {
        let code = code_of(SOURCE);
        assert_eq!(code, "fn add(a: u32) -> u32 {\n    a + 1\n}");
        assert_eq!(code_of(&SOURCE.replace("Adds.", "Adds one.\n/// It cannot fail.")), code);
        assert_eq!(code_of(&format!("{SOURCE}\n#[cfg(test)]\nmod tests {{\n    fn more() {{}}\n}}\n")), code);
        assert_ne!(code_of(&SOURCE.replace("a + 1", "a + 2")), code);
        assert_eq!(commands_of("#!/bin/sh\n# Says.\necho a\n\n"), "echo a");
    }

    #[test]
    fn each_recipe_of_the_lab_has_code() {
        for source in [
            include_str!("build.rs"),
            include_str!("cpio.rs"),
            include_str!("image.rs"),
            include_str!("kernel.rs"),
            include_str!("lab.rs"),
            include_str!("topology.rs"),
            include_str!("vm.rs"),
        ] {
            let code = code_of(source);
            assert!(code.contains("fn ") && code.len() * 4 > source.len(), "{}", &source[..80]);
            assert!(!code.contains("#[test]"), "{}", &source[..80]);
        }
    }
}
