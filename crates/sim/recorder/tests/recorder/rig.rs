//! Device memory on the heap: a dump region, followed by tensors.

use std::alloc::{Layout as Allocation, alloc, dealloc};
use std::cell::Cell;

use tensortap_abi::{
    DType, DeviceRange, DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy, DumpStage, Role,
    TensorDesc,
};
use tensortap_recorder::{
    Memory, Region, RegionError, SetupOptions, TensorCapture, TensorDetails, setup_bytes,
};
use tensortap_sync::{SharedU32, SharedU64};

pub const RUN_ID: u64 = 0x51_7e;

/// Memory that is deliberately filled with a byte that no test expects.
pub struct Rig {
    base: *mut u8,
    allocation: Allocation,
    pub geometry: DumpGeometry,
    heap_used: Cell<u64>,
    seed: Cell<u64>,
}

// SAFETY: only the test's own thread uses the heap cursor and the seed; the memory is accessed according to
// the protocol.
unsafe impl Sync for Rig {}

impl Rig {
    pub fn new(geometry: DumpGeometry) -> Rig {
        const HEAP_BYTES: u64 = 1 << 20;
        let bytes = usize::try_from(geometry.bytes() + HEAP_BYTES).unwrap();
        let allocation = Allocation::from_size_align(bytes, 4096).unwrap();
        // SAFETY: the size is not zero.
        let base = unsafe { alloc(allocation) };
        assert!(!base.is_null());
        // SAFETY: just allocated.
        unsafe { base.write_bytes(0xa5, bytes) };
        let rig =
            Rig { base, allocation, geometry, heap_used: Cell::new(geometry.bytes()), seed: Cell::new(1) };
        rig.base.expose_provenance();
        rig
    }

    /// Options of a run over this memory.
    pub fn options(&self, level: DumpLevel, policy: DumpPolicy) -> SetupOptions {
        SetupOptions {
            base: self.addr(0),
            run_id: RUN_ID,
            level,
            policy,
            collect: DumpCollect::Live,
            liveness_ms: 1000,
            filter: DumpFilter::ALL,
            of_process: false,
        }
    }

    /// A fresh region, opened.
    pub fn open(&self, options: &SetupOptions) -> Region<'_> {
        self.write_setup(options);
        self.reopen(self.addr(0)).unwrap()
    }

    pub fn write_setup(&self, options: &SetupOptions) {
        setup_bytes(self.geometry, options).unwrap().write(|offset, bytes| self.write(offset, bytes));
    }

    /// Opens the memory at an address as a region.
    pub fn reopen(&self, addr: u64) -> Result<Region<'_>, RegionError> {
        // SAFETY: the memory lives as long as the rig; a test uses one region at a time.
        Region::open(unsafe { Memory::new(self.range()) }, addr)
    }

    pub fn range(&self) -> DeviceRange {
        DeviceRange { addr: self.addr(0), bytes: self.allocation.size() as u64 }
    }

    pub fn addr(&self, offset: u64) -> u64 {
        self.base.addr() as u64 + offset
    }

    #[expect(
        clippy::cast_ptr_alignment,
        reason = "the memory begins at a page, and words are at multiples of 8"
    )]
    pub fn word(&self, offset: u64) -> &SharedU64 {
        // SAFETY: in bounds and aligned; both sides access shared words through atomics.
        unsafe { &*self.at(offset, 8).cast::<SharedU64>() }
    }

    #[expect(clippy::cast_ptr_alignment, reason = "as for words, at multiples of 4")]
    pub fn half_word(&self, offset: u64) -> &SharedU32 {
        // SAFETY: as above.
        unsafe { &*self.at(offset, 4).cast::<SharedU32>() }
    }

    pub fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let mut copy = vec![0; usize::try_from(bytes).unwrap()];
        // SAFETY: in bounds; the caller has seen these bytes committed.
        unsafe { self.at(offset, bytes).copy_to_nonoverlapping(copy.as_mut_ptr(), copy.len()) };
        copy
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len() as u64);
        // SAFETY: in bounds; no other thread uses these bytes at the moment.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn at(&self, offset: u64, bytes: u64) -> *mut u8 {
        assert!(offset + bytes <= self.allocation.size() as u64);
        self.base.wrapping_add(usize::try_from(offset).unwrap())
    }

    /// A buffer with unique content.
    fn buffer(&self, bytes: u64) -> u64 {
        let offset = self.heap_used.get().next_multiple_of(64);
        self.heap_used.set(offset + bytes);
        let mut state = self.seed.get();
        let content: Vec<u8> = (0..bytes)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state.to_be_bytes()[0]
            })
            .collect();
        self.seed.set(state);
        self.write(offset, &content);
        offset
    }

    /// A contiguous tensor of bytes.
    pub fn tensor(&self, bytes: u64) -> TensorDesc {
        self.view(DType::UInt8, &[bytes], &[1], 0, bytes)
    }

    /// A view of a new buffer.
    pub fn view(
        &self,
        dtype: DType,
        shape: &[u64],
        strides: &[i64],
        start: u64,
        buffer_bytes: u64,
    ) -> TensorDesc {
        let mut desc = TensorDesc {
            buffer_addr: self.addr(self.buffer(buffer_bytes)),
            buffer_bytes,
            start_offset: start,
            dtype: dtype.tag(),
            ndims: u8::try_from(shape.len()).unwrap(),
            ..TensorDesc::default()
        };
        desc.shape[..shape.len()].copy_from_slice(shape);
        desc.strides[..strides.len()].copy_from_slice(strides);
        desc
    }

    /// Makes room for further tensors. Earlier ones must not be used again.
    pub fn forget_tensors(&self) {
        self.heap_used.set(self.geometry.bytes());
    }

    /// The logical content of a view, element by element.
    pub fn content(&self, desc: &TensorDesc) -> Vec<u8> {
        let buffer = self.read(desc.buffer_addr - self.addr(0), desc.buffer_bytes);
        let bits = desc.dtype().unwrap().bits() as usize;
        let numel: u64 = desc.dims().iter().product();
        let mut nibbles = Vec::new();
        for index in 0..numel {
            let mut rest = index;
            let mut element = i64::try_from(desc.start_offset).unwrap();
            for (&size, &stride) in desc.dims().iter().zip(desc.dim_strides()).rev() {
                element += i64::try_from(rest % size).unwrap() * stride;
                rest /= size;
            }
            let first = usize::try_from(element).unwrap() * bits / 4;
            nibbles.extend((first..first + bits / 4).map(|at| buffer[at / 2] >> (at % 2 * 4) & 0xf));
        }
        nibbles.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4).collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.allocation) };
    }
}

/// The first argument of a task, captured before its dispatch.
pub fn input(task_id: u64, desc: &TensorDesc) -> TensorCapture<'_> {
    TensorCapture {
        task_id,
        stage: DumpStage::BeforeDispatch,
        role: Role::Input,
        arg_index: 0,
        desc,
        marked: false,
        in_flight: false,
        details: TensorDetails::default(),
    }
}

pub const SMALL: DumpGeometry = DumpGeometry { lanes: 1, buffers: 3, records: 4, arena_bytes: 8192 };
