//! A trace as one wide Parquet table of events, zstd-compressed, in row groups of bounded size.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use spry_trace::event::Event;
use spry_trace::{Header, Stamped};

use super::row::{COLUMNS, Cell, Kind, Row};
use super::tasks::{News, Tasks};
use super::{Export, ExportError};

/// Rows that are held until a row group is written: some 10 MiB.
const ROWS_PER_GROUP: usize = 65_536;

/// Writes Parquet. The trace's header is in the file's metadata under `spry.header`, as JSON.
pub struct ParquetExport<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
    tasks: Tasks,
}

/// One column of the row group that is being filled.
struct Column {
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Text(Vec<ByteArray>, HashMap<Box<str>, ByteArray>),
}

impl<W: Write + Send> ParquetExport<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn new(out: W, header: &Header) -> Result<ParquetExport<W>, ExportError> {
        let tasks = Tasks::new(header);
        let header = serde_json::to_string(header).map_err(std::io::Error::from)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_created_by("spry".to_owned())
            .set_key_value_metadata(Some(vec![KeyValue::new("spry.header".to_owned(), header)]))
            .build();
        let writer = SerializedFileWriter::new(out, schema()?, Arc::new(properties))?;
        let columns = COLUMNS.iter().map(|&(_, kind)| Column::new(kind)).collect();
        Ok(ParquetExport { writer, columns, rows: 0, tasks })
    }

    fn write_group(&mut self) -> Result<(), ExportError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let writer =
                group.next_column()?.ok_or_else(|| ParquetError::General("too few columns".into()))?;
            column.write(writer)?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> Export for ParquetExport<W> {
    fn event(&mut self, stamped: &Stamped) -> Result<(), ExportError> {
        let news = self.tasks.learn(stamped.cpu, &stamped.event);
        if matches!(stamped.event, Event::Task(_)) && news == News::Nothing {
            return Ok(());
        }
        let row = Row::new(stamped, &self.tasks);
        for (column, cell) in self.columns.iter_mut().zip(row.cells()) {
            column.push(cell);
        }
        self.rows += 1;
        self.tasks.forget(&stamped.event);
        if self.rows == ROWS_PER_GROUP {
            self.write_group()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        self.write_group()?;
        self.writer.finish()?;
        Ok(self.writer.inner_mut().flush()?)
    }
}

impl Column {
    fn new(kind: Kind) -> Column {
        let values = match kind {
            Kind::U16 | Kind::U32 => Values::Int32(Vec::new()),
            Kind::U64 | Kind::I64 => Values::Int64(Vec::new()),
            Kind::Text => Values::Text(Vec::new(), HashMap::new()),
        };
        Column { levels: Vec::new(), values }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        match (cell, &mut self.values) {
            (Cell::Null, _) => return self.levels.push(0),
            // Unsigned columns are stored in the signed type of their width, as the format prescribes.
            (Cell::Int(value), Values::Int32(values)) => values.push(*value as u32 as i32),
            (Cell::Int(value), Values::Int64(values)) => values.push(*value as i64),
            (Cell::Signed(value), Values::Int64(values)) => values.push(*value),
            (Cell::Text(text), Values::Text(values, seen)) => {
                let shared = match seen.get(&**text) {
                    Some(shared) => shared.clone(),
                    None => {
                        let shared = ByteArray::from(&**text);
                        seen.insert(text.as_ref().into(), shared.clone());
                        shared
                    }
                };
                values.push(shared);
            }
            _ => unreachable!("a column's cells are of its kind"),
        }
        self.levels.push(1);
    }

    fn write(&mut self, mut writer: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(&self.levels[..]);
        match &mut self.values {
            Values::Int32(values) => {
                writer.typed::<Int32Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Int64(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Text(values, seen) => {
                writer.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
                seen.clear();
            }
        }
        self.levels.clear();
        writer.close()
    }
}

fn schema() -> Result<TypePtr, ParquetError> {
    let fields = COLUMNS
        .iter()
        .map(|&(name, kind)| {
            let integer = |bit_width| LogicalType::integer(bit_width, false);
            let signed = |bit_width| LogicalType::integer(bit_width, true);
            let (physical, logical) = match kind {
                Kind::U16 => (PhysicalType::INT32, integer(16)),
                Kind::U32 => (PhysicalType::INT32, integer(32)),
                Kind::U64 => (PhysicalType::INT64, integer(64)),
                Kind::I64 => (PhysicalType::INT64, signed(64)),
                Kind::Text => (PhysicalType::BYTE_ARRAY, LogicalType::String),
            };
            let field = Type::primitive_type_builder(name, physical)
                .with_logical_type(Some(logical))
                .with_repetition(Repetition::OPTIONAL)
                .build()?;
            Ok(Arc::new(field))
        })
        .collect::<Result<Vec<_>, ParquetError>>()?;
    Ok(Arc::new(Type::group_type_builder("events").with_fields(fields).build()?))
}
