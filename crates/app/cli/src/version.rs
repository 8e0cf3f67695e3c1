//! The version of this build.

use std::sync::LazyLock;

use tensortap::format::{INDEX_VERSION, SCHEMA_VERSION, SEGMENTED_INDEX_VERSION, SEGMENTED_SCHEMA_VERSION};
use tensortap::{ExportFormat, PLATFORMS, RUNTIMES};

/// Version and commit: `0.1.0 (1a2b3c4d5e6f)`.
pub static SHORT: LazyLock<String> = LazyLock::new(|| match env!("TENSORTAP_COMMIT") {
    "" => env!("CARGO_PKG_VERSION").into(),
    commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
});

/// The version, and the platforms, runtimes and formats of this build.
pub static LONG: LazyLock<String> = LazyLock::new(|| {
    let platforms: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name()).collect();
    let runtimes: Vec<&str> = RUNTIMES.iter().map(|runtime| runtime.name()).collect();
    let formats = ExportFormat::ALL.map(ExportFormat::name);
    format!(
        "{}\nplatforms  {}\nruntimes   {}\nexports    {}\nfiles      manifest {SCHEMA_VERSION} or {SEGMENTED_SCHEMA_VERSION}, index {INDEX_VERSION} or {SEGMENTED_INDEX_VERSION}\nbuild      {}",
        *SHORT,
        platforms.join(", "),
        runtimes.join(", "),
        formats.join(", "),
        if cfg!(debug_assertions) { "with debug assertions" } else { "optimized" },
    )
});
