//! Simulated device memory for tests. It consists of atomic words, so that both sides may use it at once.

use std::{fs::File, os::fd::BorrowedFd, os::unix::fs::FileExt, sync::Arc};

use tensortap_abi::DeviceRange;
use tensortap_platform::PlatformError;
use tensortap_sync::{Counter, SharedU64};

use super::RegionMemory;

const WORDS: usize = 512;

/// Aligned as mapped memory is.
#[repr(C, align(4096))]
struct Page([SharedU64; WORDS]);

/// Clones share the same memory.
#[derive(Clone)]
pub(crate) struct TestMemory {
    shared: Arc<TestPages>,
}

struct TestPages {
    pages: Vec<Page>,
    mapped: bool,
    copies: Counter,
    wakes: Counter,
}

impl TestMemory {
    pub(crate) fn new(bytes: u64, mapped: bool) -> TestMemory {
        let pages = usize::try_from(bytes).unwrap().div_ceil(size_of::<Page>());
        let pages = (0..pages).map(|_| Page([const { SharedU64::new(0) }; WORDS])).collect();
        let (copies, wakes) = (Counter::new(), Counter::new());
        TestMemory { shared: Arc::new(TestPages { pages, mapped, copies, wakes }) }
    }

    /// Its range in this process.
    pub(crate) fn range(&self) -> DeviceRange {
        let addr = self.shared.pages.as_ptr().expose_provenance() as u64;
        DeviceRange { addr, bytes: (self.shared.pages.len() * size_of::<Page>()) as u64 }
    }

    /// Calls of `read` so far.
    pub(crate) fn copies(&self) -> u64 {
        self.shared.copies.count()
    }

    /// Calls of `wake` so far.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn wakes(&self) -> u64 {
        self.shared.wakes.count()
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), PlatformError> {
        let memory = self.range();
        let inside = offset.checked_add(len as u64).is_some_and(|end| end <= memory.bytes);
        let addr = memory.addr.wrapping_add(offset);
        inside.then_some(()).ok_or(PlatformError::OutOfRange { addr, bytes: len as u64, memory })
    }

    fn word(&self, offset: u64) -> &SharedU64 {
        let index = usize::try_from(offset / 8).unwrap();
        &self.shared.pages[index / WORDS].0[index % WORDS]
    }

    fn aligned_word(&self, offset: u64) -> Result<&SharedU64, PlatformError> {
        self.check(offset, 8)?;
        assert!(offset.is_multiple_of(8), "words are aligned");
        Ok(self.word(offset))
    }
}

impl RegionMemory for TestMemory {
    fn read_u64(&self, offset: u64) -> Result<u64, PlatformError> {
        Ok(self.aligned_word(offset)?.see())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), PlatformError> {
        self.check(offset, bytes.len())?;
        self.shared.copies.next();
        for (at, byte) in (offset..).zip(bytes) {
            *byte = self.word(at).get().to_le_bytes()[usize::try_from(at % 8).unwrap()];
        }
        Ok(())
    }

    fn write_u64(&self, offset: u64, value: u64) -> Result<(), PlatformError> {
        self.aligned_word(offset)?.publish(value);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), PlatformError> {
        self.check(offset, bytes.len())?;
        for (at, byte) in (offset..).zip(bytes) {
            let word = self.word(at);
            let mut value = word.get().to_le_bytes();
            value[usize::try_from(at % 8).unwrap()] = *byte;
            word.set(u64::from_le_bytes(value));
        }
        Ok(())
    }

    fn is_mapped(&self) -> bool {
        self.shared.mapped
    }

    fn write_to(&self, offset: u64, len: usize, file: BorrowedFd<'_>, at: u64) -> Result<(), PlatformError> {
        assert!(self.shared.mapped, "only mapped memory is written to files");
        let mut bytes = vec![0; len];
        self.read(offset, &mut bytes)?;
        let file = File::from(file.try_clone_to_owned().unwrap());
        let written = file.write_all_at(&bytes, at);
        written.map_err(|source| PlatformError::Os { doing: "writing device memory to a file", source })
    }

    fn wake(&self) {
        self.shared.wakes.next();
    }
}
