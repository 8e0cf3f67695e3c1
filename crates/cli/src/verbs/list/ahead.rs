//! Records of a long dump, read by one thread while another writes them out.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tensortap::format::{Dump, FormatError, Record};

use tensortap_query::Selection;

/// Shorter dumps are listed before a second thread would have begun.
const WORTH_IT: u64 = 20_000;
/// Records handed over at a time, about 400 KiB.
const BATCH: usize = 1024;
/// Batches that wait to be written.
const WAITING: usize = 4;

type Batch = Result<Vec<Record>, FormatError>;

/// Calls `each` with every selected record, in the dump's order, until it fails.
pub fn for_each(
    dump: &Dump,
    selection: &Selection,
    mut each: impl FnMut(&Record) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
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
