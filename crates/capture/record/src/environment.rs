//! Reads the environment: the recorder's socket and the rank of this process.
#![expect(unsafe_code, reason = "libc reports whether the process has elevated privileges")]

use std::path::PathBuf;

/// Environment variable with the absolute path of the recorder's socket.
pub const SOCKET_VARIABLE: &str = "TENSORTAP_SOCKET";

/// Environment variable with the absolute path of this library, for programs that do not link it.
pub const LIBRARY_VARIABLE: &str = "TENSORTAP_LIBRARY";

/// Variables with the rank of a process, set by launchers of parallel programs. The first one counts.
const RANKS: [&str; 4] = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Variables with the number of ranks, set by the same launchers in the same order.
const SIZES: [&str; 4] = ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];

/// The socket of the recorder. `None` if the variable is unset, the path is not absolute, or the process has
/// more privileges than its caller. The environment of a caller must not choose with whom such a process shares memory.
pub fn socket() -> Option<PathBuf> {
    let path = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)?;
    (path.is_absolute() && !has_more_rights()).then_some(path)
}

/// The rank of this process, if the environment has one.
pub fn rank() -> Option<u32> {
    rank_in(|name| std::env::var(name).ok())
}

/// The number of ranks of the program, if the environment has it.
pub fn ranks() -> Option<u32> {
    number_in(&SIZES, |name| std::env::var(name).ok())
}

fn rank_in(value: impl Fn(&str) -> Option<String>) -> Option<u32> {
    number_in(&RANKS, value)
}

/// The number in the first of these variables that is set.
fn number_in(names: &[&str], value: impl Fn(&str) -> Option<String>) -> Option<u32> {
    names.iter().find_map(|name| value(name)).and_then(|number| number.trim().parse().ok())
}

fn has_more_rights() -> bool {
    // SAFETY: reads a value from the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_rank_of_the_first_launcher() {
        let rank = |pairs: &'static [(&str, &str)]| {
            rank_in(move |name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(rank(&[]), None);
        assert_eq!(rank(&[("SLURM_PROCID", "7")]), Some(7));
        assert_eq!(rank(&[("SLURM_PROCID", "7"), ("RANK", "3")]), Some(3));
        assert_eq!(rank(&[("PMI_RANK", " 12\n")]), Some(12));
        assert_eq!(rank(&[("RANK", "first")]), None);
    }
}
