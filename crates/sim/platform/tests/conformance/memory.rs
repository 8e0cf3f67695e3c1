//! Device memory as the host accesses it.

use std::{fs, os::fd::OwnedFd, path::PathBuf};

use rustix::fs::{SealFlags, fcntl_get_seals, ftruncate};
use tensortap_platform::{LINK_PAGE_BYTES, PlatformError, RANKS, base_of_rank};

use crate::{
    harness::{Case, Test, result, run},
    program::Op,
};

pub const TESTS: &[Test] = &[
    ("copies_round_trip", copies_round_trip),
    ("copies_outside_are_refused", copies_outside_are_refused),
    (
        "an_allocation_beyond_the_memory_names_its_use_in_the_error",
        an_allocation_beyond_the_memory_names_its_use_in_the_error,
    ),
    ("the_link_page_is_never_handed_out", the_link_page_is_never_handed_out),
    ("the_mapping_and_copies_show_the_same_bytes", the_mapping_and_copies_show_the_same_bytes),
    ("a2a3sim_maps_and_a5sim_does_not", a2a3sim_maps_and_a5sim_does_not),
    ("the_memory_map_shows_which_platforms_map", the_memory_map_shows_which_platforms_map),
    ("memory_is_sealed_and_closed_on_exec", memory_is_sealed_and_closed_on_exec),
    ("the_base_is_the_same_in_every_run", the_base_is_the_same_in_every_run),
    ("impossible_sizes_are_refused", impossible_sizes_are_refused),
    (
        "the_default_size_is_about_half_of_the_available_memory",
        the_default_size_is_about_half_of_the_available_memory,
    ),
];

const MEMORY_NAME: &str = "memfd:tensortap-device-memory";

fn copies_round_trip(case: &Case) {
    let mut device = case.open();
    let addr = device.allocate(300_000, 64, "copies").unwrap();
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        (state >> 16) as u8
    };
    for (offset, len) in [(0, 0), (1, 1), (7, 4096), (4095, 3), (13, 299_000)] {
        let bytes: Vec<u8> = (0..len).map(|_| next()).collect();
        device.copy_to(addr + offset, &bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        device.copy_from(addr + offset, &mut back).unwrap();
        assert!(back == bytes, "{len} bytes at {offset} differ");
    }
}

fn copies_outside_are_refused(case: &Case) {
    let device = case.open();
    let memory = device.memory();
    let mut two = [0; 2];
    for addr in [0, memory.addr - 1, memory.end() - 1, memory.end(), u64::MAX] {
        assert!(matches!(device.copy_to(addr, &two), Err(PlatformError::OutOfRange { .. })), "{addr:#x}");
        assert!(
            matches!(device.copy_from(addr, &mut two), Err(PlatformError::OutOfRange { .. })),
            "{addr:#x}"
        );
    }
    device.copy_to(memory.end() - 2, &two).unwrap();
    let message = device.copy_to(memory.end(), &two).unwrap_err().to_string();
    assert!(message.contains(&format!("{:#x}", memory.end())), "{message}");
    assert!(matches!(device.read_u64(memory.addr + 1), Err(PlatformError::Misaligned { .. })));
    assert!(matches!(device.read_u64(memory.end()), Err(PlatformError::OutOfRange { .. })));
}

fn an_allocation_beyond_the_memory_names_its_use_in_the_error(case: &Case) {
    let mut device = case.open();
    let all = device.memory().bytes - LINK_PAGE_BYTES;
    let message = device.allocate(all + 1, 64, "the big tensor").unwrap_err().to_string();
    for part in ["the big tensor", &(all + 1).to_string(), &all.to_string(), "--device-memory"] {
        assert!(message.contains(part), "the message lacks `{part}`: {message}");
    }
    let addr = device.allocate(all, 64, "everything").unwrap();
    device.free(addr).unwrap();
    assert!(matches!(device.free(addr), Err(PlatformError::NotAllocated { .. })));
}

fn the_link_page_is_never_handed_out(case: &Case) {
    let mut device = case.open();
    let first = device.memory().addr + LINK_PAGE_BYTES;
    while let Ok(addr) = device.allocate(64 << 10, 64, "piece") {
        assert!(addr >= first && addr + (64 << 10) <= device.memory().end());
    }
}

fn a2a3sim_maps_and_a5sim_does_not(case: &Case) {
    let maps = case.open().mapping().is_some();
    match case.platform.name() {
        "a2a3sim" => assert!(maps),
        "a5sim" => assert!(!maps),
        // Other platforms are tested through what they report about themselves.
        _ => {}
    }
}

