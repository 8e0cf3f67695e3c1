//! Ways to damage a file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use fastrand::Rng;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Numbers that readers must not trust as sizes, offsets and counts.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "4294967295",
    "9007199254740992",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "0.5",
];
/// Texts that readers must not trust as paths, names and ids.
const TEXTS: [&str; 12] = [
    "",
    "..",
    "../outside/victim",
    "/dev/zero",
    "\\u001b]0;title\\u0007\\u001b[2J",
    "\\u202e\\u2028",
    "0xffffffffffffffff",
    "0x",
    "NaN",
    "float32",
    "int4",
    "\\u0000",
];

/// Damages the file in a random way. Returns a description.
pub fn damage(path: &Path, outside: &Path, rng: &mut Rng) -> &'static str {
    let Ok(mut bytes) = fs::read(path) else { return "nothing" };
    let is_text = path.extension().is_some_and(|ending| ending == "json" || ending == "csv");
    let is_index = path.extension().is_some_and(|ending| ending == "idx");
    let what = match rng.u32(0..20) {
        0 => return replace(path, outside, rng),
        1 | 2 => truncate(&mut bytes, rng),
        3 | 4 => flip(&mut bytes, rng),
        5 => splice(&mut bytes, rng),
        _ if is_text && rng.u32(0..8) == 0 => nest(&mut bytes, rng),
        _ if is_text => swap_value(&mut bytes, rng),
        _ if is_index => forge(&mut bytes, rng),
        _ => extremes(&mut bytes, rng),
    };
    let _ = fs::write(path, bytes);
    what
}

/// Replaces the file by something else with the same name.
fn replace(path: &Path, outside: &Path, rng: &mut Rng) -> &'static str {
    let _ = fs::remove_file(path);
    match rng.u32(0..4) {
        0 => "removed",
        1 => {
            let _ = symlink(outside.join("victim"), path);
            "a link"
        }
        2 => {
            let _ = fs::create_dir(path);
            "a folder"
        }
        _ => {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let _ = rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0);
            "a pipe"
        }
    }
}

fn truncate(bytes: &mut Vec<u8>, rng: &mut Rng) -> &'static str {
    bytes.truncate(rng.usize(0..=bytes.len()));
    "cut"
}

fn flip(bytes: &mut [u8], rng: &mut Rng) -> &'static str {
    for _ in 0..rng.u32(1..9) {
        if !bytes.is_empty() {
            let at = rng.usize(0..bytes.len());
            bytes[at] ^= 1 << rng.u32(0..8);
        }
    }
    "bits flipped"
}

fn splice(bytes: &mut Vec<u8>, rng: &mut Rng) -> &'static str {
    let part = |rng: &mut Rng, bytes: &[u8]| {
        let from = rng.usize(0..=bytes.len());
        from..(from + rng.usize(0..4096)).min(bytes.len())
    };
    let (from, to) = (part(rng, bytes), part(rng, bytes));
    let piece = bytes[from].to_vec();
    bytes.splice(to, piece);
    "spliced"
}

/// Deeply nested brackets, or a text of a megabyte.
fn nest(bytes: &mut Vec<u8>, rng: &mut Rng) -> &'static str {
    let at = rng.usize(0..=bytes.len());
    let piece = match rng.u32(0..3) {
        0 => b"[".repeat(100_000),
        1 => b"{\"a\":".repeat(100_000),
        _ => [b"\"".as_slice(), &b"x".repeat(1 << 20), b"\""].concat(),
    };
    bytes.splice(at..at, piece);
    "nested"
}

/// Replaces a number, a text, or the whole value of a key.
fn swap_value(bytes: &mut Vec<u8>, rng: &mut Rng) -> &'static str {
    for _ in 0..rng.u32(1..5) {
        let start = rng.usize(0..=bytes.len());
        let Some(colon) = bytes[start..].iter().position(|&byte| byte == b':').map(|at| start + at + 1)
        else {
            continue;
        };
        let end = bytes[colon..]
            .iter()
            .position(|byte| b",}]\n".contains(byte))
            .map_or(bytes.len(), |at| colon + at);
        let value = match rng.u32(0..8) {
            0..=3 => NUMBERS[rng.usize(0..NUMBERS.len())].to_string(),
            4..=6 => format!("\"{}\"", TEXTS[rng.usize(0..TEXTS.len())]),
            _ => ["null", "[]", "{}", "true", "[[]]"][rng.usize(0..5)].to_string(),
        };
        bytes.splice(colon..end, value.into_bytes());
    }
    "values swapped"
}

/// Replaces words by limits of integer ranges.
fn extremes(bytes: &mut [u8], rng: &mut Rng) -> &'static str {
    for _ in 0..rng.u32(1..5) {
        let word = extreme(rng).to_le_bytes();
        let word = &word[..[1, 2, 4, 8][rng.usize(0..4)]];
        if bytes.len() > 8 {
            // Most of the values that a reader might trust are at the start.
            let end = if rng.bool() { bytes.len().min(512) } else { bytes.len() };
            let at = rng.usize(0..=end - 8);
            bytes[at..at + word.len()].copy_from_slice(word);
        }
    }
    "words swapped"
}

fn extreme(rng: &mut Rng) -> u64 {
    match rng.u32(0..6) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << rng.u32(0..64),
        3 => (1 << rng.u32(1..64)) - 1,
        4 => rng.u64(0..300),
        _ => rng.u64(..),
    }
}

/// Changes words in an index's header and frames and updates the checksums, so that the checks after them
/// run.
fn forge(bytes: &mut [u8], rng: &mut Rng) -> &'static str {
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)
    };
    let Some(run) = bytes.get(16..24).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes) else {
        return "nothing";
    };
    let mut frames = Vec::new();
    let mut at = word(bytes, 12).unwrap_or(usize::MAX);
    while let Some(body) = at.checked_add(4).and_then(|at| word(bytes, at)) {
        let Some(end) = at.checked_add(32 + body).filter(|end| end + 8 <= bytes.len()) else { break };
        frames.push(at..end);
        at = end + 8;
    }
    if frames.is_empty() {
        return extremes(bytes, rng);
    }
    for _ in 0..rng.u32(1..4) {
        let frame = frames[rng.usize(0..frames.len())].clone();
        let value = extreme(rng).to_le_bytes();
        let value = &value[..[1, 2, 4, 8][rng.usize(0..4)]];
        // Keep the length of the body, or no later frame is found.
        let from = frame.start + 8;
        let at = from + rng.usize(0..frame.end - from - 8);
        bytes[at..at + value.len()].copy_from_slice(value);
        let sum = xxh3_64_with_seed(&bytes[frame.clone()], run);
        bytes[frame.end..frame.end + 8].copy_from_slice(&sum.to_le_bytes());
    }
    "frames forged"
}
