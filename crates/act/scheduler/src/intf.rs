//! The layouts of structures that BPF programs and the daemon share, generated from `bpf/common/intf.h`.

#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, non_snake_case, dead_code)]
#![allow(clippy::all, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/intf.rs"));
