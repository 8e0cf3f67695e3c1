//! Explains why a selection is empty, and which values exist.

use std::collections::BTreeSet;

use tensortap::format::{Dump, FormatError};

use super::condition::{Condition, Facet};
use crate::number::counted;

/// Maximum number of values that are listed. Of more, only the first and the last are named.
const NAMED: usize = 8;

/// Number of records that fit one condition, and the existing values.
struct ConditionStats<'c> {
    condition: &'c Condition,
    fitting: u64,
    few: BTreeSet<Facet>,
    first: Option<Facet>,
    last: Option<Facet>,
}

/// Explains in one or two sentences. Reads the records once.
pub fn explain(conditions: &[Condition], dump: &Dump) -> Result<String, FormatError> {
    if dump.is_empty() {
        return Ok("The dump has no records.".into());
    }
    let mut seen: Vec<ConditionStats<'_>> = conditions.iter().map(ConditionStats::new).collect();
    for record in dump.records() {
        let record = record?;
        for seen in &mut seen {
            seen.fitting += u64::from(seen.condition.holds(&record));
            if let Some(facet) = seen.condition.facet(&record, dump) {
                seen.add(facet);
            }
        }
    }
    let missing: Vec<String> =
        seen.iter().filter(|seen| seen.fitting == 0).map(ConditionStats::missing).collect();
    Ok(if missing.is_empty() { none_fits_all(&seen) } else { missing.join(" ") })
}

fn none_fits_all(seen: &[ConditionStats<'_>]) -> String {
    let alone: Vec<String> = seen
        .iter()
        .map(|seen| {
            format!("{} by itself matches {}", seen.condition.asked().0, counted(seen.fitting, "record"))
        })
        .collect();
    format!("No record matches all of the selectors: {}.", alone.join(", "))
}

impl<'c> ConditionStats<'c> {
    fn new(condition: &'c Condition) -> ConditionStats<'c> {
        ConditionStats { condition, fitting: 0, few: BTreeSet::new(), first: None, last: None }
    }

    fn add(&mut self, facet: Facet) {
        if self.first.as_ref().is_none_or(|first| facet < *first) {
            self.first = Some(facet.clone());
        }
        if self.last.as_ref().is_none_or(|last| facet > *last) {
            self.last = Some(facet.clone());
        }
        if self.few.len() <= NAMED {
            self.few.insert(facet);
        }
    }

    fn missing(&self) -> String {
        let (asked, all) = match (self.condition, self.condition.asked()) {
            // A task may exist without records, for example if it had not started.
            (Condition::Task { .. }, (asked, all)) => {
                (format!("record of {asked}"), format!("{all} with records"))
            }
            (_, (asked, all)) => (asked, all.to_owned()),
        };
        match (&self.first, &self.last) {
            (Some(first), Some(last)) if self.few.len() > NAMED => {
                format!("There is no {asked}; {all} are {} … {}.", first.1, last.1)
            }
            (Some(_), Some(_)) => {
                let few: Vec<&str> = self.few.iter().map(|facet| facet.1.as_str()).collect();
                format!("There is no {asked}; {all} are {}.", few.join(", "))
            }
            _ => format!("There is no {asked} in the dump."),
        }
    }
}
