//! Hex dump of the stored bytes: offset, hex, and characters.

use std::io::Write;

use tensortap::format::{Dump, Record};

use crate::QueryError;
use crate::number::grouped;

const LINE_BYTES: usize = 16;
/// Bytes shown by default.
pub(crate) const FIRST_BYTES: u64 = 512;
/// Bytes read at a time: whole lines.
const PIECE_BYTES: usize = 1 << 16;

/// Writes the first bytes of a payload, or all. Offsets are relative to the payload.
pub fn write(out: &mut dyn Write, dump: &Dump, record: &Record, full: bool) -> Result<(), QueryError> {
    let shown = if full { record.bin_size } else { record.bin_size.min(FIRST_BYTES) };
    let mut piece = Vec::new();
    let mut at = 0;
    while at < shown {
        let length = usize::try_from(shown - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        piece.resize(length, 0);
        dump.payload_part(record, at, &mut piece)?;
        for line in piece.chunks(LINE_BYTES) {
            writeln!(out, "{}", line_text(at, line))?;
            at += line.len() as u64;
        }
    }
    if shown < record.bin_size {
        let left = grouped(record.bin_size - shown);
        writeln!(out, "... {left} bytes more; --full shows them")?;
    }
    Ok(())
}

/// `00000010  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  |................|`
fn line_text(at: u64, bytes: &[u8]) -> String {
    let mut text = format!("{at:08x} ");
    for place in 0..LINE_BYTES {
        if place % 8 == 0 {
            text.push(' ');
        }
        match bytes.get(place) {
            Some(byte) => text += &format!("{byte:02x} "),
            None => text += "   ",
        }
    }
    let printable = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
    text + " |" + &bytes.iter().map(printable).collect::<String>() + "|"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_offset_bytes_and_characters() {
        let all: Vec<u8> = (0x5a..0x6a).collect();
        assert_eq!(
            line_text(16, &all),
            "00000010  5a 5b 5c 5d 5e 5f 60 61  62 63 64 65 66 67 68 69  |Z[\\]^_`abcdefghi|"
        );
        let cut = line_text(0, &[0, 0x7f, b'A']);
        assert_eq!(cut, "00000000  00 7f 41                                          |..A|");
    }
}
