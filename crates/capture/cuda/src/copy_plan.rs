//! Finds the memory to copy so that all ranges of a command can be read.

use tensortap_queue::Range;

/// Memory that one copy covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start address on the device.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Pieces that cover all ranges, each byte once, and the piece of each range. Here, a range is its whole
/// allocation.
pub fn pieces<'a>(ranges: impl Iterator<Item = &'a Range>) -> (Vec<Piece>, Vec<usize>) {
    let spans: Vec<(u64, u64)> =
        ranges.map(|range| (range.base, range.base.saturating_add(range.bytes))).collect();
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_unstable_by_key(|&at| spans[at]);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut places = vec![0; spans.len()];
    for at in order {
        let (start, end) = spans[at];
        match pieces.last_mut() {
            Some(last) if start < last.start + last.bytes || (start, end) == (last.start, last.start) => {
                last.bytes = last.bytes.max(end - last.start);
            }
            _ => pieces.push(Piece { start, bytes: end - start }),
        }
        places[at] = pieces.len() - 1;
    }
    (pieces, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_of_ranges_is_copied_once() {
        let range = |base, bytes| Range::dense((base, bytes), 0, bytes, None);
        let ranges = [
            range(500, 100),
            range(100, 50),
            range(120, 100),
            range(220, 10),
            range(550, 50),
            range(100, 50),
        ];
        let (pieces, places) = pieces(ranges.iter());
        let piece = |start, bytes| Piece { start, bytes };
        assert_eq!(pieces, [piece(100, 120), piece(220, 10), piece(500, 100)]);
        assert_eq!(places, [2, 0, 0, 1, 2, 0]);
        for (range, &place) in ranges.iter().zip(&places) {
            let Piece { start, bytes } = pieces[place];
            assert!(range.base >= start && range.base + range.bytes <= start + bytes);
        }
    }

    #[test]
    fn empty_ranges_have_a_piece() {
        let nothing = Range::dense((64, 0), 0, 0, None);
        assert_eq!(pieces([nothing, nothing].iter()), (vec![Piece { start: 64, bytes: 0 }], vec![0, 0]));
        assert_eq!(pieces([].iter()), (vec![], vec![]));
    }
}
