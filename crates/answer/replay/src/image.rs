//! The memory of a batch of tasks: prepared by the host, and compared after the launch.

use std::ops::Range;

use tensortap_abi::{DeviceRange, DumpStage};
use tensortap_format::Argument;
use tensortap_geometry::Layout;
use tensortap_runtime::Overrun;
use tensortap_values::content_hash;

use crate::ReplayError;
use crate::capture::{Blob, Content, hash_mismatch};
use crate::item::Item;
use crate::spans::{Span, View};
use crate::strided::{gather, scatter};

/// Size of the guard after each span, which no kernel may write; a multiple of a span's alignment.
pub const GUARD_BYTES: u64 = 64;

/// The spans of some tasks in sequence, each followed by a guard.
pub struct Image {
    /// Content of all spans and guards.
    pub bytes: Vec<u8>,
    /// Offset of each span, by task.
    offsets: Vec<Vec<usize>>,
}

/// Why a task's arguments could not be prepared.
pub enum FillError {
    /// Its content is inconsistent.
    Refused(String),
    /// Its content could not be read.
    Read(ReplayError),
}

impl Image {
    /// Allocates memory for the tasks, filled with a pattern that differs by position and round, so that
    /// reads of uninitialized memory change the result. Reuses the memory of `bytes`. `None` if memory runs
    /// out.
    pub fn new<'i, 's: 'i>(
        items: impl Iterator<Item = &'i Item<'s>>,
        round: u32,
        mut bytes: Vec<u8>,
    ) -> Option<Image> {
        let mut next = 0_usize;
        let mut offsets = Vec::new();
        for item in items {
            let mut of_task = Vec::with_capacity(item.spans.spans.len());
            for span in &item.spans.spans {
                of_task.push(next);
                next = next.checked_add(usize::try_from(span.bytes.checked_add(GUARD_BYTES)?).ok()?)?;
            }
            offsets.push(of_task);
        }
        bytes.try_reserve_exact(next.saturating_sub(bytes.len())).ok()?;
        bytes.resize(next, 0);
        poison(&mut bytes, round);
        Some(Image { bytes, offsets })
    }

    /// Offset of a span in the image.
    pub fn offset(&self, task: usize, span: usize) -> usize {
        self.offsets[task][span]
    }

    /// Range of a span in the image.
    pub fn range(&self, task: usize, index: usize, span: &Span) -> Range<usize> {
        let at = self.offsets[task][index];
        at..at + usize::try_from(span.bytes).expect("the image holds it")
    }

    /// Copies the inputs of a task into the image.
    pub fn fill(&mut self, task: usize, item: &Item<'_>, packed: &mut Vec<u8>) -> Result<(), FillError> {
        for (tensor, view) in item.tensors.iter().zip(&item.spans.views).filter(|(t, _)| t.role.reads()) {
            self.put(task, item, *tensor, view, packed)?;
        }
        if item.spans.any_shared() {
            self.check_shared(task, item, packed)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        task: usize,
        item: &Item<'_>,
        tensor: Argument<'_>,
        view: &View,
        packed: &mut Vec<u8>,
    ) -> Result<(), FillError> {
        let Some(index) = view.span else { return Ok(()) };
        input(item, tensor, &view.layout, packed)?;
        let (spans, origin) = (&item.spans.spans, view.origin(&item.spans.spans));
        let range = self.range(task, index, &spans[index]);
        scatter(&view.layout, origin, packed, &mut self.bytes[range]);
        Ok(())
    }

    /// Overlapping inputs were captured at the same time, so their common bytes must be equal.
    fn check_shared(&self, task: usize, item: &Item<'_>, packed: &mut Vec<u8>) -> Result<(), FillError> {
        let mut there = Vec::new();
        for (tensor, view) in item.tensors.iter().zip(&item.spans.views).filter(|(t, _)| t.role.reads()) {
            let Some(index) = view.span else { continue };
            input(item, *tensor, &view.layout, packed)?;
            self.gather(&self.bytes, task, item, index, view, &mut there);
            if *packed != there && item.args[usize::from(tensor.arg_index)].grade == crate::Grade::Exact {
                let why = format!(
                    "argument {} overlaps another argument, and their captured bytes differ",
                    tensor.arg_index
                );
                return Err(FillError::Refused(why));
            }
        }
        Ok(())
    }

    /// Range of a span and its guard in the image.
    pub fn guarded_range(&self, task: usize, index: usize, span: &Span) -> Range<usize> {
        let range = self.range(task, index, span);
        range.start..range.end + usize::try_from(GUARD_BYTES).expect("small")
    }

    /// Describes a write outside of the task's outputs, if there was one. `after` is the memory after the
    /// launch. `guarded` says for each span whether device memory included its guard.
    pub fn stray_write(
        &self,
        after: &[u8],
        task: usize,
        item: &Item<'_>,
        guarded: &[bool],
    ) -> Option<String> {
        for (index, span) in item.spans.spans.iter().enumerate() {
            let range = match guarded[index] {
                true => self.guarded_range(task, index, span),
                false => self.range(task, index, span),
            };
            let (before, after) = (&self.bytes[range.clone()], &after[range]);
            if before == after {
                continue;
            }
            // Restore the outputs: everything else must be unchanged.
            let mut rest = after.to_vec();
            let mut packed = Vec::new();
            for (_, view) in item
                .tensors
                .iter()
                .zip(&item.spans.views)
                .filter(|(t, v)| t.role.writes() && v.span == Some(index))
            {
                let origin = view.origin(&item.spans.spans);
                gather(&view.layout, origin, before, &mut packed);
                scatter(&view.layout, origin, &packed, &mut rest);
            }
            let changed = before.iter().zip(&rest).filter(|(a, b)| a != b).count();
            if let Some(first) = before.iter().zip(&rest).position(|(a, b)| a != b) {
                let address = span.start + first as u64;
                let near = nearest(item, address).map_or_else(String::new, |near| format!(", {near}"));
                return Some(format!(
                    "it wrote {changed} bytes outside of its outputs, the first at captured address {address:#x}{near}"
                ));
            }
        }
        None
    }

    /// Copies the content of a view from the image or from the memory after the launch.
    pub fn gather(
        &self,
        bytes: &[u8],
        task: usize,
        item: &Item<'_>,
        index: usize,
        view: &View,
        packed: &mut Vec<u8>,
    ) {
        let spans = &item.spans.spans;
        gather(&view.layout, view.origin(spans), &bytes[self.range(task, index, &spans[index])], packed);
    }
}

