//! The records that BPF programs and the recorder share.
