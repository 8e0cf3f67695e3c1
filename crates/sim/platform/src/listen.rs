//! Reads the output of a device process that a sanitizer watches. All output is copied to standard error,
//! except the sanitizer's report, which is kept for [`crate::Device::take_report`].

use std::{
    io::{self, BufRead, BufReader, PipeWriter, Read, Write},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use crate::sanitizer::begins_report;

/// Longer lines are copied in parts.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// A longer report is cut at this size.
const MAX_REPORT_BYTES: usize = 1 << 20;
/// How long to wait for the remaining output of a process that has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// A line of at least this many of this character precedes a report.
const RULER: (u8, usize) = (b'=', 20);

/// The thread that reads the output of one process.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Receives the report when the process has closed its output.
    report: Receiver<Vec<u8>>,
}

impl Listener {
    /// Starts reading from a new pipe. The process gets the writing end.
    pub(crate) fn start() -> io::Result<(Listener, PipeWriter)> {
        let (ours, theirs) = io::pipe()?;
        let (done, report) = channel();
        let listen = move || {
            let report = pass_on(&mut BufReader::new(ours), &mut io::stderr());
            if let Err(unsent) = done.send(report) {
                // The host no longer wants the report, so it is printed like other output.
                let _ = io::stderr().write_all(&unsent.0);
            }
        };
        thread::Builder::new().name("device-output".to_owned()).spawn(listen)?;
        Ok((Listener { report }, theirs))
    }

    /// The report of a process that has ended.
    pub(crate) fn take(self) -> Option<String> {
        let report = self.report.recv_timeout(LAST_WORDS).ok().filter(|report| !report.is_empty())?;
        Some(String::from_utf8_lossy(&report).into_owned())
    }
}

/// Copies everything before the report, and returns the report.
fn pass_on(from: &mut impl BufRead, to: &mut impl Write) -> Vec<u8> {
    let (mut report, mut ruler, mut line) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        line.clear();
        if !matches!(from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line), Ok(1..)) {
            let _ = to.write_all(&ruler);
            return report;
        }
        if !report.is_empty() || begins_report(&String::from_utf8_lossy(&line)) {
            report.append(&mut ruler);
            let left = MAX_REPORT_BYTES.saturating_sub(report.len());
            report.extend_from_slice(&line[..line.len().min(left)]);
            continue;
        }
        let _ = to.write_all(&ruler);
        ruler.clear();
        match is_ruler(&line) {
            true => ruler.append(&mut line),
            false => {
                let _ = to.write_all(&line);
            }
        }
    }
}

fn is_ruler(line: &[u8]) -> bool {
    let (sign, least) = RULER;
    let line = line.trim_ascii_end();
    line.len() >= least && line.iter().all(|byte| *byte == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> (String, String) {
        let mut passed = Vec::new();
        let report = pass_on(&mut text.as_bytes(), &mut passed);
        (String::from_utf8(passed).unwrap(), String::from_utf8(report).unwrap())
    }

    #[test]
    fn a_report_is_kept_with_its_ruler_and_other_output_is_copied() {
        let ruler = "=".repeat(65);
        let report = format!("{ruler}\n==7==ERROR: AddressSanitizer: x\n{ruler}\nmore\n");
        assert_eq!(heard(&format!("one\n{ruler}\ntwo\n{report}")), (format!("one\n{ruler}\ntwo\n"), report));
        assert_eq!(heard(&format!("no end\n{ruler}")), (format!("no end\n{ruler}"), String::new()));
        assert_eq!(heard(""), (String::new(), String::new()));
    }

    #[test]
    fn a_huge_report_is_cut() {
        let (passed, report) =
            heard(&format!("k.c:1:1: runtime error: x\n{}", "y".repeat(2 * MAX_REPORT_BYTES)));
        assert_eq!((passed.len(), report.len()), (0, MAX_REPORT_BYTES));
    }
}
