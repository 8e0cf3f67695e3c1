//! Iterates over the records to show, for every output form. Memory does not grow with the dump unless rows
//! are sorted.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tensortap::format::{ArgumentKind, Dump, FormatError, Record};

use crate::Selection;
use crate::fields::Field;
use crate::order::{SortKey, SortedRows, sorted};

/// One dump, its selection, and its rank if there are several dumps.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// The selection in this dump.
    pub selection: &'a Selection,
    /// Rank of the dump among several.
    pub rank: Option<u64>,
}

/// The rows of one or several dumps.
///
/// ```
/// use tensortap_query::{Rows, Selectors, SortKey};
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
/// let rows = Rows::of(&dump, &all, &[SortKey::parse("-bytes")?], Some(3))?;
/// let mut largest = Vec::new();
/// let counts = rows.for_each(|_, record| -> Result<(), Box<dyn std::error::Error>> {
///     largest.push(record.content_bytes());
///     Ok(())
/// })?;
/// assert_eq!((largest, counts.records(), counts.kept_back), (vec![65_536; 3], 18, 15));
/// # Ok(())
/// # }
/// ```
pub struct Rows<'a> {
    parts: Vec<Part<'a>>,
    /// The sorted rows; `None` in the order of the dumps.
    sorted: Option<SortedRows>,
    limit: u64,
}

/// Index of a part, and index of a record in its dump.
pub(crate) type RecordAt = (usize, u64);

impl<'a> Rows<'a> {
    /// The rows of a single dump. Without `sort`, no record is read yet.
    pub fn of(
        dump: &'a Dump,
        selection: &'a Selection,
        sort: &[SortKey],
        limit: Option<u64>,
    ) -> Result<Rows<'a>, FormatError> {
        Rows::new(vec![Part { dump, selection, rank: None }], sort, limit)
    }

    /// The rows of several dumps, dump after dump unless sorted.
    pub fn new(parts: Vec<Part<'a>>, sort: &[SortKey], limit: Option<u64>) -> Result<Rows<'a>, FormatError> {
        let sorted = if sort.is_empty() { None } else { Some(sorted(&parts, sort)?) };
        Ok(Rows { parts, sorted, limit: limit.unwrap_or(u64::MAX) })
    }

    /// The dumps with their selections.
    #[must_use]
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// Indexes of the sorted records; empty without sorting.
    #[must_use]
    pub fn positions(&self) -> Vec<u64> {
        let places = self.sorted.as_ref().map_or(&[][..], |sorted| &sorted.places);
        places.iter().map(|&(_, position)| position).collect()
    }

    /// Sort fields for which no row has a value, so that they have no effect.
    #[must_use]
    pub fn without_values(&self) -> &[&'static Field] {
        self.sorted.as_ref().map_or(&[], |sorted| &sorted.without_values)
    }

    /// Calls `show` with the part index and the record, for every record up to the limit. Counts all records.
    pub fn for_each<E: From<FormatError>>(
        &self,
        mut show: impl FnMut(usize, &Record) -> Result<(), E>,
    ) -> Result<Counts, E> {
        if let Some(SortedRows { places, counts, .. }) = &self.sorted {
            let shown = usize::try_from(self.limit).unwrap_or(usize::MAX).min(places.len());
            for &(part, position) in &places[..shown] {
                show(part, &self.parts[part].dump.record(position)?)?;
            }
            return Ok(counts.limited(self.limit));
        }
        let mut counts = Counts::default();
        for (place, part) in self.parts.iter().enumerate() {
            for_each::<E>(part.dump, part.selection, |record| {
                if counts.records() < self.limit {
                    show(place, record)?;
                }
                counts.add(record);
                Ok(())
            })?;
        }
        Ok(counts.limited(self.limit))
    }

    /// Number of selected records, shown or not. Reads the index again instead of keeping records in memory.
    pub fn selected(&self) -> Result<u64, FormatError> {
        if let Some(SortedRows { places, .. }) = &self.sorted {
            return Ok(places.len() as u64);
        }
        self.parts.iter().try_fold(0, |selected, part| Ok(selected + part.selected()?))
    }
}

impl Part<'_> {
    /// Number of selected records.
    pub(crate) fn selected(&self) -> Result<u64, FormatError> {
        if self.selection.is_all() {
            return Ok(self.dump.len());
        }
        self.selection.records(self.dump).try_fold(0, |selected, record| record.map(|_| selected + 1))
    }
}

/// Counts of the selected records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tensors.
    pub tensors: u64,
    /// Scalars.
    pub scalars: u64,
    /// Total size of the tensors' content.
    pub tensor_bytes: u64,
    /// Records omitted by a limit.
    pub kept_back: u64,
}

impl Counts {
    /// Counts a record.
    pub(crate) fn add(&mut self, record: &Record) {
        match record.kind {
            ArgumentKind::Tensor => {
                self.tensors += 1;
                self.tensor_bytes = self.tensor_bytes.saturating_add(record.content_bytes());
            }
            ArgumentKind::Scalar => self.scalars += 1,
        }
    }

    /// Number of counted records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.tensors + self.scalars
    }

    /// The same counts if at most `limit` records were shown.
    fn limited(self, limit: u64) -> Counts {
        Counts { kept_back: self.records().saturating_sub(limit), ..self }
    }
}

/// Shorter dumps are listed faster than a second thread starts.
const WORTH_IT: u64 = 20_000;
/// Records per batch, about 400 KiB.
const BATCH: usize = 1024;
/// Batches that may wait.
const WAITING: usize = 4;

type Batch = Result<Vec<Record>, FormatError>;

/// Calls `each` with every selected record, in the dump's order, until it fails.
fn for_each<E: From<FormatError>>(
    dump: &Dump,
    selection: &Selection,
    mut each: impl FnMut(&Record) -> Result<(), E>,
) -> Result<(), E> {
    if dump.len() < WORTH_IT {
        return selection.records(dump).try_for_each(|record| each(&record?));
    }
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(WAITING);
        scope.spawn(move || read(dump, selection, &sender));
        // If `each` fails, the receiver is dropped, and the reader stops at its next batch.
        receiver.into_iter().try_for_each(|batch: Batch| batch?.iter().try_for_each(&mut each))
    })
}

/// Sends the records in batches. Stops when the receiver is gone.
fn read(dump: &Dump, selection: &Selection, sender: &SyncSender<Batch>) {
    let mut batch = Vec::with_capacity(BATCH);
    for record in selection.records(dump) {
        match record {
            Ok(record) => batch.push(record),
            Err(error) => {
                // Send the records before the error, then the error.
                let _ = sender.send(Ok(batch)).and_then(|()| sender.send(Err(error)));
                return;
            }
        }
        if batch.len() == BATCH
            && sender.send(Ok(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)))).is_err()
        {
            return;
        }
    }
    let _ = sender.send(Ok(batch));
}
