//! Finds collectives by name.

use tensortap_format::{Task, short_name};

/// Names of well-known collectives.
const KNOWN: &str = "all_reduce|allreduce|all_gather|reduce_scatter|broadcast|all_to_all|barrier|nccl*";

/// Parts of names of collectives that leave the same content on every rank.
const EQUAL_RESULTS: [&str; 6] =
    ["all_reduce", "allreduce", "all_gather", "allgather", "broadcast", "barrier"];

/// Patterns for names of collectives, in lower case. `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveNames {
    patterns: Vec<String>,
}

impl Default for CollectiveNames {
    /// The well-known names.
    fn default() -> CollectiveNames {
        CollectiveNames::parse(KNOWN)
    }
}

impl CollectiveNames {
    /// Patterns, separated by `|`. Upper and lower case are the same.
    #[must_use]
    pub fn parse(text: &str) -> CollectiveNames {
        let patterns = text.split('|').map(|one| one.trim().to_ascii_lowercase());
        CollectiveNames { patterns: patterns.filter(|one| !one.is_empty()).collect() }
    }

    /// The patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// The kind of collective that a task is: its kernel's name, or its own name if it runs no kernel.
    /// `None` if it is not a collective.
    #[must_use]
    pub fn kind_of(&self, task: Task<'_>) -> Option<String> {
        let kernels = task.kernel_names();
        let own = task.task_name().filter(|_| kernels.is_empty());
        kernels.into_iter().chain(own.map(str::to_owned)).find(|name| self.is_match(name))
    }

    fn is_match(&self, name: &str) -> bool {
        let name = short_name(name).to_ascii_lowercase();
        self.patterns.iter().any(|pattern| fits(pattern.as_bytes(), name.as_bytes()))
    }
}

/// Whether a collective of this name leaves the same content on every rank.
pub(super) fn has_equal_results(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    EQUAL_RESULTS.iter().any(|known| name.contains(known))
}

/// Whether a pattern fits a whole text. Takes at most as many steps as the product of both lengths.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Where to continue if the text after the last star does not fit.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, place));
                at += 1;
            }
            Some(letter) if *letter == text[place] => (at, place) = (at + 1, place + 1),
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, place) = (after, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names_without_case() {
        let known = CollectiveNames::default();
        for (name, expected) in [
            ("all_reduce", true),
            ("AllReduce", true),
            ("all_reduce_more", false),
            ("broadcast_add", false),
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", true),
            ("_Z13ncclDevKernel4Args", true),
            ("_Z99ncclDevKernel", false),
            ("_Z", false),
            ("", false),
            ("renccl", false),
        ] {
            assert_eq!(known.is_match(name), expected, "{name}");
        }
        let own = CollectiveNames::parse(" Exchange*gradients | *_sum");
        for (name, expected) in [
            ("exchange_all_gradients", true),
            ("exchange_all_gradients_2", false),
            ("partial_sum", true),
            ("all_reduce", false),
        ] {
            assert_eq!(own.is_match(name), expected, "{name}");
        }
        assert!(CollectiveNames::parse("||").patterns().is_empty());
    }

    #[test]
    fn many_stars_take_bounded_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!fits(pattern.as_bytes(), "a".repeat(5_000).as_bytes()));
    }
}
