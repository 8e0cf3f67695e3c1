//! Chooses the folder of each process's dump.

use std::collections::HashSet;

/// The folder names in use.
#[derive(Debug, Default)]
pub struct FolderNames(HashSet<String>);

impl FolderNames {
    /// A name for the next dump: `rank-N`, or `pid-P` for a process without a rank. A further process of
    /// the same rank gets `rank-N_pid-P`. If a process attaches several times, a number is appended.
    pub fn name(&mut self, pid: u32, rank: Option<u32>) -> String {
        let first = rank.map(|rank| format!("rank-{rank}"));
        let of_process = match &first {
            Some(rank) => format!("{rank}_pid-{pid}"),
            None => format!("pid-{pid}"),
        };
        let again = (2_u64..).map(|number| format!("{of_process}_{number}"));
        let mut names = first.into_iter().chain([of_process.clone()]).chain(again);
        names.find(|name| self.0.insert(name.clone())).unwrap_or(of_process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_has_a_folder_of_its_own() {
        let mut roster = FolderNames::default();
        let names = [(7, Some(0)), (8, Some(1)), (9, Some(0)), (9, Some(0)), (5, None), (5, None), (5, None)]
            .map(|(pid, rank)| roster.name(pid, rank));
        assert_eq!(
            names,
            ["rank-0", "rank-1", "rank-0_pid-9", "rank-0_pid-9_2", "pid-5", "pid-5_2", "pid-5_3"]
        );
    }
}
