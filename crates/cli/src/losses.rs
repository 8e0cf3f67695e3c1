//! What a dump lost, in words.

use std::collections::BTreeMap;

use tensortap::format::Loss;

use tensortap_query::number::grouped;
use tensortap_query::words::printable;

/// Records by reason, all threads together: `no_host 3, no_space 1,200`; empty when nothing was lost.
pub fn by_reason(losses: &[Loss]) -> String {
    let mut by_reason = BTreeMap::new();
    for loss in losses.iter().filter(|loss| loss.records > 0) {
        let records: &mut u64 = by_reason.entry(loss.reason.as_str()).or_default();
        *records = records.saturating_add(loss.records);
    }
    let parts: Vec<String> = by_reason
        .into_iter()
        .map(|(reason, records)| format!("{} {}", printable(reason), grouped(records)))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_added_up_and_reasons_are_not() {
        let loss = |thread, reason: &str, records| Loss { thread, reason: reason.into(), records, bytes: 0 };
        let losses =
            [loss(1, "no_space", 500), loss(2, "no_space", 700), loss(2, "no_host", 3), loss(3, "x", 0)];
        assert_eq!(by_reason(&losses), "no_host 3, no_space 1,200");
        assert_eq!(by_reason(&[]), "");
    }
}
