//! Records related to one: equal content, and the same argument at the other stage.

use tensortap::format::{ArgumentKind, Dump, FormatError, Record};

use crate::number::grouped;
use crate::words::record_name;

/// Maximum number of listed records.
const NAMED: usize = 5;

/// The records related to a shown record.
#[derive(Default)]
pub struct RelatedRecords {
    /// First of the records with the same content.
    pub same_content: Vec<Record>,
    /// Number of records with the same content.
    pub same_content_count: u64,
    /// The same argument of the same task at the other stage.
    pub other_stage: Option<Record>,
}

impl RelatedRecords {
    /// Finds the related records in one walk over the dump.
    pub fn of(dump: &Dump, record: &Record) -> Result<RelatedRecords, FormatError> {
        let mut related = RelatedRecords::default();
        if record.kind == ArgumentKind::Scalar {
            return Ok(related);
        }
        for other in dump.records() {
            let other = other?;
            if other.index == record.index || other.kind == ArgumentKind::Scalar {
                continue;
            }
            if record.hash.is_some() && other.hash == record.hash {
                related.same_content_count += 1;
                if related.same_content.len() < NAMED {
                    related.same_content.push(other);
                }
            }
            let same_argument = (other.task_key(), other.arg_index) == (record.task_key(), record.arg_index);
            if same_argument && other.stage != record.stage && related.other_stage.is_none() {
                related.other_stage = Some(other);
            }
        }
        Ok(related)
    }

    /// Lists records with the same content: `2 (0x0/after/2), 3 (0x100000001/before/0) and 7 more`. `None` if
    /// there are none.
    pub fn same_content_text(&self) -> Option<String> {
        let named: Vec<String> = self
            .same_content
            .iter()
            .map(|other| format!("{} ({})", other.index, record_name(other)))
            .collect();
        let more = self.same_content_count - self.same_content.len() as u64;
        let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
        (!named.is_empty()).then(|| named.join(", ") + &more)
    }
}
