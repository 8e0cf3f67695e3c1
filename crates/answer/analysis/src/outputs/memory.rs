//! The memory of one output, filled write by write. Positions are in half-bytes, because the smallest element
//! has four bits.

use crate::graph::TensorView;
use crate::graph::view::{Piece, Ranges, pieces};

/// The content of a contiguous view.
pub(super) struct OutputMemory {
    /// The content, packed.
    pub bytes: Vec<u8>,
    /// First half-byte of the view and its end.
    bounds: (u128, u128),
    /// Ranges that no task wrote.
    left: Ranges,
    /// Half-bytes per element.
    unit: u128,
}

impl OutputMemory {
    /// Memory that holds `initial`, or zeros; `None` if the size does not fit in memory.
    pub fn new(view: &TensorView, initial: Option<&[u8]>) -> Option<OutputMemory> {
        let unit = u128::from(view.layout.elem_bits() / 4);
        let half_bytes = u128::from(view.layout.numel()).checked_mul(unit)?;
        let size = usize::try_from(half_bytes.div_ceil(2)).ok()?;
        let bytes = initial.map_or_else(|| vec![0; size], <[u8]>::to_vec);
        let start = u128::from(view.address) * 2;
        let left = Ranges::of(&pieces(view)?);
        Some(OutputMemory { bytes, bounds: (start, start + half_bytes), left, unit })
    }

    /// Writes a payload into the part of its pieces that is within the view. `None` if the payload is too
    /// short for its pieces.
    pub fn put(&mut self, written: &[Piece], payload: &[u8]) -> Option<()> {
        written.iter().try_for_each(|piece| copy(piece, payload, self.bounds, &mut self.bytes))?;
        self.left.take(written);
        Some(())
    }

    /// Number of elements that no task wrote.
    pub fn missing(&self) -> u128 {
        self.left.half_bytes().checked_div(self.unit).unwrap_or(0)
    }
}

fn copy(piece: &Piece, payload: &[u8], (start, end): (u128, u128), into: &mut [u8]) -> Option<()> {
    let (first, last) = (piece.start.max(start), piece.end.min(end));
    if first >= last {
        return Some(());
    }
    let from = usize::try_from(piece.at + (first - piece.start)).ok()?;
    let (to, len) = (usize::try_from(first - start).ok()?, usize::try_from(last - first).ok()?);
    if (from | to | len) & 1 == 0 {
        into.get_mut(to / 2..(to + len) / 2)?.copy_from_slice(payload.get(from / 2..(from + len) / 2)?);
        return Some(());
    }
    for n in 0..len {
        let half = payload.get((from + n) / 2)? >> (4 * ((from + n) & 1)) & 0xf;
        let byte = into.get_mut((to + n) / 2)?;
        let shift = 4 * ((to + n) & 1);
        *byte = *byte & !(0xf << shift) | half << shift;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::testing::{TaskBuilder, graph_of};
    use proptest::prelude::*;
    use tensortap_abi::DType;
    use tensortap_geometry::Layout;

    const BASE: u64 = 0x1000;
    const ELEMENTS: u64 = 48;

    #[test]
    fn a_short_payload_is_refused() {
        let view = TensorView::new(Layout::contiguous(&[4], 8).unwrap(), BASE);
        let written = pieces(&view).unwrap();
        let mut memory = OutputMemory::new(&view, None).unwrap();
        assert_eq!((memory.put(&written, &[1, 2, 3]), memory.missing()), (None, 4));
        assert_eq!((memory.put(&written, &[1, 2, 3, 4]), memory.missing()), (Some(()), 0));
    }

    fn write(task: usize, layout: Layout) -> TaskBuilder {
        let dtype = match layout.elem_bits() {
            4 => DType::Int4,
            8 => DType::UInt8,
            _ => DType::Float32,
        };
        TaskBuilder::new(task as u64, "write").output(BASE, "").view(BASE, dtype, layout)
    }

    /// Elements that depend on the task and the index, packed.
    fn content(task: usize, layout: &Layout) -> Vec<u8> {
        let value = |at: u64| (task as u64 * 5 + at * 3 + 1) & 0xf;
        let values: Vec<u64> = (0..layout.numel()).map(value).collect();
        match layout.elem_bits() {
            4 => {
                values.chunks(2).map(|p| u8::try_from(p[0] | p.get(1).unwrap_or(&0) << 4).unwrap()).collect()
            }
            bits => values.iter().flat_map(|v| v.to_le_bytes()[..bits as usize / 8].to_vec()).collect(),
        }
    }

    proptest! {
        /// Compared with a table of elements. Some writes begin before the view or end after it.
        #[test]
        fn memory_holds_the_last_write_of_every_element(
            bits in prop_oneof![Just(4_u32), Just(8), Just(32)],
            writes in proptest::collection::vec((0_u64..60, 1_u64..5, 1_u64..6, 0_i64..4), 0..12),
            first in (0_u64..5).prop_map(|n| n * 2),
        ) {
            let layouts: Vec<Layout> = writes
                .iter()
                .map(|&(start, rows, columns, gap)| {
                    let stride = i64::try_from(columns).unwrap() + gap;
                    Layout::new(&[rows, columns], &[stride, 1], start, bits).unwrap()
                })
                .collect();
            let view = TensorView::new(Layout::contiguous(&[ELEMENTS], bits).unwrap(), BASE + first * u64::from(bits) / 8);
            let tasks = layouts.iter().enumerate().map(|(task, layout)| write(task, *layout)).collect();
            let graph = graph_of(tasks, &[], None);
            let mut expected = vec![None; 128];
            let mut memory = OutputMemory::new(&view, None).unwrap();
            for (task, layout) in layouts.iter().enumerate() {
                for (at, offset) in layout.offsets().enumerate() {
                    expected[usize::try_from(offset).unwrap()] = Some((task as u64 * 5 + at as u64 * 3 + 1) & 0xf);
                }
            }
            for source in graph.last_writers(&[view])[0].as_ref().unwrap().iter().rev() {
                let layout = &layouts[source.task];
                let written = pieces(&TensorView::new(*layout, BASE)).unwrap();
                prop_assert!(memory.put(&written, &content(source.task, layout)).is_some());
            }
            let shown = &expected[usize::try_from(first).unwrap()..][..usize::try_from(ELEMENTS).unwrap()];
            prop_assert_eq!(memory.missing(), shown.iter().filter(|e| e.is_none()).count() as u128);
            let value = |n: usize| -> u64 {
                let width = bits as usize / 8;
                match bits {
                    4 => u64::from(memory.bytes[n / 2] >> (4 * (n & 1)) & 0xf),
                    _ => memory.bytes[n * width..][..width].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b)),
                }
            };
            for (n, element) in shown.iter().enumerate() {
                prop_assert_eq!(value(n), element.unwrap_or(0), "element {}", n);
            }
        }
    }
}
