//! Which bytes of device memory a task touches, and where they can be placed in a replay.

use tensortap_abi::{DType, DeviceRange, MAX_DIMS, TENSOR_DTYPE_UNKNOWN, TensorDesc};
use tensortap_format::Argument;
use tensortap_geometry::Layout;

use crate::capture::layout;

/// Alignment of spans. A relocated span keeps the alignment of everything in it.
pub const ALIGN: u64 = 64;

/// A contiguous range of device memory at its captured address. Overlapping views share a span, so they keep
/// their relative positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte, a multiple of [`ALIGN`].
    pub start: u64,
    /// Size, a multiple of [`ALIGN`].
    pub bytes: u64,
}

/// A tensor argument and its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Shape, strides and start.
    pub layout: Layout,
    /// Index in [`TaskSpans::spans`]; `None` for a view without elements.
    pub span: Option<usize>,
    /// Captured address of the buffer.
    pub address: u64,
    /// Whether its element type is known.
    pub dtype_known: bool,
}

/// All memory that a task touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpans {
    /// Spans in address order, without overlap.
    pub spans: Vec<Span>,
    /// Tensor arguments, by `arg_index`.
    pub views: Vec<View>,
}

impl TaskSpans {
    /// Computes the spans of a task. The error names an invalid descriptor.
    pub fn of(tensors: &[Argument<'_>]) -> Result<TaskSpans, String> {
        let mut views = Vec::with_capacity(tensors.len());
        let mut ranges = Vec::new();
        for tensor in tensors {
            let bad = |why: &dyn std::fmt::Display| format!("argument {}: {why}", tensor.arg_index);
            let layout = layout(*tensor).map_err(|error| bad(&error))?;
            let range =
                touched(&layout, tensor.address).ok_or_else(|| bad(&"it exceeds the address space"))?;
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

    /// Total size of the spans in bytes; `None` if it exceeds 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        self.spans.iter().try_fold(0_u64, |sum, span| sum.checked_add(span.bytes))
    }

    /// Whether two arguments share a span. Their captured content must then agree.
    pub fn any_shared(&self) -> bool {
        let mut used: Vec<usize> = self.views.iter().filter_map(|v| v.span).collect();
        used.sort_unstable();
        used.windows(2).any(|pair| pair[0] == pair[1])
    }
}

impl View {
    /// Start of the view's buffer relative to the first byte of its span. Wraps around if it is lower.
    pub fn origin(&self, spans: &[Span]) -> u64 {
        self.span.map_or(0, |span| self.address.wrapping_sub(spans[span].start))
    }

    /// The descriptor for a span at `address` in device memory. The start offset stays as captured, unless
    /// the buffer would then start outside of device memory.
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

/// The cache lines from the first to the last byte of a view. The outer `None` means that it exceeds the
/// address space.
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
    use crate::capture::testing::TestCapture;

    /// Address, start offset, shape and strides of a tensor of floats.
    type Tensor<'t> = (u64, u64, &'t [u64], &'t [i64]);

    fn task(tensors: &[Tensor<'_>]) -> TestCapture {
        let mut made = TestCapture::default();
        for &(address, start_offset, shape, strides) in tensors {
            made.tensor(Role::Input, address, start_offset, shape, strides);
        }
        made.done()
    }

    fn spans_of(made: &TestCapture) -> Result<TaskSpans, String> {
        TaskSpans::of(&made.tasks().at(0).arguments().collect::<Vec<_>>())
    }

    #[test]
    fn views_on_one_line_share_a_span() {
        let spans = spans_of(&task(&[
            (0x1000, 0, &[8], &[1]),
            (0x1020, 0, &[4], &[1]),
            (0x1040, 0, &[16], &[1]),
            (0x1000, 4, &[0], &[1]),
            (0x1000, 20, &[3], &[-8]),
        ]))
        .unwrap();
        // The reversed view covers elements 20 down to 4.
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
    fn a_relocated_descriptor_addresses_the_same_bytes_even_if_its_buffer_starts_outside() {
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
        // At the captured address nothing changes.
        let memory = DeviceRange { addr: 0x2000_0000_0000, bytes: 1 << 40 };
        let desc = spans.views[0].descriptor(DType::Float32, &spans.spans, span.start, memory);
        assert_eq!((desc.buffer_addr, desc.start_offset), (address, start_offset));
    }

    #[test]
    fn refuses_a_view_that_exceeds_the_address_space() {
        let error = spans_of(&task(&[(u64::MAX - 8, 0, &[8], &[1])])).unwrap_err();
        assert!(error.starts_with("argument 0: "), "{error}");
        let error = spans_of(&task(&[(0, 0, &[8], &[-1])])).unwrap_err();
        assert!(error.starts_with("argument 0: "), "{error}");
    }
}
