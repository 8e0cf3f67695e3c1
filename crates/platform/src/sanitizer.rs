//! Sanitizers of a compiler, as far as a device process has to do with them: what is loaded first, and what they say.

use std::ffi::OsString;

/// What watches kernels that were compiled for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sanitizer {
    /// Whether it watches which addresses kernels touch.
    pub address: bool,
    /// What a compiler is told for kernels that it shall watch.
    pub flags: Vec<String>,
    /// Environment of processes that load such kernels.
    pub environment: Vec<(String, OsString)>,
}

/// What a sanitizer wrote before it ended its process.
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

/// What the first line of a report about an address has in it.
const ADDRESS_MARK: &str = "ERROR: AddressSanitizer";
/// What the line of a report about an operation without meaning has in it.
const UNDEFINED_MARK: &str = ": runtime error: ";
const SUMMARY: &str = "SUMMARY: ";

impl SanitizerReport {
    /// Of what was written.
    #[must_use]
    pub fn new(text: impl Into<String>) -> SanitizerReport {
        SanitizerReport { text: text.into() }
    }

    /// All of it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// In a line: what happened, and where in the source.
    #[must_use]
    pub fn headline(&self) -> &str {
        let undefined = self.text.lines().find(|line| line.contains(UNDEFINED_MARK));
        let summary = self.text.lines().find_map(|line| line.strip_prefix(SUMMARY));
        undefined.or(summary).or_else(|| self.text.lines().find(|line| begins_report(line))).unwrap_or("")
    }

    /// The address that was touched, if that is what it is about.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        let first = self.text.lines().find(|line| line.contains(ADDRESS_MARK))?;
        let (_, behind) = first.split_once(" on address 0x").or_else(|| first.split_once(" address 0x"))?;
        let digits = behind.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        u64::from_str_radix(digits, 16).ok()
    }
}

/// Whether a sanitizer begins to speak with this line.
pub(crate) fn begins_report(line: &str) -> bool {
    line.contains(ADDRESS_MARK) || line.contains(UNDEFINED_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_operation_is_told_by_its_own_line_and_has_no_address() {
        let report = SanitizerReport::new(
            "k.c:8:5: runtime error: signed integer overflow: 1 + 2 cannot be represented in type 'int'\n    #0 0x7f in f k.c:8\n\
             SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior k.c:8:5\n",
        );
        assert!(report.headline().starts_with("k.c:8:5: runtime error: signed"), "{}", report.headline());
        assert_eq!(report.address(), None);
    }

    #[test]
    fn damaged_reports_say_what_they_can() {
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
