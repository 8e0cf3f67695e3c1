//! The records that are shown, one after the other, whatever form they take.

use tensortap::format::{Dump, Record};

use super::ahead;
use super::foot::Foot;
use super::order::{SortKey, sorted};
use tensortap_query::Selection;

/// What is to be shown of a dump.
pub struct Rows<'a> {
    dump: &'a Dump,
    selection: &'a Selection,
    /// Positions and counts when the rows are not in the dump's order.
    sorted: Option<(Vec<u64>, Foot)>,
    limit: u64,
}

impl<'a> Rows<'a> {
    /// Sorts when asked to; otherwise no record is read yet.
    pub fn new(
        dump: &'a Dump,
        selection: &'a Selection,
        sort: &[SortKey],
        limit: Option<u64>,
    ) -> anyhow::Result<Rows<'a>> {
        let sorted = if sort.is_empty() { None } else { Some(sorted(dump, selection, sort)?) };
        Ok(Rows { dump, selection, sorted, limit: limit.unwrap_or(u64::MAX) })
    }

    /// The dump.
    pub fn dump(&self) -> &'a Dump {
        self.dump
    }

    /// The selection.
    pub fn selection(&self) -> &'a Selection {
        self.selection
    }

    /// Calls `show` with every record up to the limit; counts them all.
    pub fn for_each(&self, mut show: impl FnMut(&Record) -> anyhow::Result<()>) -> anyhow::Result<Foot> {
        if let Some((positions, foot)) = &self.sorted {
            let shown = usize::try_from(self.limit).unwrap_or(usize::MAX).min(positions.len());
            for &position in &positions[..shown] {
                show(&self.dump.record(position)?)?;
            }
            return Ok(foot.limited(self.limit));
        }
        let mut foot = Foot::default();
        ahead::for_each(self.dump, self.selection, |record| {
            if foot.records() < self.limit {
                show(record)?;
            }
            foot.add(record);
            Ok(())
        })?;
        Ok(foot.limited(self.limit))
    }

    /// Records selected, shown or not. Reads the index once more rather than keep records in memory.
    pub fn selected(&self) -> anyhow::Result<u64> {
        if let Some((positions, _)) = &self.sorted {
            return Ok(positions.len() as u64);
        }
        if self.selection.is_all() {
            return Ok(self.dump.len());
        }
        let mut selected = 0;
        for record in self.selection.records(self.dump) {
            record?;
            selected += 1;
        }
        Ok(selected)
    }
}
