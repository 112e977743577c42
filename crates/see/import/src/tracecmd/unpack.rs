//! The two kinds of compression in trace-cmd's files: zstd and zlib.

use std::io::{self, Read};

/// The compression of sections and pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    Zstd,
    Zlib,
}

impl Packing {
    /// The compression with this name in a file.
    pub(crate) fn from_name(name: &str) -> Option<Packing> {
        match name {
            "zstd" => Some(Packing::Zstd),
            "zlib" => Some(Packing::Zlib),
            _ => None,
        }
    }

    /// Unpacks `len` bytes. Fails if there are fewer; further bytes are ignored.
    pub(crate) fn unpack(self, packed: &[u8], len: usize) -> io::Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        let limit = len as u64;
        let read = match self {
            Packing::Zstd => zstd::stream::read::Decoder::new(packed)?.take(limit).read_to_end(&mut unpacked),
            Packing::Zlib => flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut unpacked),
        };
        match read {
            Ok(read) if read == len => Ok(unpacked),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn both_kinds_are_unpacked_to_the_length_that_was_said() {
        let page = vec![7; 4096];
        let zstd = zstd::bulk::compress(&page, 3).unwrap();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&page).unwrap();
        let zlib = encoder.finish().unwrap();
        for (name, packed) in [("zstd", zstd), ("zlib", zlib)] {
            let packing = Packing::from_name(name).unwrap();
            assert_eq!(packing.unpack(&packed, page.len()).unwrap(), page, "{name}");
            assert!(packing.unpack(&packed, page.len() + 1).is_err(), "{name}: too short");
            assert!(packing.unpack(&packed[..packed.len() / 2], page.len()).is_err(), "{name}: cut");
            assert_eq!(packing.unpack(&packed, 10).unwrap().len(), 10, "{name}: no more than was said");
        }
        assert_eq!(Packing::from_name("lz4"), None);
    }
}
