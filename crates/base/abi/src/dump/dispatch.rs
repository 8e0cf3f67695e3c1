//! The words of a dispatch record, in the arena and in the index: the final `args[]` and the memory that it
//! points to.
//!
//! A list of 64-bit words, for `t` tensors and `s` scalars:
//!
//! | words | content |
//! | --- | --- |
//! | `t` | tensor slots of `args[]`: addresses of descriptors |
//! | `s` | scalar slots of `args[]`: raw bits |
//! | 2 | slots 48 and 49 of `args[]`: addresses of the contexts |
//! | 2 | contents of these: [`BlockContext`], [`SubtaskContext`] |
//! | `s` / 8, rounded up | dtype tags of the scalars, a byte each, zero filled |
//! | per tensor | its descriptor: buffer address, buffer bytes, start offset, owner task, one packed word, sizes, strides |
//!
//! The packed word has the version (u32), the dtype and the number of dimensions (u8 each), and flags (u16). There are sizes
//! and strides of the dimensions in use.

use crate::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, MAX_DIMS, MAX_RECORD_ARGS, MAX_SCALARS, MAX_TENSORS,
    SUBTASK_CONTEXT_SLOT, SubtaskContext, TensorDesc,
};

/// Words of a descriptor before its shape and strides.
const DESC_HEAD_WORDS: usize = 5;
/// Addresses and content of the two contexts.
const CONTEXT_WORDS: usize = 4;

/// Maximum number of words for this many tensors (with the maximum number of dimensions) and scalars.
const fn most_words(tensors: usize, scalars: usize) -> usize {
    tensors + scalars + CONTEXT_WORDS + scalars.div_ceil(8) + tensors * (DESC_HEAD_WORDS + 2 * MAX_DIMS)
}

/// Maximum number of words of a scene's dispatch.
pub const MAX_SCENE_WORDS: usize = most_words(MAX_TENSORS, MAX_SCALARS);
/// Maximum number of words of a dispatch record.
pub const MAX_DISPATCH_WORDS: usize = most_words(MAX_RECORD_ARGS as usize, 0);

/// Builder for the words of one dispatch: slots and contexts first, then scalar dtypes, then descriptors in
/// order.
///
/// ```
/// use tensortap_abi::*;
///
/// let mut args = [0; ARG_SLOTS];
/// (args[0], args[1]) = (0x2000_0000_1000, 0x3f80_0000);
/// let (block, subtask) = (BlockContext { block_idx: 2, block_num: 4 }, SubtaskContext::default());
/// let mut words = DispatchWords::new(&args, 1, 1, block, subtask);
/// words.scalar_dtype(0, DType::Float32.tag());
/// words.tensor(&TensorDesc { buffer_addr: 0x2000_0000_2000, ndims: 1, ..TensorDesc::default() });
///
/// let parts = DispatchParts::read(words.words(), 1, 1).expect("whole");
/// assert_eq!((parts.slot(0), parts.scalar(0)), (0x2000_0000_1000, (0x3f80_0000, DType::Float32.tag())));
/// assert_eq!((parts.block(), parts.tensors().next().unwrap().buffer_addr), (block, 0x2000_0000_2000));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DispatchWords {
    words: [u64; MAX_SCENE_WORDS],
    len: usize,
    dtypes_at: usize,
}

impl DispatchWords {
    /// Starts with the used slots of `args[]` and the contents of its context slots.
    ///
    /// # Panics
    /// If there are more tensors or scalars than a payload holds.
    pub fn new(
        args: &[u64; ARG_SLOTS],
        tensor_count: usize,
        scalar_count: usize,
        block: BlockContext,
        subtask: SubtaskContext,
    ) -> DispatchWords {
        assert!(tensor_count <= MAX_TENSORS && scalar_count <= MAX_SCALARS, "more than a payload holds");
        let slots = tensor_count + scalar_count;
        let mut words = [0; MAX_SCENE_WORDS];
        words[..slots].copy_from_slice(&args[..slots]);
        words[slots..slots + CONTEXT_WORDS].copy_from_slice(&[
            args[BLOCK_CONTEXT_SLOT],
            args[SUBTASK_CONTEXT_SLOT],
            pair(block.block_idx, block.block_num),
            pair(subtask.subtask_id, subtask.subtask_count),
        ]);
        let dtypes_at = slots + CONTEXT_WORDS;
        DispatchWords { words, len: dtypes_at + scalar_count.div_ceil(8), dtypes_at }
    }

