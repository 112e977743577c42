//! Every input in the fuzzer's corpus is read without a panic and in bounded time.

mod common;

use std::io::Cursor;
use std::path::Path;

use spry_trace::Reader;

#[test]
fn the_corpus_reads_without_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/read");
    let mut files = 0;
    for entry in std::fs::read_dir(&corpus).expect("fuzz/corpus/read is in the tree") {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        read(&bytes);
        // The fuzzer's build accepts any checksum. Here the checksums are corrected, to read behind them.
        let mut passing = bytes;
        let body_at = common::fix_header(&mut passing);
        common::fix_checksums(&mut passing, body_at);
        read(&passing);
    }
    assert!(files >= 10, "only {files} files in {}", corpus.display());
}

fn read(bytes: &[u8]) {
    if let Ok(mut reader) = Reader::new(bytes) {
        while reader.next_event().unwrap().is_some() {}
    }
    if let Ok(mut reader) = Reader::starting_at(Cursor::new(bytes), 1 << 33) {
        while reader.next_event().unwrap().is_some() {}
    }
}
