//! What the system says of pages.

/// Where Linux keeps how many mappings a process may have.
const MAX_MAP_COUNT: &str = "/proc/sys/vm/max_map_count";
/// What it is where nobody changed it.
const USUAL_MAP_COUNT: u64 = 65_530;

/// Bytes of a page, of this machine and so of the devices that it simulates.
#[must_use]
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Mappings that a process may have: every run of pages with rights of their own is one.
#[must_use]
pub fn mappings_allowed() -> u64 {
    let text = std::fs::read_to_string(MAX_MAP_COUNT).unwrap_or_default();
    text.trim().parse().unwrap_or(USUAL_MAP_COUNT)
}
