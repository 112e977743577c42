//! Exports of a small trace with every kind of event, read back.

mod common;

use common::{assert_golden, events, header};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use spry_report::export::Format;
use spry_trace::event::Switch;
use spry_trace::{Event, Header, Kind, Stamped};

fn export(format: Format, events: &[Stamped]) -> Vec<u8> {
    export_of(format, &header(), events)
}

fn export_of(format: Format, header: &Header, events: &[Stamped]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut exporter = format.exporter(&mut out, header).unwrap();
    for stamped in events {
        exporter.event(stamped).unwrap();
    }
    exporter.finish().unwrap();
    out
}

#[test]
fn csv_has_a_quoted_line_for_every_event() {
    let csv = String::from_utf8(export(Format::Csv, &events())).unwrap();
    assert_golden("events.csv", &csv);
    let rows = csv::Reader::from_reader(csv.as_bytes()).into_records().map(Result::unwrap).count();
    // One of the events restates names that were known already.
    assert_eq!(rows, events().len() - 1);
}

#[test]
fn parquet_has_the_rows_and_columns_of_csv() {
    let csv = export(Format::Csv, &events());
    let mut csv = csv::Reader::from_reader(&csv[..]);
    let names: Vec<String> = csv.headers().unwrap().iter().map(str::to_owned).collect();
    let file = SerializedFileReader::new(bytes::Bytes::from(export(Format::Parquet, &events()))).unwrap();
    let mut rows = file.get_row_iter(None).unwrap();
    for record in csv.records() {
        let row = rows.next().expect("as many rows as CSV has").unwrap();
        for ((name, field), want) in names.iter().zip(row.get_column_iter()).zip(record.unwrap().iter()) {
            assert_eq!(name, field.0);
            let got = match field.1 {
                parquet::record::Field::Null => String::new(),
                parquet::record::Field::Str(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(got, want, "column {name}");
        }
    }
    assert!(rows.next().is_none());
}

#[test]
fn stolen_time_is_absent_until_an_event_shows_it() {
    let header = Header { unproven: Kind::Stolen.into(), ..header() };
    let mut events = events();
    let mut switches = events.iter_mut().filter_map(|stamped| match &mut stamped.event {
        Event::Switch(switch) => Some(switch),
        _ => None,
    });
    let Some(Switch { stolen_ns, .. }) = switches.nth(2) else { panic!("there are three switches") };
    *stolen_ns = 7;
    let csv = export_of(Format::Csv, &header, &events);
    let mut csv = csv::Reader::from_reader(&csv[..]);
    let at = csv.headers().unwrap().iter().position(|name| name == "stolen_ns").unwrap();
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    let stolen = rows.iter().filter(|row| &row[2] == "switch").map(|row| row[at].to_owned());
    assert_eq!(stolen.collect::<Vec<_>>(), ["", "", "7", "0", "0"]);
    let file = export_of(Format::Parquet, &header, &events);
    let file = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
    let stolen = file.get_row_iter(None).unwrap().filter_map(|row| {
        let row = row.unwrap();
        let is_switch = row.get_string(2).is_ok_and(|event| event == "switch");
        is_switch.then(|| row.get_long(at).ok())
    });
    assert_eq!(stolen.collect::<Vec<_>>(), [None, None, Some(7), Some(0), Some(0)]);
}

#[test]
fn a_long_trace_makes_several_row_groups() {
    let many: Vec<Stamped> = events().into_iter().cycle().take(200_000).collect();
    let file = SerializedFileReader::new(bytes::Bytes::from(export(Format::Parquet, &many))).unwrap();
    assert!(file.num_row_groups() > 1);
    let rows: i64 = file.metadata().row_groups().iter().map(|group| group.num_rows()).sum();
    // A name is new only after a task has ended, so nearly every `Task` event here repeats known names.
    let restated = many.iter().filter(|stamped| matches!(stamped.event, Event::Task(_))).count();
    assert_eq!(rows, (many.len() - restated + 2) as i64);
}

#[test]
fn perfetto_has_every_event_in_its_packet() {
    assert_golden("events.perfetto.txt", &dump(&export(Format::Perfetto, &events()), 0));
}

#[test]
fn perfetto_closes_its_bundles_before_they_grow() {
    let many: Vec<Stamped> = events().into_iter().cycle().take(50_000).collect();
    let file = export(Format::Perfetto, &many);
    let (mut rest, mut longest) = (&file[..], 0);
    while !rest.is_empty() {
        assert_eq!(varint(&mut rest), (1 << 3) | 2, "a trace is packets only");
        let length = varint(&mut rest) as usize;
        longest = longest.max(length);
        rest = &rest[length..];
    }
    assert!(longest < 40 << 10, "{longest} bytes in one packet");
}

/// Any protobuf as text: fields that read as messages are shown as such, as `protoc --decode_raw` does.
fn dump(mut bytes: &[u8], depth: usize) -> String {
    let indent = "  ".repeat(depth);
    let mut text = String::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            0 => text += &format!("{indent}{}: {}\n", tag >> 3, varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (inner, rest) = bytes.split_at(length);
                bytes = rest;
                match std::str::from_utf8(inner) {
                    Ok(string) if !is_message(inner) => {
                        text += &format!("{indent}{}: {string:?}\n", tag >> 3)
                    }
                    _ => text += &format!("{indent}{} {{\n{}{indent}}}\n", tag >> 3, dump(inner, depth + 1)),
                }
            }
            kind => panic!("wire type {kind} is never written"),
        }
    }
    text
}

/// Whether the bytes parse as fields to their end.
fn is_message(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            _ if tag >> 3 == 0 || bytes.is_empty() => return false,
            0 => _ = varint(&mut bytes),
            2 => {
                let length = varint(&mut bytes) as usize;
                let Some(rest) = bytes.get(length..) else { return false };
                bytes = rest;
            }
            _ => return false,
        }
    }
    true
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else { break };
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}
