//! The records that are shown, one after the other, whatever form they take. Memory does not grow with the dump.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tensortap::format::{ArgumentKind, Dump, FormatError, Record};

use crate::Selection;
use crate::fields::Field;
use crate::order::{SortKey, Sorted, sorted};

/// Rows of one dump: the dump, what is selected of it, and its rank where there are several.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// What is meant of it.
    pub selection: &'a Selection,
    /// Which of several dumps it is.
    pub rank: Option<u64>,
}

/// What is to be shown of one dump or several.
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
    /// Places and counts when the rows are not in the order of the dumps.
    sorted: Option<Sorted>,
    limit: u64,
}

/// A part, and the position of a record in its dump.
pub(crate) type RecordAt = (usize, u64);

impl<'a> Rows<'a> {
    /// Those of a dump alone. Sorts when asked to; otherwise no record is read yet.
    pub fn of(
        dump: &'a Dump,
        selection: &'a Selection,
        sort: &[SortKey],
        limit: Option<u64>,
    ) -> Result<Rows<'a>, FormatError> {
        Rows::new(vec![Part { dump, selection, rank: None }], sort, limit)
    }

    /// Those of several dumps, one after the other unless they are sorted.
    pub fn new(parts: Vec<Part<'a>>, sort: &[SortKey], limit: Option<u64>) -> Result<Rows<'a>, FormatError> {
        let sorted = if sort.is_empty() { None } else { Some(sorted(&parts, sort)?) };
        Ok(Rows { parts, sorted, limit: limit.unwrap_or(u64::MAX) })
    }

    /// The dumps and what is selected of each.
    #[must_use]
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// Places of the records in their dumps, in order, where these are sorted; otherwise none.
    #[must_use]
    pub fn positions(&self) -> Vec<u64> {
        let places = self.sorted.as_ref().map_or(&[][..], |sorted| &sorted.places);
        places.iter().map(|&(_, position)| position).collect()
    }

    /// Fields that rows were to be sorted by and that none has a value for: such a key orders nothing.
    #[must_use]
    pub fn without_values(&self) -> &[&'static Field] {
        self.sorted.as_ref().map_or(&[], |sorted| &sorted.without_values)
    }

    /// Calls `show` with every record up to the limit, and with the place of its part; counts them all.
    pub fn for_each<E: From<FormatError>>(
        &self,
        mut show: impl FnMut(usize, &Record) -> Result<(), E>,
    ) -> Result<Counts, E> {
        if let Some(Sorted { places, counts, .. }) = &self.sorted {
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

    /// Records selected, shown or not. Reads the index once more rather than keep records in memory.
    pub fn selected(&self) -> Result<u64, FormatError> {
        if let Some(Sorted { places, .. }) = &self.sorted {
            return Ok(places.len() as u64);
        }
        self.parts.iter().try_fold(0, |selected, part| Ok(selected + part.selected()?))
    }
}

impl Part<'_> {
    /// Records selected.
    pub(crate) fn selected(&self) -> Result<u64, FormatError> {
        if self.selection.is_all() {
            return Ok(self.dump.len());
        }
        self.selection.records(self.dump).try_fold(0, |selected, record| record.map(|_| selected + 1))
    }
}

/// Counts over the records that are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tensors.
    pub tensors: u64,
    /// Scalars.
    pub scalars: u64,
    /// Bytes that the content of the tensors takes.
    pub tensor_bytes: u64,
    /// Records that a limit kept back.
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

    /// Records counted.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.tensors + self.scalars
    }

    /// The same counts, of which at most `limit` records were shown.
    fn limited(self, limit: u64) -> Counts {
        Counts { kept_back: self.records().saturating_sub(limit), ..self }
    }
}

/// Shorter dumps are listed before a second thread would have begun.
const WORTH_IT: u64 = 20_000;
/// Records handed over at a time, about 400 KiB.
const BATCH: usize = 1024;
/// Batches that wait to be written.
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
        // When `each` fails the receiver goes, and with it the reader at its next batch.
        receiver.into_iter().try_for_each(|batch: Batch| batch?.iter().try_for_each(&mut each))
    })
}

/// Sends the records in batches; ends early when nobody listens any more.
fn read(dump: &Dump, selection: &Selection, sender: &SyncSender<Batch>) {
    let mut batch = Vec::with_capacity(BATCH);
    for record in selection.records(dump) {
        match record {
            Ok(record) => batch.push(record),
            Err(error) => {
                // What was read before the error is shown before it is told.
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