    /// Sets the dtype of a scalar.
    pub fn scalar_dtype(&mut self, index: usize, tag: u8) {
        self.words[self.dtypes_at + index / 8] |= u64::from(tag) << (index % 8 * 8);
    }

    /// Adds the descriptor of the next tensor. Dimensions beyond [`MAX_DIMS`] are cut off.
    ///
    /// # Panics
    /// If there are more tensors than a payload holds.
    pub fn tensor(&mut self, desc: &TensorDesc) {
        let &TensorDesc {
            buffer_addr, buffer_bytes, start_offset, owner_task, version, dtype, flags, ..
        } = desc;
        let (shape, strides) = (desc.dims(), desc.dim_strides());
        let ndims = shape.len() as u64;
        let kind = u64::from(version) | u64::from(dtype) << 32 | ndims << 40 | u64::from(flags) << 48;
        for word in [buffer_addr, buffer_bytes, start_offset, owner_task, kind]
            .into_iter()
            .chain(shape.iter().copied())
            .chain(strides.iter().map(|stride| stride.cast_unsigned()))
        {
            self.words[self.len] = word;
            self.len += 1;
        }
    }

    /// The words so far.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

/// Parsed words of one dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchParts<'w> {
    words: &'w [u64],
    tensor_count: usize,
    scalar_count: usize,
}

impl<'w> DispatchParts<'w> {
    /// Parses the words. Returns `None` if their number does not match the tensor and scalar counts.
    pub fn read(words: &'w [u64], tensor_count: u32, scalar_count: u32) -> Option<DispatchParts<'w>> {
        tensor_count.checked_add(scalar_count).filter(|&args| args <= MAX_RECORD_ARGS)?;
        let (tensor_count, scalar_count) = (tensor_count as usize, scalar_count as usize);
        let parts = DispatchParts { words, tensor_count, scalar_count };
        let mut rest = words.get(parts.descs_at()..)?;
        for _ in 0..tensor_count {
            rest = split_desc(rest)?.1;
        }
        rest.is_empty().then_some(parts)
    }

    /// Number of tensors.
    pub fn tensor_count(&self) -> usize {
        self.tensor_count
    }

    /// Number of scalars.
    pub fn scalar_count(&self) -> usize {
        self.scalar_count
    }

    /// A used slot of `args[]`: tensors, then scalars.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn slot(&self, arg_index: usize) -> u64 {
        self.words[..self.slots()][arg_index]
    }

    /// Raw bits and dtype tag of a scalar. `index` counts scalars from 0.
    ///
    /// # Panics
    /// If there is no such scalar.
    pub fn scalar(&self, index: usize) -> (u64, u8) {
        let tags = self.words[self.dtypes_at() + index / 8].to_le_bytes();
        (self.slot(self.tensor_count + index), tags[index % 8])
    }

    /// The addresses in slots 48 and 49.
    pub fn context_addrs(&self) -> [u64; 2] {
        [self.words[self.slots()], self.words[self.slots() + 1]]
    }

    /// The context that slot 48 points to.
    pub fn block(&self) -> BlockContext {
        let [block_idx, block_num] = halves(self.words[self.slots() + 2]);
        BlockContext { block_idx, block_num }
    }

    /// The context that slot 49 points to.
    pub fn subtask(&self) -> SubtaskContext {
        let [subtask_id, subtask_count] = halves(self.words[self.slots() + 3]);
        SubtaskContext { subtask_id, subtask_count }
    }

    /// The descriptors that the tensor slots point to, in order.
    pub fn tensors(&self) -> impl Iterator<Item = TensorDesc> + use<'w> {
        let mut rest = &self.words[self.descs_at()..];
        core::iter::from_fn(move || {
            let (desc, after) = split_desc(rest)?;
            rest = after;
            Some(desc)
        })
    }

    fn slots(&self) -> usize {
        self.tensor_count + self.scalar_count
    }

    fn dtypes_at(&self) -> usize {
        self.slots() + CONTEXT_WORDS
    }

    fn descs_at(&self) -> usize {
        self.dtypes_at() + self.scalar_count.div_ceil(8)
    }
}

