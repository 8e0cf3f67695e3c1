//! Blocks of PyTorch's allocator, which allocates large pieces from the driver and hands out parts of them.
//!
//! For each block that PyTorch allocates or frees, `libc10_cuda.so` calls `c10::reportMemoryUsageToProfiler`
//! of `libc10.so`, whether a profiler is active or not. It calls through a pointer, which [`look`] finds by
//! the name of the function and replaces with [`reported`]. That function notes the block and calls the
//! original. The allocator itself is unchanged. If the name is not found in this form, nothing is changed,
//! and blocks are not known.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    sync::{Mutex, OnceLock, TryLockError},
};

use crate::backend::CudaBackend;

/// The library whose calls are redirected.
const CALLER: &[u8] = b"libc10_cuda.so";
/// `c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device)`, and the older form with
/// signed totals.
const NAMES: [&CStr; 2] = [
    c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
    c"_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
];

/// The function. Parameters: block, size (negative if the block is freed), totals, and the device: its type
/// in the lower byte, its index in the upper.
type Report = unsafe extern "C" fn(*mut c_void, i64, usize, usize, u16);
/// PyTorch's device type for CUDA.
const CUDA: u16 = 1;

/// The original function.
static ORIGINAL: OnceLock<Report> = OnceLock::new();

/// The number of libraries that had been loaded at the last search. None once the allocator was found.
static SEEN: Mutex<Option<u64>> = Mutex::new(Some(0));

/// Searches the libraries that were loaded since the last search. The allocator allocates from the driver
/// before it hands out a block, so a search at that time misses no block.
pub fn look() {
    // A thread that searches now may wait for a library that this thread is loading.
    let mut seen = match SEEN.try_lock() {
        Ok(seen) => seen,
        Err(TryLockError::Poisoned(seen)) => seen.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let Some(before) = *seen else { return };
    let mut search = Search { before, now: before, found: None };
    // SAFETY: `object` expects a `Search`, which lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(object), (&raw mut search).cast()) };
    // The loader's lock is released here, so functions of the loader may be called again.
    let is_found = search.found.is_some_and(|object| object.redirect());
    *seen = (!is_found).then_some(search.now);
}

struct Search {
    before: u64,
    now: u64,
    found: Option<Object>,
}

/// Visits one loaded library. Returns whether the search can end.
///
/// # Safety
/// As `dl_iterate_phdr` calls it, with a `Search`.
unsafe extern "C" fn object(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the caller's guarantee.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    if info.dlpi_adds == search.before {
        return 1;
    }
    search.now = info.dlpi_adds;
    // SAFETY: a text of the loader, or null.
    let name = if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
    let file = name.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if file.starts_with(CALLER) {
        // SAFETY: the library is loaded.
        search.found = unsafe { Object::of(info, name) };
    }
    search.found.is_some().into()
}

const DYNAMIC: u32 = 2;
const READ_ONLY_AFTER_START: u32 = 0x6474_e552;
const LOADED: u32 = 1;

/// The entries of a library's dynamic section that are needed.
#[derive(Default)]
struct Tables {
    symbols: u64,
    strings: u64,
    string_bytes: u64,
    /// Address and size of the two relocation tables.
    places: [(u64, u64); 2],
}

struct Object {
    file: CString,
    base: u64,
    tables: Tables,
    /// Memory that is read-only after relocation.
    read_only: (u64, u64),
    /// The address range of the library.
    span: (u64, u64),
}

/// A relocation entry.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}
const _: () = assert!(size_of::<Relocation>() == 24);

