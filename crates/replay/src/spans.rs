//! Which bytes of device memory a task touches, and where they may lie in a replay.

use tensortap_abi::{DType, DeviceRange, MAX_DIMS, TENSOR_DTYPE_UNKNOWN, TensorDesc};
use tensortap_format::Argument;
use tensortap_geometry::Layout;

use crate::capture::layout;

/// Spans start and end at multiples of this, so a span that moves keeps the alignment of everything in it.
pub const ALIGN: u64 = 64;

/// Neighbouring bytes of device memory, at their captured address. Views that overlap share one, and so keep their
/// places relative to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte, a multiple of [`ALIGN`].
    pub start: u64,
    /// Size, a multiple of [`ALIGN`].
    pub bytes: u64,
}

/// A tensor argument and the span it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Shape, strides and start.
    pub layout: Layout,
    /// Position in [`TaskSpans::spans`]; `None` for a view of no element.
    pub span: Option<usize>,
    /// Captured address of the buffer.
    pub address: u64,
    /// Whether what its elements are is known.
    pub dtype_known: bool,
}

/// All that a task touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpans {
    /// Spans in the order of their addresses, none touching the same byte.
    pub spans: Vec<Span>,
    /// Tensor arguments, by `arg_index`.
    pub views: Vec<View>,
}

impl TaskSpans {
    /// The bytes of a task whose descriptors are all there. The error says which of them makes no sense.
    pub fn of(tensors: &[Argument<'_>]) -> Result<TaskSpans, String> {
        let mut views = Vec::with_capacity(tensors.len());
        let mut ranges = Vec::new();
        for tensor in tensors {
            let bad = |why: &dyn std::fmt::Display| format!("argument {}: {why}", tensor.arg_index);
            let layout = layout(*tensor).map_err(|error| bad(&error))?;
            let range =
                touched(&layout, tensor.address).ok_or_else(|| bad(&"it leaves the address space"))?;
            let (address, dtype_known) = (tensor.address, tensor.dtype_known);
            views.push(View { layout, span: None, address, dtype_known });
            ranges.push(range);
        }
        let spans = merged(ranges.iter().flatten().copied().collect());
        for (view, range) in views.iter_mut().zip(&ranges) {
            view.span = range.and_then(|range| spans.iter().position(|s| range.start < s.start + s.bytes));
        }
        Ok(TaskSpans { spans, views })
    }

    /// Bytes of all spans; `None` when that exceeds 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.bytes))
    }

