//! What the environment says: where the recorder listens, and which rank this process is.
#![expect(unsafe_code, reason = "whether the process has more rights than its caller is asked of libc")]

use std::path::PathBuf;

/// The variable that names the recorder's socket: an absolute path.
pub const SOCKET_VARIABLE: &str = "TENSORTAP_SOCKET";

/// The variable that names this library for programs that do not link it: an absolute path.
pub const LIBRARY_VARIABLE: &str = "TENSORTAP_LIBRARY";

/// What launchers of parallel programs call the rank of a process; the first that is there counts.
const RANKS: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// The socket of the recorder. None when none is named, the path is not absolute, or this process has more rights than whoever
/// started it: whose environment must not choose with whom it shares memory.
pub fn socket() -> Option<PathBuf> {
    let path = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)?;
    (path.is_absolute() && !has_more_rights()).then_some(path)
}

/// The rank of this process among those of its program, where the environment says one.
pub fn rank() -> Option<u32> {
    rank_in(|name| std::env::var(name).ok())
}

fn rank_in(value: impl Fn(&str) -> Option<String>) -> Option<u32> {
    RANKS.iter().find_map(|name| value(name)).and_then(|rank| rank.trim().parse().ok())
}

fn has_more_rights() -> bool {
    // SAFETY: reads a word that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_launcher_that_says_a_rank_is_believed() {
        let said = |pairs: &'static [(&str, &str)]| {
            rank_in(move |name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(said(&[]), None);
        assert_eq!(said(&[("SLURM_PROCID", "7")]), Some(7));
        assert_eq!(said(&[("SLURM_PROCID", "7"), ("RANK", "3")]), Some(3));
        assert_eq!(said(&[("PMI_RANK", " 12\n")]), Some(12));
        assert_eq!(said(&[("RANK", "first")]), None);
    }
}
