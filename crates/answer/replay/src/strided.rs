//! Copies packed content into a strided view and back. An image is a range of memory. `origin` is the start
//! of the view's buffer relative to the image; it may be negative, but all elements of the view must be in
//! the image.

use tensortap_geometry::Layout;
use tensortap_recorder::Gather;

/// Copies packed content into a view. Shorter content leaves the rest of the view unchanged.
///
/// # Panics
/// If an element of the view is outside of the image.
pub fn scatter(layout: &Layout, origin: u64, packed: &[u8], image: &mut [u8]) {
    if layout.elem_bits() == 4 {
        for (place, offset) in layout.offsets().enumerate().take(packed.len() * 2) {
            set_nibble(image, nibble_at(origin, offset), nibble(packed[place / 2], place as u64));
        }
        return;
    }
    let width = u64::from(layout.elem_bits() / 8);
    let mut rest = packed;
    for run in layout.runs() {
        let (content, remaining) = rest.split_at(index(run.len * width).min(rest.len()));
        let at = index(origin.wrapping_add(run.offset * width));
        image[at..at + content.len()].copy_from_slice(content);
        rest = remaining;
    }
}

/// Replaces `packed` with the content of the view.
///
/// # Panics
/// If an element of the view is outside of the image.
pub fn gather(layout: &Layout, origin: u64, image: &[u8], packed: &mut Vec<u8>) {
    let touched = layout.byte_range();
    let [start, end] = [touched.start, touched.end].map(|at| index(origin.wrapping_add(at)));
    let touched = if layout.numel() == 0 { &[][..] } else { &image[start..end] };
    let mut gather = Gather::of_slice(touched, &layout.trimmed()).expect("the view is in the image");
    packed.clear();
    packed.resize(index(gather.left_bytes()), 0);
    gather.fill(packed);
}

fn index(position: u64) -> usize {
    usize::try_from(position).expect("a view is in memory")
}

/// Byte index of a 4-bit element, and whether it is the high half.
fn nibble_at(origin: u64, offset: u64) -> (usize, bool) {
    (index(origin.wrapping_add(offset / 2)), offset % 2 == 1)
}

/// The low half for an even place, the high half for an odd one.
fn nibble(byte: u8, place: u64) -> u8 {
    if place % 2 == 1 { byte >> 4 } else { byte & 0xf }
}

fn set_nibble(bytes: &mut [u8], (at, high): (usize, bool), value: u8) {
    let byte = &mut bytes[at];
    *byte = if high { *byte & 0x0f | value << 4 } else { *byte & 0xf0 | value };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One bit of the content. Shares no code with the functions under test.
    fn bit(bytes: &[u8], bit: u64) -> u8 {
        bytes[usize::try_from(bit / 8).unwrap()] >> (bit % 8) & 1
    }

    fn element(bytes: &[u8], bits: u32, place: u64) -> Vec<u8> {
        (0..u64::from(bits)).map(|i| bit(bytes, place * u64::from(bits) + i)).collect()
    }

    /// Views without overlapping elements, in a buffer that starts `before` bytes before the image.
    fn views() -> impl Strategy<Value = (Layout, u64)> {
        let dims = prop::collection::vec((1_u64..5, 1_i64..4, any::<bool>()), 0..4);
        (dims, 0_u64..9, prop::sample::select(vec![4_u32, 8, 16, 32, 64]), 0_u64..4).prop_map(
            |(dims, start, bits, before)| {
                let (mut shape, mut strides, mut step, mut back) = (vec![], vec![], 1_i64, 0_i64);
                for (size, gap, reversed) in dims.into_iter().rev() {
                    let stride = step * gap;
                    shape.insert(0, size);
                    strides.insert(0, if reversed { -stride } else { stride });
                    let extent = stride * i64::try_from(size - 1).unwrap();
                    back += if reversed { extent } else { 0 };
                    step = extent + stride;
                }
                // At least `before` bytes precede the first element.
                let start = start + back.unsigned_abs() + before * 2;
                (Layout::new(&shape, &strides, start, bits).unwrap(), before)
            },
        )
    }

    proptest! {
        #[test]
        fn scatter_writes_only_the_view_and_gather_reads_it_back(
            (layout, before) in views(), seed in any::<u64>()
        ) {
            let bits = layout.elem_bits();
            let mut random = fastrand::Rng::with_seed(seed);
            let mut fill = |bytes: u64| -> Vec<u8> { (0..bytes).map(|_| random.u8(..)).collect() };
            let packed_bytes = (layout.numel() * u64::from(bits)).div_ceil(8);
            let mut packed = fill(packed_bytes);
            if bits == 4 && layout.numel() % 2 == 1 {
                *packed.last_mut().unwrap() &= 0x0f;
            }
            let original = fill(layout.byte_range().end - before);
            let mut image = original.clone();
            scatter(&layout, 0_u64.wrapping_sub(before), &packed, &mut image);
            let mut expected = original;
            for (place, offset) in layout.offsets().enumerate() {
                for i in 0..u64::from(bits) {
                    let at = offset * u64::from(bits) + i - before * 8;
                    let (byte, mask) = (usize::try_from(at / 8).unwrap(), 1 << (at % 8));
                    let one = bit(&packed, place as u64 * u64::from(bits) + i) == 1;
                    expected[byte] = if one { expected[byte] | mask } else { expected[byte] & !mask };
                }
            }
            prop_assert_eq!(&image, &expected);
            let mut gathered = vec![7; 3];
            gather(&layout, 0_u64.wrapping_sub(before), &image, &mut gathered);
            prop_assert_eq!(gathered, packed);
        }

        #[test]
        fn shorter_content_leaves_the_rest_of_the_view(
            (layout, _) in views(), cut in 0_usize..64
        ) {
            let bits = layout.elem_bits();
            let whole = usize::try_from((layout.numel() * u64::from(bits)).div_ceil(8)).unwrap();
            let packed = vec![0xff; cut.min(whole)];
            let mut image = vec![0; usize::try_from(layout.byte_range().end).unwrap()];
            scatter(&layout, 0, &packed, &mut image);
            for (place, offset) in (0..).zip(layout.offsets()) {
                let ones = element(&image, bits, offset).iter().filter(|&&b| b == 1).count() as u64;
                let have = (packed.len() as u64 * 8).saturating_sub(place * u64::from(bits));
                prop_assert_eq!(ones, have.min(u64::from(bits)), "element {}", place);
            }
        }
    }
}
