//! What `list --json` prints.

use std::io::{self, Write};

use serde::ser::{Error as _, SerializeSeq};
use serde::{Serialize, Serializer};
use tensortap::format::{Dump, FormatError, Loss, RunInfo, Tail};

use super::record::{KernelNames, RecordDocument};
use super::{Lines, begin_records};
use crate::Rows;
use crate::fields::Row;
use crate::words::state_name;

/// All but the records.
#[derive(Serialize)]
pub struct ListHead<'a> {
    dump: String,
    total: u64,
    /// All that the selection holds, also what a limit keeps back.
    selected: u64,
    scene: &'a str,
    platform: &'a str,
    runtime: &'a str,
    dump_level: u32,
    /// `None` while the run lasts.
    status: Option<&'static str>,
    state: &'static str,
    torn: Option<TornDocument>,
    missing_records: u64,
    losses: &'a [Loss],
}

/// Where an index is torn.
#[derive(Serialize)]
pub struct TornDocument {
    offset: u64,
    lost_bytes: u64,
    reason: String,
}

impl<'a> ListHead<'a> {
    /// The head of the rows' dump.
    pub fn of(rows: &Rows<'a>) -> Result<ListHead<'a>, FormatError> {
        let dump = rows.dump();
        let RunInfo { scene, platform, runtime, dump_level, .. } = dump.info();
        let tail = dump.tail();
        Ok(ListHead {
            dump: dump.dir().display().to_string(),
            total: dump.len(),
            selected: rows.selected()?,
            scene,
            platform,
            runtime,
            dump_level: *dump_level,
            status: dump.status().map(|status| status.name()),
            state: state_name(&tail),
            torn: TornDocument::of(tail),
            missing_records: dump.gaps().iter().map(|gap| gap.records).sum(),
            losses: losses(dump),
        })
    }
}

fn losses(dump: &Dump) -> &[Loss] {
    dump.footer().map_or(&[], |footer| &footer.losses)
}

impl TornDocument {
    fn of(tail: Tail) -> Option<TornDocument> {
        match tail {
            Tail::Torn { offset, lost_bytes, reason } => Some(TornDocument { offset, lost_bytes, reason }),
            Tail::Closed | Tail::Open => None,
        }
    }
}

/// The whole document. Serialising it reads the dump; an error of the dump becomes one of the serializer, and
/// [`ListDocument::write`] keeps them apart.
///
/// ```
/// use tensortap_query::{Rows, Selectors, document::ListDocument};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let mut config = tensortap::RunConfig::new("vector_example");
/// # config.device_mode = tensortap::DeviceMode::Thread;
/// # let out = folder.path().join("dump");
/// # config.dump = Some(tensortap::DumpConfig::new(tensortap::DumpLevel::Full));
/// # config.out = Some(out.clone());
/// # tensortap::run(&config)?;
/// let dump = tensortap::format::Dump::open(&out)?;
/// let all = Selectors::default().selection(&dump, &|_, _| {})?;
/// let rows = Rows::new(&dump, &all, &[], None)?;
/// let document = serde_json::to_value(ListDocument::of(&rows))?;
/// assert_eq!(document["records"][0]["name"], "0x0/before/0");
/// assert_eq!(document["records"].as_array().map(Vec::len), Some(18));
/// # Ok(())
/// # }
/// ```
pub struct ListDocument<'r, 'a> {
    rows: &'r Rows<'a>,
}

impl<'r, 'a> ListDocument<'r, 'a> {
    /// Of these rows.
    #[must_use]
    pub fn of(rows: &'r Rows<'a>) -> ListDocument<'r, 'a> {
        ListDocument { rows }
    }

    /// Writes it with a line for each record.
    pub fn write<E: From<FormatError> + From<io::Error>>(&self, out: &mut dyn Write) -> Result<(), E> {
        begin_records(out, &ListHead::of(self.rows)?)?;
        let mut lines = Lines::new();
        let mut kernels = KernelNames::new(self.rows.dump().info());
        self.rows.for_each(|record| {
            let document = RecordDocument::of(&Row::of(record), kernels.of(record), None);
            Ok::<(), E>(lines.put(out, &document)?)
        })?;
        Ok(writeln!(out, "\n  ]\n}}")?)
    }
}

impl Serialize for ListDocument<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'h> {
            #[serde(flatten)]
            head: ListHead<'h>,
            records: Records<'h>,
        }
        let head = ListHead::of(self.rows).map_err(S::Error::custom)?;
        Whole { head, records: Records(self.rows) }.serialize(serializer)
    }
}

struct Records<'r>(&'r Rows<'r>);

/// Either side of a serialisation that reads.
enum Failed<E> {
    Dump(FormatError),
    Serializer(E),
}

impl<E> From<FormatError> for Failed<E> {
    fn from(error: FormatError) -> Failed<E> {
        Failed::Dump(error)
    }
}

impl Serialize for Records<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut kernels = KernelNames::new(self.0.dump().info());
        let mut records = serializer.serialize_seq(None)?;
        let walked = self.0.for_each(|record| {
            let document = RecordDocument::of(&Row::of(record), kernels.of(record), None);
            records.serialize_element(&document).map_err(Failed::Serializer)
        });
        match walked {
            Ok(_) => records.end(),
            Err(Failed::Dump(error)) => Err(S::Error::custom(error)),
            Err(Failed::Serializer(error)) => Err(error),
        }
    }
}