fn the_mapping_and_copies_show_the_same_bytes(case: &Case) {
    let mut device = case.open();
    let addr = device.allocate(64, 64, "word").unwrap();
    let memory = device.memory();
    let offset = addr - memory.addr;
    device.write_u64(addr, 0x0123_4567_89ab_cdef).unwrap();
    let Some(view) = device.mapping() else { return };
    assert_eq!(view.len(), memory.bytes);
    assert_eq!(view.load_u64(offset).unwrap(), 0x0123_4567_89ab_cdef);
    view.write_from(offset + 1, &[0xff]).unwrap();
    assert_eq!(device.read_u64(addr).unwrap(), 0x0123_4567_89ab_ffef);
    let mut one = [0];
    view.read_into(offset + 7, &mut one).unwrap();
    assert_eq!(one, [0x01]);
    for bad in [memory.bytes, u64::MAX] {
        assert!(matches!(view.read_into(bad, &mut one), Err(PlatformError::OutOfRange { .. })));
        assert!(matches!(view.write_from(bad, &one), Err(PlatformError::OutOfRange { .. })));
    }
    assert!(matches!(view.load_u64(memory.bytes), Err(PlatformError::OutOfRange { .. })));
    assert!(matches!(view.store_u64(offset + 4, 0), Err(PlatformError::Misaligned { .. })));
}

fn the_memory_map_shows_which_platforms_map(case: &Case) {
    let mappings = || {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains(MEMORY_NAME)).count()
    };
    let before = mappings();
    let mut device = case.open();
    run(&mut *device, Op::Describe, &[]);
    // In thread mode the device's own mapping is also in this process.
    let expected = usize::from(device.mapping().is_some()) + usize::from(case.is_thread());
    assert_eq!(mappings() - before, expected);
    drop(device);
    assert_eq!(mappings(), before);
}

/// Paths of this process's open files that are device memory.
fn memory_files() -> Vec<PathBuf> {
    let is_memory = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains(MEMORY_NAME))
    };
    fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path()).filter(is_memory).collect()
}

fn memory_is_sealed_and_closed_on_exec(case: &Case) {
    let before = memory_files();
    let device = case.open();
    let files: Vec<PathBuf> = memory_files().into_iter().filter(|file| !before.contains(file)).collect();
    assert!(!files.is_empty());
    for path in files {
        let file: OwnedFd = fs::File::options().read(true).write(true).open(&path).unwrap().into();
        let seals = fcntl_get_seals(&file).unwrap();
        assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL), "{seals:?}");
        for bytes in [0, device.memory().bytes * 2] {
            assert_eq!(ftruncate(&file, bytes), Err(rustix::io::Errno::PERM));
        }
        let info = fs::read_to_string(path.to_string_lossy().replace("/fd/", "/fdinfo/")).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        let flags = u32::from_str_radix(flags, 8).unwrap();
        assert_ne!(flags & 0o2_000_000, 0, "not closed on exec");
    }
}

fn the_base_is_the_same_in_every_run(case: &Case) {
    let mut options = case.options();
    for rank in [0, 3, 3, RANKS - 1] {
        options.rank = rank;
        let mut device = case.open_with(&options).unwrap();
        let expected = base_of_rank(if case.is_process() { rank } else { 0 }).unwrap();
        let args = run(&mut *device, Op::Describe, &[]);
        assert_eq!(device.memory().addr, expected);
        assert_eq!(result(&*device, args, 2), expected);
    }
    options.rank = RANKS;
    let refused = case.open_with(&options).err();
    assert_eq!(matches!(refused, Some(PlatformError::BadRank { .. })), case.is_process());
}

fn impossible_sizes_are_refused(case: &Case) {
    let mut options = case.options();
    for bytes in [0, LINK_PAGE_BYTES, (1 << 40) + 1, u64::MAX] {
        options.memory_bytes = Some(bytes);
        let error = case.open_with(&options).err().expect("refused");
        assert!(matches!(error, PlatformError::BadMemorySize { .. }), "{error}");
        assert!(error.to_string().contains("--device-memory"));
    }
    options.memory_bytes = Some(2 * LINK_PAGE_BYTES);
    assert!(case.open_with(&options).is_ok());
}

fn the_default_size_is_about_half_of_the_available_memory(case: &Case) {
    let mut options = case.options();
    options.memory_bytes = None;
    let mut device = case.open_with(&options).unwrap();
    let bytes = device.memory().bytes;
    assert_eq!(bytes % (2 << 20), 0);
    // Memory use of other programs changes between the two readings.
    let available = available_bytes();
    assert!(bytes > available / 4 && bytes < available, "{bytes} of {available}");
    run(&mut *device, Op::Describe, &[]);
}

fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemAvailable:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
