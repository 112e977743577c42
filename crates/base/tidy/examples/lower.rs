//! Lowers the numbers in the list of old offences to the present numbers of the tree. It raises none.

use std::fs;

use spry_tidy::{OLD_STYLE, Old, root, sources};

fn main() -> std::io::Result<()> {
    let lowered = Old::read().lowered_to(&Old::count(&sources()));
    fs::write(root().join(OLD_STYLE), lowered.text())
}
