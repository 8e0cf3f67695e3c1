//! Page size and mapping limit of the system.

/// Where Linux publishes the limit on the mappings of a process.
const MAX_MAP_COUNT: &str = "/proc/sys/vm/max_map_count";
/// The default limit, if the file cannot be read.
const USUAL_MAP_COUNT: u64 = 65_530;

/// Size of a page in bytes, on this machine and therefore on its simulated devices.
#[must_use]
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The limit on the mappings of a process. Each run of pages with the same protection counts as one mapping.
#[must_use]
pub fn mappings_allowed() -> u64 {
    let text = std::fs::read_to_string(MAX_MAP_COUNT).unwrap_or_default();
    text.trim().parse().unwrap_or(USUAL_MAP_COUNT)
}