#[cfg(target_arch = "x86_64")]
const POINTERS: [u64; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const POINTERS: [u64; 2] = [1025, 1026];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const POINTERS: [u64; 2] = [u64::MAX; 2];

impl Object {
    /// # Safety
    /// The library is loaded.
    unsafe fn of(info: &libc::dl_phdr_info, file: &CStr) -> Option<Object> {
        let mut object = Object {
            file: file.to_owned(),
            base: info.dlpi_addr,
            tables: Tables::default(),
            read_only: (0, 0),
            span: (u64::MAX, 0),
        };
        let mut dynamic = None;
        for at in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: the caller's guarantee. The library has that many headers.
            let header = unsafe { &*info.dlpi_phdr.add(at) };
            let start = object.base.wrapping_add(header.p_vaddr);
            match header.p_type {
                DYNAMIC => dynamic = Some(start),
                READ_ONLY_AFTER_START => object.read_only = (start, start + header.p_memsz),
                LOADED => object.span = (object.span.0.min(start), object.span.1.max(start + header.p_memsz)),
                _ => {}
            }
        }
        // SAFETY: the caller's guarantee.
        object.tables = unsafe { tables(object.base, dynamic?) };
        (object.tables.symbols != 0 && object.tables.strings != 0).then_some(object)
    }

    /// Replaces the pointer to the function. Returns whether it is replaced now.
    fn redirect(&self) -> bool {
        // This keeps the library loaded.
        // SAFETY: the name ends with a zero byte. Nothing new is loaded.
        let library = unsafe { libc::dlopen(self.file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return false;
        }
        let places = self.tables.places.iter().flat_map(|&(start, bytes)| {
            (0..bytes / 24).map(move |at| {
                // SAFETY: the library's table has that many entries.
                unsafe { crate::raw::at::<Relocation>(start + 24 * at) }
            })
        });
        let mut is_done = false;
        for place in places.filter(|place| POINTERS.contains(&(place.info & 0xffff_ffff))) {
            let name = self.name(place.info >> 32);
            if let Some(wanted) = NAMES.into_iter().find(|wanted| wanted.to_bytes() == name) {
                is_done |= self.replace(self.base.wrapping_add(place.offset), library, wanted);
            }
        }
        is_done
    }

    /// Name of a symbol.
    fn name(&self, symbol: u64) -> &[u8] {
        // SAFETY: a relocation of the library refers to this symbol.
        let at = u64::from(unsafe { crate::raw::at::<u32>(self.tables.symbols + 24 * symbol) });
        let most = NAMES[0].to_bytes().len() as u64 + 1;
        let bytes = most.min(self.tables.string_bytes.saturating_sub(at));
        // SAFETY: the library has that many bytes of names.
        let text =
            unsafe { crate::raw::bytes(self.tables.strings + at, usize::try_from(bytes).unwrap_or(0)) };
        text.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Replaces the pointer in one slot.
    fn replace(&self, slot: u64, library: *mut c_void, name: &CStr) -> bool {
        // SAFETY: a pointer of the library that the loader has filled in.
        let now: u64 = unsafe { crate::raw::at(slot) };
        // With lazy binding, the pointer points into its own library until the first call.
        let is_filled = now != 0 && !(self.span.0..self.span.1).contains(&now);
        let original = if is_filled { now } else { find(library, name) };
        let own = reported as Report as usize as u64;
        if original == 0 || original == own {
            return original == own;
        }
        // SAFETY: the library calls a function with this signature by this name.
        let original =
            unsafe { std::mem::transmute::<usize, Report>(usize::try_from(original).unwrap_or(0)) };
        // If there are two allocators with different functions, only one is redirected.
        let known = *ORIGINAL.get_or_init(|| original);
        std::ptr::fn_addr_eq(known, original) && self.write(slot, own)
    }

    fn write(&self, slot: u64, value: u64) -> bool {
        let is_protected = (self.read_only.0..self.read_only.1).contains(&slot);
        if is_protected && !protect(slot, libc::PROT_READ | libc::PROT_WRITE) {
            return false;
        }
        let at = std::ptr::with_exposed_provenance_mut::<u64>(usize::try_from(slot).unwrap_or(0));
        // SAFETY: an aligned pointer of the library that can be written now. A concurrent call reads the old
        // or the new value.
        unsafe { at.write_volatile(value) };
        if is_protected {
            protect(slot, libc::PROT_READ);
        }
        true
    }
}

/// # Safety
/// `dynamic` is the dynamic section of a loaded library.
unsafe fn tables(base: u64, dynamic: u64) -> Tables {
    let mut tables = Tables::default();
    // The loaders of some systems leave the addresses as they are in the file.
    let address = |value: u64| if value < base { base.wrapping_add(value) } else { value };
    for at in 0.. {
        // SAFETY: the caller's guarantee. The section ends with an entry of zero.
        let [tag, value] = unsafe { crate::raw::at::<[u64; 2]>(dynamic + 16 * at) };
        match tag {
            0 => break,
            2 => tables.places[0].1 = value,
            5 => tables.strings = address(value),
            6 => tables.symbols = address(value),
            7 => tables.places[1].0 = address(value),
            8 => tables.places[1].1 = value,
            10 => tables.string_bytes = value,
            23 => tables.places[0].0 = address(value),
            _ => {}
        }
    }
    tables
}

/// The address of a function of a library. 0 if there is none.
fn find(library: *mut c_void, name: &CStr) -> u64 {
    // SAFETY: the handle stays open, and the name ends with a zero byte.
    unsafe { libc::dlsym(library, name.as_ptr()) }.expose_provenance() as u64
}

/// Changes the access rights of the page that contains an address.
fn protect(address: u64, how: c_int) -> bool {
    // SAFETY: the call only returns a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = std::ptr::with_exposed_provenance_mut(usize::try_from(address / page * page).unwrap_or(0));
    // SAFETY: a page of a library's data. It stays readable, and only this module writes it.
    unsafe { libc::mprotect(start, usize::try_from(page).unwrap_or(4096), how) == 0 }
}

/// PyTorch has allocated or freed a block. The allocator holds its lock during this call.
///
/// # Safety
/// As PyTorch calls it.
unsafe extern "C" fn reported(
    block: *mut c_void,
    bytes: i64,
    allocated: usize,
    reserved: usize,
    device: u16,
) {
    if device & 0xff == CUDA {
        // A panic must not reach the program.
        let noted = std::panic::catch_unwind(|| note(block.addr() as u64, bytes));
        drop(noted);
    }
    if let Some(original) = ORIGINAL.get() {
        // SAFETY: the caller's guarantee.
        unsafe { original(block, bytes, allocated, reserved, device) };
    }
}

fn note(address: u64, bytes: i64) {
    let Some(backend) = CudaBackend::get().filter(|_| address != 0) else { return };
    match u64::try_from(bytes) {
        Ok(bytes) => crate::calls::memory::block_allocated(backend, address, bytes),
        Err(_) => crate::calls::memory::block_freed(backend, address),
    }
}
