//! Returns freed memory to the system.
//!
//! Building a graph makes millions of small allocations. The allocator keeps the freed memory for reuse; a
//! server that then idles for hours should not hold it.

/// Returns freed memory to the system, if the allocator supports it.
pub(crate) fn release_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: `malloc_trim` accepts any number and only touches free memory, under the allocator's own locks. It
        // may be called from any thread.
        unsafe { libc::malloc_trim(0) };
    }
}
