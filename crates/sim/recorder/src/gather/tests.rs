//! Compares gathered content with indexing each element separately.

use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tensortap_geometry::GeometryError;

use super::*;

/// A view and its buffer.
#[derive(Clone, Debug)]
struct Case {
    shape: Vec<u64>,
    strides: Vec<i64>,
    start: u64,
    bits: u32,
    buffer: Vec<u8>,
}

impl Case {
    /// Places the view so that its lowest element is `lead` elements after the buffer's start.
    fn new(shape: Vec<u64>, strides: Vec<i64>, lead: u64, bits: u32) -> Case {
        let reach = |sign: i64| -> u64 {
            let extents = shape.iter().zip(&strides).map(|(&n, &s)| (n.max(1) - 1) * s.unsigned_abs());
            extents.zip(&strides).filter(|(_, s)| s.signum() == sign).map(|(extent, _)| extent).sum()
        };
        let start = lead + reach(-1);
        let elems = start + reach(1) + 1;
        let bytes = (elems * u64::from(bits)).div_ceil(8);
        // Bytes that differ from their near and far neighbors.
        let buffer = (0..bytes).map(|i| u8::try_from((i * 37 + i / 251 * 11 + 5) & 0xff).unwrap()).collect();
        Case { shape, strides, start, bits, buffer }
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.shape, &self.strides, self.start, self.bits).unwrap()
    }

    /// Every element, read by its coordinates.
    fn expected(&self) -> Vec<u8> {
        let numel: u64 = self.shape.iter().product();
        let offsets = (0..numel).map(|mut index| {
            let mut offset = i64::try_from(self.start).unwrap();
            for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
                offset += i64::try_from(index % size).unwrap() * stride;
                index /= size;
            }
            usize::try_from(offset).unwrap()
        });
        if self.bits == 4 {
            let nibbles: Vec<u8> = offsets.map(|at| self.buffer[at / 2] >> (at % 2 * 4) & 0xf).collect();
            return nibbles.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4).collect();
        }
        let width = self.bits as usize / 8;
        offsets.flat_map(|at| self.buffer[at * width..][..width].to_vec()).collect()
    }

    fn gathered(&self, chunk_bytes: usize) -> Vec<u8> {
        let mut gather = Gather::of_slice(&self.buffer, &self.layout()).unwrap();
        let mut content = Vec::new();
        let mut room = vec![MaybeUninit::uninit(); chunk_bytes];
        while gather.left_bytes() > 0 {
            let left = gather.left_bytes();
            let chunk = gather.next_into(&mut room);
            assert!(!chunk.is_empty());
            content.extend_from_slice(chunk);
            assert_eq!(left - gather.left_bytes(), chunk.len() as u64);
        }
        assert!(gather.next_into(&mut room).is_empty());
        content
    }

    fn check(&self) {
        let sizes: &[usize] = if cfg!(miri) { &[40, 4096] } else { &[8, 16, 40, 4096, 1 << 20] };
        for &chunk_bytes in sizes {
            assert_eq!(self.gathered(chunk_bytes), self.expected(), "by {chunk_bytes}: {self:?}");
        }
    }
}

const WIDTHS: [u32; 5] = [4, 8, 16, 32, 64];

/// Up to 8 dimensions. Strides are nested, as slices and transposes produce them, or arbitrary.
fn cases() -> impl Strategy<Value = Case> {
    let dims = prop::collection::vec((0..=4u64, 0..=3i64, prop::bool::weighted(0.2), -9..=9i64), 0..=8);
    let order = any::<prop::sample::Index>();
    (dims, order, any::<bool>(), 0..5u64, prop::sample::select(&WIDTHS[..])).prop_map(
        |(dims, order, nested, lead, bits)| {
            let mut shape: Vec<u64> = dims.iter().map(|dim| dim.0).collect();
            // Few elements, sometimes none.
            while shape.iter().map(|&size| size.max(1)).product::<u64>() > 3000 {
                let largest = shape.iter().position(|size| Some(size) == shape.iter().max()).unwrap();
                shape[largest] -= 1;
            }
            let mut strides: Vec<i64> = dims.iter().map(|dim| dim.3).collect();
            if nested {
                let turn = if shape.is_empty() { 0 } else { order.index(shape.len()) };
                let mut step = 1;
                for at in 0..shape.len() {
                    let dim = (at + turn) % shape.len();
                    let (_, gap, negative, _) = dims[dim];
                    strides[dim] = if gap == 3 {
                        0
                    } else if negative {
                        -step
                    } else {
                        step
                    };
                    step *= i64::try_from(shape[dim].max(1)).unwrap() + gap % 3;
                }
            }
            Case::new(shape, strides, lead, bits)
        },
    )
}