    /// Whether two arguments share a span: their captured contents must agree.
    pub fn any_shared(&self) -> bool {
        let mut used: Vec<usize> = self.views.iter().filter_map(|v| v.span).collect();
        used.sort_unstable();
        used.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl View {
    /// Where the view's buffer starts, counted from the first byte of its span; may wrap below it.
    pub fn origin(&self, spans: &[Span]) -> u64 {
        self.span.map_or(0, |span| self.address.wrapping_sub(spans[span].start))
    }

    /// The descriptor when the view's span lies at `address` of a device's memory. The start offset stays as captured
    /// unless the buffer's first byte would then lie outside of device memory.
    pub fn descriptor(&self, dtype: DType, spans: &[Span], address: u64, memory: DeviceRange) -> TensorDesc {
        let delta = self.span.map_or(0, |span| address.wrapping_sub(spans[span].start));
        let moved = self.address.wrapping_add(delta);
        let inside = self.span.is_none() || (memory.addr..memory.end()).contains(&moved);
        let skipped =
            if inside { 0 } else { self.layout.element_range().map_or(0, |(lowest, _)| lowest & !1) };
        let skipped_bytes = skipped * u64::from(self.layout.elem_bits()) / 8;
        let mut desc = TensorDesc {
            buffer_addr: moved.wrapping_add(skipped_bytes),
            buffer_bytes: self.layout.byte_range().end - skipped_bytes,
            start_offset: self.layout.start_offset() - skipped,
            owner_task: TensorDesc::NO_OWNER,
            dtype: dtype.tag(),
            flags: if self.dtype_known { 0 } else { TENSOR_DTYPE_UNKNOWN },
            ndims: u8::try_from(self.layout.ndims().min(MAX_DIMS)).expect("at most 8"),
            ..TensorDesc::default()
        };
        desc.shape[..self.layout.ndims()].copy_from_slice(self.layout.shape());
        desc.strides[..self.layout.ndims()].copy_from_slice(self.layout.strides());
        desc
    }
}

/// Whole lines that a view touches, from its first to its last byte. `None` outside: it leaves the address space.
fn touched(layout: &Layout, address: u64) -> Option<Option<Span>> {
    let range = layout.byte_range();
    if range.is_empty() {
        return Some(None);
    }
    let start = address.checked_add(range.start)?;
    let end = address.checked_add(range.end)?.checked_next_multiple_of(ALIGN)?;
    let start = start - start % ALIGN;
    Some(Some(Span { start, bytes: end - start }))
}

fn merged(mut ranges: Vec<Span>) -> Vec<Span> {
    ranges.sort_unstable_by_key(|span| span.start);
    let mut spans: Vec<Span> = Vec::new();
    for range in ranges {
        match spans.last_mut() {
            Some(last) if range.start < last.start + last.bytes => {
                last.bytes = last.bytes.max(range.start + range.bytes - last.start);
            }
            _ => spans.push(range),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use tensortap_abi::Role;

    use super::*;
    use crate::capture::Capture;
    use crate::capture::testing::Made;

    /// Address, first element, shape and strides of a view of floats.
    type Tensor<'t> = (u64, u64, &'t [u64], &'t [i64]);

    fn task(tensors: &[Tensor<'_>]) -> Made {
        let mut made = Made::default();
        for &(address, start_offset, shape, strides) in tensors {
            made.tensor(Role::Input, address, start_offset, shape, strides);
        }
        made.done()
    }

    fn spans_of(made: &Made) -> Result<TaskSpans, String> {
        TaskSpans::of(&made.tasks().at(0).arguments().collect::<Vec<_>>())
    }

    #[test]
    fn views_of_one_line_share_a_span_and_views_apart_do_not() {
        let spans = spans_of(&task(&[
            (0x1000, 0, &[8], &[1]),
            (0x1020, 0, &[4], &[1]),
            (0x1040, 0, &[16], &[1]),
            (0x1000, 4, &[0], &[1]),
            (0x1000, 20, &[3], &[-8]),
        ]))
        .unwrap();
        // The reversed view reaches back from element 20 to element 4.
        assert_eq!(spans.spans, [Span { start: 0x1000, bytes: 0x80 }]);
        assert_eq!(
            spans.views.iter().map(|v| v.span).collect::<Vec<_>>(),
            [Some(0), Some(0), Some(0), None, Some(0)]
        );
        assert!(spans.any_shared());
        let apart = spans_of(&task(&[(0x1004, 0, &[8], &[1]), (0x1040, 1 << 20, &[1], &[1])])).unwrap();
        assert_eq!(apart.spans, [Span { start: 0x1000, bytes: 64 }, Span { start: 0x40_1040, bytes: 64 }]);
        assert!(!apart.any_shared());
    }

    #[test]
    fn a_moved_descriptor_reaches_the_moved_bytes_also_when_its_buffer_would_start_outside() {
        let captured: Tensor<'_> = (0x2000_0000_0000, 1 << 20, &[4, 2], &[-3, 1]);
        let (address, start_offset, ..) = captured;
        let spans = spans_of(&task(&[captured])).unwrap();
        let memory = DeviceRange { addr: 0x2100_0000_0000, bytes: 1 << 16 };
        let moved_to = memory.addr + 128;
        let desc = spans.views[0].descriptor(DType::Float32, &spans.spans, moved_to, memory);
        assert!((memory.addr..memory.end()).contains(&desc.buffer_addr));
        let moved = Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, 32).unwrap();
        moved.fits(desc.buffer_bytes).unwrap();
        let span = spans.spans[0];
        for (before, after) in spans.views[0].layout.offsets().zip(moved.offsets()) {
            assert_eq!(address + before * 4 - span.start, desc.buffer_addr + after * 4 - moved_to);
        }
        // In place nothing changes.
        let memory = DeviceRange { addr: 0x2000_0000_0000, bytes: 1 << 40 };
        let desc = spans.views[0].descriptor(DType::Float32, &spans.spans, span.start, memory);
        assert_eq!((desc.buffer_addr, desc.start_offset), (address, start_offset));
    }

    #[test]
    fn a_view_that_leaves_the_address_space_is_refused_with_its_argument() {
        let error = spans_of(&task(&[(u64::MAX - 8, 0, &[8], &[1])])).unwrap_err();
        assert!(error.starts_with("argument 0: "), "{error}");
        let error = spans_of(&task(&[(0, 0, &[8], &[-1])])).unwrap_err();
        assert!(error.starts_with("argument 0: "), "{error}");
    }
}