/// The argument next to a captured address.
fn nearest(item: &Item<'_>, address: u64) -> Option<Overrun> {
    let range = |view: &View| {
        let bytes = view.layout.byte_range();
        let addr = view.address.wrapping_add(bytes.start);
        DeviceRange { addr, bytes: bytes.end - bytes.start }
    };
    let views = item.spans.views.iter().enumerate().filter(|(_, view)| view.span.is_some());
    Overrun::nearest(address, views.map(|(index, view)| (index, range(view))))
}

/// Complete content of an argument that the task reads.
fn input(
    item: &Item<'_>,
    tensor: Argument<'_>,
    layout: &Layout,
    packed: &mut Vec<u8>,
) -> Result<(), FillError> {
    let whole = tensor.content_bytes().and_then(|bytes| usize::try_from(bytes).ok());
    let whole =
        whole.ok_or_else(|| FillError::Refused(format!("argument {} is too large", tensor.arg_index)))?;
    if let Some(set) = item.set.iter().find(|set| set.arg_index == tensor.arg_index) {
        fill_with(packed, layout, set.bits, whole);
        return Ok(());
    }
    match item.content(tensor, DumpStage::BeforeDispatch) {
        Content::Whole(blob) | Content::Noise(blob) => read(item, tensor, &blob, packed)?,
        Content::Part(blob) => {
            read(item, tensor, &blob, packed)?;
            packed.resize(whole, 0);
        }
        Content::Missing(_) => {
            packed.clear();
            packed.resize(whole, 0);
        }
    }
    if packed.len() == whole {
        return Ok(());
    }
    let (arg_index, have) = (tensor.arg_index, packed.len());
    Err(FillError::Refused(format!("argument {arg_index}: only {have} of {whole} bytes are stored")))
}

/// Reads a blob and checks its captured hash.
pub fn read(
    item: &Item<'_>,
    tensor: Argument<'_>,
    blob: &Blob,
    packed: &mut Vec<u8>,
) -> Result<(), FillError> {
    item.capture.read(blob, packed).map_err(FillError::Read)?;
    if blob.hash.is_some_and(|hash| content_hash(packed) != hash) {
        return Err(FillError::Refused(format!(
            "argument {}: {}",
            tensor.arg_index,
            hash_mismatch(&item.capture.name())
        )));
    }
    Ok(())
}

fn fill_with(packed: &mut Vec<u8>, layout: &Layout, bits: u64, whole: usize) {
    packed.clear();
    let width = layout.elem_bits();
    if width == 4 {
        let nibble = bits.to_le_bytes()[0] & 0xf;
        packed.resize(whole, nibble << 4 | nibble);
        if layout.numel() % 2 == 1
            && let Some(last) = packed.last_mut()
        {
            *last &= 0xf;
        }
        return;
    }
    let element = &bits.to_le_bytes()[..width as usize / 8];
    while packed.len() < whole {
        packed.extend_from_slice(element);
    }
}

fn poison(bytes: &mut [u8], round: u32) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(round) + 1);
    for chunk in bytes.chunks_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        chunk.copy_from_slice(&(state >> 7 | 1).to_le_bytes()[..chunk.len()]);
    }
}
