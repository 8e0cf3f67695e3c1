//! Memory that was freed, given back to the system.
//!
//! Putting a graph together takes millions of small pieces, which the allocator keeps for the next who wants some; a server that then
//! idles for hours should not hold them.

/// Gives freed memory back, where the allocator can.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the function takes any number and touches nothing but free memory, under the allocator's own locks; it may be called
        // from any thread.
        unsafe { libc::malloc_trim(0) };
    }
}