/// The descriptor at the start of `words`, and the remaining words.
fn split_desc(words: &[u64]) -> Option<(TensorDesc, &[u64])> {
    let (head, rest) = words.split_first_chunk::<DESC_HEAD_WORDS>()?;
    let &[buffer_addr, buffer_bytes, start_offset, owner_task, kind] = head;
    let [v0, v1, v2, v3, dtype, ndims, f0, f1] = kind.to_le_bytes();
    let dims = usize::from(ndims);
    if dims > MAX_DIMS {
        return None;
    }
    let (shape, rest) = rest.split_at_checked(dims)?;
    let (strides, rest) = rest.split_at_checked(dims)?;
    let mut desc = TensorDesc {
        buffer_addr,
        buffer_bytes,
        start_offset,
        owner_task,
        version: u32::from_le_bytes([v0, v1, v2, v3]),
        dtype,
        ndims,
        flags: u16::from_le_bytes([f0, f1]),
        ..TensorDesc::default()
    };
    desc.shape[..dims].copy_from_slice(shape);
    desc.strides.iter_mut().zip(strides).for_each(|(to, from)| *to = from.cast_signed());
    Some((desc, rest))
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "each half is used separately")]
const fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desc(ndims: u8) -> TensorDesc {
        let mut desc = TensorDesc {
            buffer_addr: 0x2000_0000_0040,
            buffer_bytes: 1 << 20,
            start_offset: 17,
            owner_task: TensorDesc::NO_OWNER,
            version: 0xdead_beef,
            dtype: 200,
            ndims,
            flags: 0xabcd,
            ..TensorDesc::default()
        };
        for dim in 0..usize::from(ndims) {
            desc.shape[dim] = u64::MAX - dim as u64;
            desc.strides[dim] = i64::MIN + i64::try_from(dim).unwrap();
        }
        desc
    }

    fn gathered(tensors: usize, scalars: usize) -> DispatchWords {
        let args = core::array::from_fn(|slot| 0x1000 + slot as u64);
        let block = BlockContext { block_idx: 3, block_num: u32::MAX };
        let subtask = SubtaskContext { subtask_id: 2, subtask_count: 3 };
        let mut words = DispatchWords::new(&args, tensors, scalars, block, subtask);
        (0..scalars).for_each(|index| words.scalar_dtype(index, u8::try_from(index).unwrap() + 1));
        (0..tensors).for_each(|index| words.tensor(&desc(u8::try_from(index % 9).unwrap())));
        words
    }

    #[test]
    fn built_words_parse_to_the_same_parts() {
        for (tensors, scalars) in [(0, 0), (1, 0), (0, 1), (3, 8), (9, 9), (MAX_TENSORS, MAX_SCALARS)] {
            let words = gathered(tensors, scalars);
            let count = |args: usize| u32::try_from(args).unwrap();
            let parts = DispatchParts::read(words.words(), count(tensors), count(scalars)).unwrap();
            assert!((0..tensors + scalars).all(|slot| parts.slot(slot) == 0x1000 + slot as u64));
            assert!((0..scalars).all(|i| usize::from(parts.scalar(i).1) == i + 1));
            assert_eq!(parts.context_addrs(), [0x1030, 0x1031]);
            assert_eq!(parts.block(), BlockContext { block_idx: 3, block_num: u32::MAX });
            assert_eq!(parts.subtask(), SubtaskContext { subtask_id: 2, subtask_count: 3 });
            assert!(parts.tensors().eq((0..tensors).map(|i| desc(u8::try_from(i % 9).unwrap()))));
        }
    }

    #[test]
    fn words_with_a_wrong_length_or_count_are_rejected() {
        let words = gathered(3, 5);
        let words = words.words();
        for len in 0..words.len() {
            assert_eq!(DispatchParts::read(&words[..len], 3, 5), None, "{len}");
        }
        for (tensors, scalars) in [(2, 5), (17, 5), (3, 33), (u32::MAX, 0), (0, u32::MAX), (u32::MAX, 1)] {
            assert_eq!(DispatchParts::read(words, tensors, scalars), None, "{tensors} {scalars}");
        }
    }

    #[test]
    fn the_largest_payload_fits_and_excess_dimensions_are_cut_off() {
        let mut words =
            DispatchWords::new(&[0; ARG_SLOTS], 16, 32, BlockContext::default(), SubtaskContext::default());
        (0..16).for_each(|_| words.tensor(&TensorDesc { ndims: 200, ..desc(8) }));
        assert_eq!(words.words().len(), MAX_SCENE_WORDS);
        let parts = DispatchParts::read(words.words(), 16, 32).unwrap();
        assert!(parts.tensors().all(|tensor| tensor == desc(8)));
    }
}
