//! The anonymous shared file that holds device memory, and sealed files with data for the device.

use std::{
    io::{Read, Seek, SeekFrom, Write},
    os::fd::OwnedFd,
};

use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create},
    io::Errno,
    process::{Resource, getrlimit},
};

use crate::{LINK_PAGE_BYTES, PlatformError, address::RANK_STRIDE_BYTES, error::os};

/// The default size is a multiple of a huge page.
const DEFAULT_GRAIN_BYTES: u64 = 2 << 20;

/// Creates a sparse file of `bytes`, sealed against resizing and closed on exec.
pub(crate) fn create(bytes: u64) -> Result<OwnedFd, PlatformError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create(c"tensortap-device-memory", flags).map_err(os("creating device memory"))?;
    ftruncate(&file, bytes).map_err(|error| match (error, getrlimit(Resource::Fsize).current) {
        (Errno::FBIG, Some(limit)) => PlatformError::FileLimit { bytes, limit },
        (error, _) => os("sizing device memory")(error),
    })?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(os("sealing device memory"))?;
    Ok(file)
}

/// Whether a file from another process has exactly `bytes` and is sealed against resizing. Only then is it
/// safe to map: no part of it can disappear.
pub(crate) fn is_sealed(file: &OwnedFd, bytes: u64) -> bool {
    let fixed_size = SealFlags::SHRINK | SealFlags::GROW;
    fcntl_get_seals(file).is_ok_and(|seals| seals.contains(fixed_size))
        && fstat(file).is_ok_and(|stat| u64::try_from(stat.st_size) == Ok(bytes))
}

/// A sealed file with the data for [`crate::DeviceProgram::prepare`].
pub(crate) fn of_bytes(bytes: &[u8]) -> Result<OwnedFd, PlatformError> {
    let doing = "creating the file with data for the device";
    let file = memfd_create(c"tensortap-given", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
    let mut file = std::fs::File::from(file.map_err(os(doing))?);
    file.write_all(bytes).map_err(os(doing))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals).map_err(os(doing))?;
    Ok(file.into())
}

/// Reads the whole file that [`of_bytes`] made.
pub(crate) fn read_bytes(file: OwnedFd) -> Result<Vec<u8>, PlatformError> {
    let mut file = std::fs::File::from(file);
    let mut bytes = Vec::new();
    // Both processes share the file position, which the writer left at the end.
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
    read.map_err(os("reading the data from the host"))?;
    Ok(bytes)
}

/// The size of device memory: `asked`, rounded up to whole pages, or half of the available memory.
pub(crate) fn choose_size(asked: Option<u64>) -> Result<u64, PlatformError> {
    match asked {
        Some(bytes) => whole_pages(bytes),
        None => Ok(default_size(available_bytes()?)),
    }
}

fn whole_pages(bytes: u64) -> Result<u64, PlatformError> {
    let min = 2 * LINK_PAGE_BYTES;
    let refused = PlatformError::BadMemorySize { bytes, min, max: RANK_STRIDE_BYTES };
    if !(min..=RANK_STRIDE_BYTES).contains(&bytes) {
        return Err(refused);
    }
    let page = rustix::param::page_size() as u64;
    bytes.checked_next_multiple_of(page).ok_or(refused)
}

fn default_size(available: u64) -> u64 {
    let half = available / 2 / DEFAULT_GRAIN_BYTES * DEFAULT_GRAIN_BYTES;
    half.clamp(DEFAULT_GRAIN_BYTES, RANK_STRIDE_BYTES)
}

/// Memory that can be used without swapping.
///
/// # Errors
/// If the system does not report it.
pub fn available_bytes() -> Result<u64, PlatformError> {
    let doing = "reading the available memory from /proc/meminfo (set --device-memory to avoid this)";
    let meminfo = std::fs::read_to_string("/proc/meminfo").map_err(os(doing))?;
    parse_available(&meminfo)
        .ok_or_else(|| os(doing)(std::io::Error::other("the file has no line MemAvailable")))
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_size_is_half_of_the_available_memory_in_huge_pages() {
        assert_eq!(default_size(1000 << 20), 500 << 20);
        assert_eq!(default_size((1001 << 20) + 5), 500 << 20);
        assert_eq!(default_size(0), 2 << 20);
        assert_eq!(default_size(u64::MAX), RANK_STRIDE_BYTES);
    }

    #[test]
    fn available_memory_is_found_among_the_other_lines() {
        let text = "MemTotal:  9 kB\nMemFree: 7 kB\nMemAvailable:    12345 kB\nBuffers: 1 kB\n";
        assert_eq!(parse_available(text), Some(12345 * 1024));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert_eq!(parse_available("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn data_for_a_device_arrives_and_is_immutable() {
        let file = of_bytes(b"kernels").unwrap();
        let other = file.try_clone().unwrap();
        assert_eq!(rustix::io::write(&other, b"x"), Err(Errno::PERM));
        assert_eq!(read_bytes(file).unwrap(), b"kernels");
    }

    #[test]
    fn sizes_are_whole_pages_and_bounded() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(choose_size(Some(2 * LINK_PAGE_BYTES + 1)).unwrap() % page, 0);
        for bytes in [0, 1, LINK_PAGE_BYTES, RANK_STRIDE_BYTES + 1, u64::MAX] {
            assert!(matches!(choose_size(Some(bytes)), Err(PlatformError::BadMemorySize { .. })), "{bytes}");
        }
    }
}
