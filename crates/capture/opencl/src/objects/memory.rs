//! Memory objects and their bytes.

use std::{
    collections::hash_map::Entry,
    sync::{Mutex, PoisonError},
};

use tensortap_queue::{Memory, Range};
use tensortap_record::DType;

use super::{Key, key};
use crate::{
    ffi::{self, Bits, Handle},
    layer::Layer,
};

/// The bytes of a memory object: a whole buffer or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The buffer that owns the memory.
    pub root: RootBuffer,
    /// The memory of that buffer.
    pub memory: Memory,
    /// Offset in that memory in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// A buffer that owns memory: it is no part of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootBuffer(pub Handle);

// SAFETY: any thread may use the handle.
unsafe impl Send for RootBuffer {}

impl Region {
    /// Some of its bytes. None if they are not all inside.
    pub fn part(&self, at: u64, size: u64, dtype: Option<DType>) -> Option<Range> {
        let fits = at.checked_add(size).is_some_and(|end| end <= self.bytes);
        let place = (self.memory.address, self.memory.bytes);
        fits.then(|| Range { space: self.memory.space, ..Range::dense(place, self.offset + at, size, dtype) })
    }

    /// All its bytes.
    pub fn whole(&self, dtype: Option<DType>) -> Range {
        self.part(0, self.bytes, dtype).expect("a region contains all its own bytes")
    }

    /// A box of its bytes. `origin` and `size` are in bytes, rows and slices. A pitch of 0 means no padding.
    pub fn boxed(&self, origin: [u64; 3], size: [u64; 3], pitch: [u64; 2]) -> Option<Range> {
        let row = if pitch[0] == 0 { size[0] } else { pitch[0] };
        let slice = if pitch[1] == 0 { row.checked_mul(size[1])? } else { pitch[1] };
        let at = |by: [u64; 3]| {
            let rows = by[1].checked_mul(row)?;
            by[2].checked_mul(slice)?.checked_add(rows)?.checked_add(by[0])
        };
        let (first, last) = (at(origin)?, at([size[0], size[1].checked_sub(1)?, size[2].checked_sub(1)?])?);
        if first.checked_add(last)? > self.bytes {
            return None;
        }
        let place = (self.memory.address, self.memory.bytes);
        let range = Range::boxed(place, self.offset + first, size, [row, slice]);
        Some(Range { space: self.memory.space, ..range })
    }
}

/// References to the program's memory objects by commands of the layer, until those commands are done.
#[derive(Debug, Default)]
pub struct LayerReferences(Mutex<Vec<Key>>);

impl LayerReferences {
    /// Adds one reference to each object.
    pub fn new(layer: &Layer, objects: impl IntoIterator<Item = Handle>) -> LayerReferences {
        let keys: Vec<Key> = objects.into_iter().map(key).collect();
        let mut objects = layer.objects();
        keys.iter().for_each(|&mem| *objects.layer_references.entry(mem).or_default() += 1);
        drop(objects);
        LayerReferences(Mutex::new(keys))
    }

    /// The commands are done. Later calls do nothing.
    pub fn drop_all(&self) {
        let keys = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if keys.is_empty() {
            return;
        }
        let mut objects = Layer::get().objects();
        for mem in keys {
            if let Entry::Occupied(mut count) = objects.layer_references.entry(mem) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

impl Drop for LayerReferences {
    fn drop(&mut self) {
        self.drop_all();
    }
}

/// A mapping of the program.
#[derive(Clone, Copy, Debug)]
pub struct HostMapping {
    /// The flags of the map call.
    pub flags: Bits,
    /// Offset and size in its memory object. None if its bytes are not known.
    pub part: Option<(u64, u64)>,
}

impl HostMapping {
    /// Whether the program may write through it.
    pub fn is_written(&self) -> bool {
        self.flags & (ffi::MAP_WRITE | ffi::MAP_WRITE_INVALIDATE) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_record::MemorySpace;

    fn region() -> Region {
        let memory = Memory { address: 1 << 20, bytes: 1000, space: MemorySpace::Device };
        Region { root: RootBuffer(std::ptr::null_mut()), memory, offset: 100, bytes: 800 }
    }

    #[test]
    fn a_part_beyond_the_end_of_its_object_is_none() {
        let region = region();
        assert!(region.part(0, 800, None).is_some() && region.part(800, 0, None).is_some());
        assert!(region.part(1, 800, None).is_none() && region.part(u64::MAX, 2, None).is_none());
        let part = region.part(4, 8, Some(DType::Float32)).unwrap();
        assert_eq!((part.start, part.shape[0], part.dtype), (26, 2, Some(DType::Float32)));
        let odd = region.part(3, 8, Some(DType::Float32)).unwrap();
        assert_eq!(
            (odd.start, odd.shape[0], odd.dtype),
            (103, 8, None),
            "the offset is no whole number of elements"
        );
    }

    #[test]
    fn a_box_has_the_strides_of_its_rows_and_slices() {
        let region = region();
        let range = region.boxed([2, 1, 0], [4, 3, 2], [10, 50]).unwrap();
        assert_eq!((range.start, range.shape, range.strides), (112, [2, 3, 4], [50, 10, 1]));
        assert!(region.boxed([0, 0, 15], [4, 3, 2], [10, 50]).is_none(), "its last slice is outside");
        let tight = region.boxed([0, 0, 0], [4, 3, 2], [0, 0]).unwrap();
        assert_eq!(tight.strides, [12, 4, 1]);
        assert!(region.boxed([0, 0, 0], [4, 0, 1], [0, 0]).is_none());
    }
}
