//! Compiler sanitizers in device processes: how to load one, and how to read its report.

use std::ffi::OsString;

/// A sanitizer for kernels that were compiled with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sanitizer {
    /// Whether it is an address sanitizer.
    pub address: bool,
    /// Compiler flags for kernels.
    pub flags: Vec<String>,
    /// Environment variables for processes that load such kernels.
    pub environment: Vec<(String, OsString)>,
}

/// The report that a sanitizer wrote before it ended its process.
///
/// ```
/// use tensortap_platform::SanitizerReport;
/// let report = SanitizerReport::new(
///     "==7==ERROR: AddressSanitizer: use-after-poison on address 0x200000001404 at pc 0x7f\n\
///      WRITE of size 4 at 0x200000001404 thread T4 (tt-core-1)\n\
///      SUMMARY: AddressSanitizer: use-after-poison add.c:9 in kernel_entry\n",
/// );
/// assert_eq!(report.headline(), "AddressSanitizer: use-after-poison add.c:9 in kernel_entry");
/// assert_eq!(report.address(), Some(0x2000_0000_1404));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SanitizerReport {
    text: String,
}

/// Part of the first line of a report about an address.
const ADDRESS_MARK: &str = "ERROR: AddressSanitizer";
/// Part of the line of a report about undefined behavior.
const UNDEFINED_MARK: &str = ": runtime error: ";
const SUMMARY: &str = "SUMMARY: ";

impl SanitizerReport {
    /// A report with this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> SanitizerReport {
        SanitizerReport { text: text.into() }
    }

    /// The whole report.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// One line: what happened, and where in the source.
    #[must_use]
    pub fn headline(&self) -> &str {
        let undefined = self.text.lines().find(|line| line.contains(UNDEFINED_MARK));
        let summary = self.text.lines().find_map(|line| line.strip_prefix(SUMMARY));
        undefined.or(summary).or_else(|| self.text.lines().find(|line| begins_report(line))).unwrap_or("")
    }

    /// The bad address, if the report is about one.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        let first = self.text.lines().find(|line| line.contains(ADDRESS_MARK))?;
        let (_, rest) = first.split_once(" on address 0x").or_else(|| first.split_once(" address 0x"))?;
        let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        u64::from_str_radix(digits, 16).ok()
    }
}

/// Whether a report starts with this line.
pub(crate) fn begins_report(line: &str) -> bool {
    line.contains(ADDRESS_MARK) || line.contains(UNDEFINED_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_behavior_report_has_a_headline_and_no_address() {
        let report = SanitizerReport::new(
            "k.c:8:5: runtime error: signed integer overflow: 1 + 2 cannot be represented in type 'int'\n    #0 0x7f in f k.c:8\n\
             SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior k.c:8:5\n",
        );
        assert!(report.headline().starts_with("k.c:8:5: runtime error: signed"), "{}", report.headline());
        assert_eq!(report.address(), None);
    }

    #[test]
    fn damaged_reports_do_not_panic() {
        for text in ["", "\n", "SUMMARY: ", "==1==ERROR: AddressSanitizer: on address 0xzz", "noise"] {
            let report = SanitizerReport::new(text);
            let _ = report.headline();
            assert_eq!(report.address(), None, "{text}");
        }
        let huge =
            SanitizerReport::new("==1==ERROR: AddressSanitizer: x on address 0xfffffffffffffffffff at");
        assert_eq!(huge.address(), None);
    }
}