proptest! {
    #![proptest_config(Config { cases: if cfg!(miri) { 10 } else { 3000 }, failure_persistence: None, ..Config::default() })]

    #[test]
    fn gathered_content_equals_indexing_each_element(case in cases(), chunk_words in 1..200usize) {
        prop_assert_eq!(case.gathered(chunk_words * 8), case.expected());
    }

    #[test]
    fn transposed_matrices_of_any_size_are_copied_whole(
        rows in 1..70u64,
        cols in 1..70u64,
        batch in 1..3u64,
        flips in any::<(bool, bool)>(),
        bits in prop::sample::select(&WIDTHS[..]),
        chunk_words in 1..600usize,
    ) {
        let sign = |flip: bool| if flip { -1 } else { 1 };
        let (down, along) = (sign(flips.0), sign(flips.1) * i64::try_from(rows).unwrap());
        let plane = i64::try_from(rows * cols + 3).unwrap();
        let case = Case::new(vec![batch, rows, cols], vec![plane, down, along], 1, bits);
        prop_assert_eq!(case.gathered(chunk_words * 8), case.expected());
    }
}

#[test]
fn every_element_width_works_on_every_copy_path() {
    for bits in WIDTHS {
        let case = |shape: &[u64], strides: &[i64], lead| {
            Case::new(shape.to_vec(), strides.to_vec(), lead, bits).check();
        };
        case(&[], &[], 3); // a scalar
        if cfg!(miri) {
            case(&[101], &[1], 1);
            case(&[9, 8], &[1, 9], 0);
            case(&[9, 8], &[-1, 10], 0);
            case(&[2, 3, 2, 2, 2, 1, 2, 3], &[1, 2, 6, 12, 24, 48, 48, 96], 1);
            continue;
        }
        case(&[5000], &[1], 0); // contiguous
        case(&[4999], &[1], 1); // contiguous, odd start and length
        case(&[0], &[1], 0); // empty
        case(&[3, 0, 5], &[7, 1, 1], 0); // empty, three dimensions
        case(&[40, 33], &[40, 1], 2); // contiguous rows
        case(&[900], &[3], 0); // every third
        case(&[900], &[-1], 0); // reversed
        case(&[7, 900], &[0, 1], 0); // repeated rows
        case(&[900, 7], &[1, 0], 0); // repeated elements
        case(&[100, 90], &[1, 100], 0); // transposed
        case(&[100, 90], &[-1, 101], 0); // transposed and flipped
        case(&[2, 3, 2, 3, 2, 3, 2, 3], &[1, 2, 6, 12, 36, 72, 216, 432], 1); // eight dimensions, reversed
        case(&[2, 3, 2, 3, 2, 3, 2, 3], &[648, 216, 108, 36, 18, 6, 3, 1], 0); // eight, contiguous
    }
}

#[test]
fn a_last_odd_nibble_is_followed_by_zero() {
    let buffer = [0xf1, 0xf2];
    let layout = Layout::new(&[3], &[1], 0, 4).unwrap();
    let mut room = [MaybeUninit::uninit(); 2];
    assert_eq!(Gather::of_slice(&buffer, &layout).unwrap().next_into(&mut room), [0xf1, 0x02]);
    let layout = Layout::new(&[3], &[1], 1, 4).unwrap();
    assert_eq!(Gather::of_slice(&buffer, &layout).unwrap().next_into(&mut room), [0x2f, 0x0f]);
}

#[test]
fn a_view_that_extends_past_its_buffer_is_rejected_before_any_read() {
    let layout = Layout::new(&[4], &[1], 1, 32).unwrap();
    let refused = GeometryError::PastBuffer { needed_bytes: 20, buffer_bytes: 19 };
    assert_eq!(Gather::of_slice(&[0; 19], &layout).unwrap_err(), GatherError::Geometry(refused));
    assert!(Gather::of_slice(&[0; 20], &layout).is_ok());
}

#[test]
fn content_larger_than_the_maximum_payload_is_rejected() {
    let layout = Layout::new(&[1 << 61], &[0], 0, 64).unwrap();
    let refused = GatherError::TooLarge { numel: 1 << 61, elem_bits: 64 };
    assert_eq!(Gather::of_slice(&[0; 8], &layout).unwrap_err(), refused);
    let largest = Layout::new(&[1 << 60], &[0], 0, 64).unwrap();
    assert_eq!(Gather::of_slice(&[0; 8], &largest).unwrap().left_bytes(), 1 << 63);
}

#[test]
fn a_window_has_whole_leaves_and_more_for_transposed_views() {
    let window = |case: &Case| Gather::of_slice(&case.buffer, &case.layout()).unwrap().window();
    assert_eq!(window(&Case::new(vec![1000], vec![1], 0, 32)), LEAF_BYTES);
    assert_eq!(window(&Case::new(vec![1000], vec![2], 0, 4)), LEAF_BYTES);
    assert_eq!(window(&Case::new(vec![64, 100], vec![1, 64], 0, 32)), 2 * LEAF_BYTES);
    assert_eq!(window(&Case::new(vec![16, 2100], vec![1, 16], 0, 64)), LARGEST_WINDOW);
}

#[test]
#[should_panic(expected = "ends inside an element")]
fn a_chunk_that_ends_inside_an_element_panics() {
    let layout = Layout::contiguous(&[4], 32).unwrap();
    Gather::of_slice(&[0; 16], &layout).unwrap().next_into(&mut [MaybeUninit::uninit(); 6]);
}
