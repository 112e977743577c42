//! Descriptions from the kernel's tracing: formats, names of functions and tasks. trace-cmd introduced their
//! form, and perf took it over (`trace-cmd.dat.v6(5)`).

use std::io::{self, Read};

use spry_trace::Tid;
use spry_trace::event::Comm;

use crate::format::Format;
use crate::input::{Input, Order};
use crate::names::Names;

/// A description is at most this long (the names of a large kernel's functions are a tenth of it).
pub(crate) const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// A format is at most this long.
const FORMAT_BYTES_MAX: u64 = 1 << 20;
/// More formats than any kernel has.
const FORMATS_MAX: usize = 1 << 16;

/// The first bytes of this form, both in perf's part and in trace-cmd's files.
pub(crate) const MAGIC: [u8; 10] = *b"\x17\x08Dtracing";

/// The layout of a page of the kernel's ring buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageLayout {
    /// The size of the word with the number of the page's used bytes, bytes.
    pub(crate) commit_size: usize,
    /// The offset of the first record, bytes.
    pub(crate) data_at: usize,
}

/// The descriptions that precede the first record.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) layout: PageLayout,
    pub(crate) formats: Vec<Format>,
    pub(crate) kallsyms: Vec<u8>,
    pub(crate) names: Names,
}

impl Default for Meta {
    fn default() -> Meta {
        Meta {
            layout: PageLayout { commit_size: 8, data_at: 16 },
            formats: Vec::new(),
            kallsyms: Vec::new(),
            names: Names::default(),
        }
    }
}

/// The version and the page size, which follow a file's first bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) version: String,
    pub(crate) page_size: u32,
}

/// Reads the fields after [`MAGIC`], and sets the input's order of bytes.
pub(crate) fn read_start<R: Read>(input: &mut Input<R>) -> io::Result<Start> {
    let version = input.text()?;
    let is_big = input.u8()? != 0;
    input.set_order(if is_big { Order::Big } else { Order::Little });
    let _long_size = input.u8()?;
    Ok(Start { version, page_size: input.u32()? })
}

impl Meta {
    /// Reads perf's part of the file that has this form.
    pub(crate) fn of_perf(bytes: &[u8]) -> io::Result<(Meta, Order)> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(io::ErrorKind::InvalidData)?;
        let mut input = Input::new(rest, Order::Little);
        read_start(&mut input)?;
        let mut meta = Meta::default();
        meta.read_pages(&mut input)?;
        meta.read_own_formats(&mut input)?;
        meta.read_formats(&mut input)?;
        // Older versions of perf end here, or leave the rest empty.
        if meta.read_kallsyms(&mut input).is_ok() && meta.read_printk(&mut input).is_ok() {
            let _ = meta.read_cmdlines(&mut input);
        }
        Ok((meta, input.order()))
    }

    /// Reads both descriptions of the ring buffer's pages.
    pub(crate) fn read_pages<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        if input.text()? != "header_page" {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let len = input.u64()?;
        let page = input.block(len, FORMAT_BYTES_MAX)?;
        self.layout = page_layout(&String::from_utf8_lossy(&page)).unwrap_or(self.layout);
        if input.text()? != "header_event" {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let len = input.u64()?;
        input.skip(len)
    }

    /// Reads the formats of ftrace's own events.
    pub(crate) fn read_own_formats<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        for _ in 0..input.u32()? {
            self.read_format("ftrace", input)?;
        }
        Ok(())
    }

    /// Reads the formats of tracepoints, by system.
    pub(crate) fn read_formats<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        for _ in 0..input.u32()? {
            let system = input.text()?;
            for _ in 0..input.u32()? {
                self.read_format(&system, input)?;
            }
        }
        Ok(())
    }

    fn read_format<R: Read>(&mut self, system: &str, input: &mut Input<R>) -> io::Result<()> {
        let len = input.u64()?;
        let text = input.block(len, FORMAT_BYTES_MAX)?;
        if self.formats.len() >= FORMATS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.formats.extend(Format::parse(system, &String::from_utf8_lossy(&text)));
        Ok(())
    }

    /// Reads the names of the kernel's functions.
    pub(crate) fn read_kallsyms<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        let len = input.u32()?;
        self.kallsyms = input.block(u64::from(len), BLOCK_BYTES_MAX)?;
        Ok(())
    }

    /// Passes over the kernel's own texts, which are not needed.
    pub(crate) fn read_printk<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        let len = input.u32()?;
        input.skip(u64::from(len))
    }

    /// Reads the names that tasks had when they last ran.
    pub(crate) fn read_cmdlines<R: Read>(&mut self, input: &mut Input<R>) -> io::Result<()> {
        let len = input.u64()?;
        let lines = input.block(len, BLOCK_BYTES_MAX)?;
        for line in lines.split(|&byte| byte == b'\n') {
            let Some(space) = line.iter().position(|&byte| byte == b' ') else { continue };
            let tid = std::str::from_utf8(&line[..space]).ok().and_then(|tid| tid.parse().ok());
            if let Some(tid) = tid.filter(|&tid| tid != 0) {
                self.names.learn(Tid(tid), None, Comm::new(&line[space + 1..]));
            }
        }
        Ok(())
    }
}

/// `field: local_t commit; offset:8; size:8; signed:1;`, with tabs between, and the place where `data`
/// begins.
fn page_layout(text: &str) -> Option<PageLayout> {
    let number = |field: &str, what: &str| {
        let line =
            text.lines().find(|line| line.split(';').next().is_some_and(|name| name.ends_with(field)))?;
        let value = line.split(';').find_map(|part| part.trim().strip_prefix(what))?;
        value.parse::<usize>().ok()
    };
    let layout =
        PageLayout { commit_size: number(" commit", "size:")?, data_at: number(" data", "offset:")? };
    (matches!(layout.commit_size, 4 | 8) && (12..=64).contains(&layout.data_at)).then_some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_pages_is_the_kernels() {
        let page = |commit: u32, data: u32| {
            format!(
                "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                 \tfield: local_t commit;\toffset:8;\tsize:{commit};\tsigned:1;\n\
                 \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                 \tfield: char data;\toffset:{data};\tsize:4080;\tsigned:0;\n"
            )
        };
        assert_eq!(page_layout(&page(8, 16)), Some(PageLayout { commit_size: 8, data_at: 16 }));
        assert_eq!(page_layout(&page(4, 12)), Some(PageLayout { commit_size: 4, data_at: 12 }));
        assert_eq!(page_layout(&page(9, 16)), None);
        assert_eq!(page_layout(""), None);
    }

    #[test]
    fn perfs_part_is_read_to_where_it_ends() {
        assert!(Meta::of_perf(b"").is_err());
        assert!(Meta::of_perf(b"\x17\x08Dtracing0.6\0\0\x08\0\x10\0\0").is_err());
    }
}
