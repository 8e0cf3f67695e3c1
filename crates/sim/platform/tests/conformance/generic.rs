//! Tests for every platform in every device mode.

use std::time::Duration;

use tensortap_platform::{DeviceEvent, PlatformError, base_of_rank};

use crate::{
    harness::{Case, PATIENCE, Test, eventually, launch, result, result_addr, run, wait_finished},
    program::{BLOCK_WORDS, Op},
};

pub const TESTS: &[Test] = &[
    ("host_and_device_see_each_others_writes", host_and_device_see_each_others_writes),
    ("the_device_knows_its_mode_and_memory", the_device_knows_its_mode_and_memory),
    (
        "a_device_runs_one_launch_at_a_time_and_can_launch_again",
        a_device_runs_one_launch_at_a_time_and_can_launch_again,
    ),
    ("a_launch_needs_arguments_in_device_memory", a_launch_needs_arguments_in_device_memory),
    ("no_wake_is_lost_in_either_direction", no_wake_is_lost_in_either_direction),
    ("an_access_handle_works_while_another_thread_waits", an_access_handle_works_while_another_thread_waits),
    ("a_wake_before_the_wait_counts_once", a_wake_before_the_wait_counts_once),
    ("one_wake_wakes_every_sleeper", one_wake_wakes_every_sleeper),
    ("a_word_is_never_torn", a_word_is_never_torn),
    (
        "bytes_read_after_their_cursor_are_as_new_as_the_cursor",
        bytes_read_after_their_cursor_are_as_new_as_the_cursor,
    ),
    ("an_early_finish_is_reported_once", an_early_finish_is_reported_once),
    ("an_idle_device_times_out", an_idle_device_times_out),
    ("opening_leaks_no_files", opening_leaks_no_files),
    ("prepare_runs_before_the_first_launch", prepare_runs_before_the_first_launch),
];

fn host_and_device_see_each_others_writes(case: &Case) {
    let mut device = case.open();
    let bytes: Vec<u8> = (0..100_003u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let source = device.allocate(bytes.len() as u64, 64, "source").unwrap();
    let destination = device.allocate(bytes.len() as u64, 4096, "destination").unwrap();
    device.copy_to(source, &bytes).unwrap();
    run(&mut *device, Op::Transform, &[source, bytes.len() as u64, destination]);
    let ramp = (0..251u8).cycle();
    let turned = bytes.iter().map(|&byte| u16::from(byte) * 8).map(|wide| (wide | wide >> 8) as u8);
    let expected: Vec<u8> = turned.zip(ramp).map(|(byte, ramp)| byte ^ ramp).collect();
    let mut seen = vec![0; bytes.len()];
    device.copy_from(destination, &mut seen).unwrap();
    assert!(seen == expected, "the device's bytes differ");
    device.copy_from(source, &mut seen).unwrap();
    assert!(seen == bytes, "the source changed");
}

fn the_device_knows_its_mode_and_memory(case: &Case) {
    let mut device = case.open();
    let args = run(&mut *device, Op::Describe, &[]);
    let words: Vec<u64> = (0..6).map(|index| result(&*device, args, index)).collect();
    let process = case.is_process();
    let memory = device.memory();
    let expected =
        [if process { 1 } else { 2 }, u64::from(process), memory.addr, memory.bytes, 0, u64::from(process)];
    assert_eq!(words, expected);
    assert_eq!(memory.addr, base_of_rank(0).unwrap());
    assert_eq!(device.mode(), case.mode);
    assert_eq!(device.survives_kernel_faults(), process);
    assert_eq!(device.process_id().is_some(), process);
    assert_ne!(device.process_id(), Some(std::process::id()));
}

fn a_device_runs_one_launch_at_a_time_and_can_launch_again(case: &Case) {
    let mut device = case.open();
    for _ in 0..2 {
        let args = launch(&mut *device, Op::WakeOnce, &[]);
        assert!(matches!(device.launch(args), Err(PlatformError::AlreadyRunning)));
        device.write_u64(result_addr(args, 1), 1).unwrap();
        wait_finished(&mut *device);
        assert_eq!(result(&*device, args, 0), 1);
    }
}

fn a_launch_needs_arguments_in_device_memory(case: &Case) {
    let mut device = case.open();
    for args in [0, device.memory().addr - 1, device.memory().end()] {
        assert!(matches!(device.launch(args), Err(PlatformError::OutOfRange { .. })));
    }
    run(&mut *device, Op::Describe, &[]);
}

fn no_wake_is_lost_in_either_direction(case: &Case) {
    let mut device = case.open();
    let rounds = 2000;
    let args = launch(&mut *device, Op::PingPong, &[rounds]);
    for round in 1..=rounds {
        device.write_u64(result_addr(args, 0), round).unwrap();
        device.wake();
        while result(&*device, args, 1) != round {
            let event = device.wait(PATIENCE).unwrap();
            assert!(
                matches!(event, DeviceEvent::Woken | DeviceEvent::Finished),
                "{event:?} in round {round}"
            );
        }
    }
}

fn an_access_handle_works_while_another_thread_waits(case: &Case) {
    let mut device = case.open();
    let access = device.access();
    assert_eq!(access.memory(), device.memory());
    assert_eq!(access.mapping().is_some(), device.mapping().is_some());
    let rounds = 500;
    let args = launch(&mut *device, Op::PingPong, &[rounds]);
    std::thread::scope(|scope| {
        let access = &access;
        scope.spawn(move || {
            for round in 1..=rounds {
                access.write_u64(result_addr(args, 0), round).unwrap();
                access.wake();
                eventually("the device answers", || access.read_u64(result_addr(args, 1)).unwrap() == round);
            }
        });
        wait_finished(&mut *device);
    });
    drop(device);
    let mut word = [0; 8];
    access.copy_from(result_addr(args, 1), &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), rounds, "memory outlives the device");
}

fn a_wake_before_the_wait_counts_once(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::WakeOnce, &[]);
    eventually("the device wakes the host", || result(&*device, args, 0) == 1);
    assert_eq!(device.wait(Duration::ZERO).unwrap(), DeviceEvent::Woken);
    assert_eq!(device.wait(Duration::ZERO).unwrap(), DeviceEvent::TimedOut);
    device.write_u64(result_addr(args, 1), 1).unwrap();
    assert_eq!(device.wait(PATIENCE).unwrap(), DeviceEvent::Finished);
}

fn one_wake_wakes_every_sleeper(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::Sleepers, &[3]);
    eventually("three threads are about to sleep", || result(&*device, args, 0) == 3);
    // By then all of them probably sleep. The test holds in any case.
    std::thread::sleep(Duration::from_millis(50));
    device.wake();
    wait_finished(&mut *device);
    assert_eq!(result(&*device, args, 1), 3);
}

fn a_word_is_never_torn(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::Flicker, &[]);
    let (mut zeros, mut ones) = (0u32, 0u32);
    while zeros < 20_000 || ones < 20_000 {
        match result(&*device, args, 0) {
            0 => zeros += 1,
            u64::MAX => ones += 1,
            torn => panic!("{torn:#x} was never written"),
        }
        assert!(zeros < 50_000_000, "the device never alternates the word");
    }
    device.write_u64(result_addr(args, 1), 1).unwrap();
    wait_finished(&mut *device);
}

fn bytes_read_after_their_cursor_are_as_new_as_the_cursor(case: &Case) {
    let mut device = case.open();
    let rounds = 100_000;
    let args = launch(&mut *device, Op::Publish, &[rounds]);
    let mut block = vec![0; 8 * BLOCK_WORDS as usize];
    let mut reads_while_running = 0;
    loop {
        let cursor = result(&*device, args, 0);
        device.copy_from(result_addr(args, 8), &mut block).unwrap();
        for word in block.as_chunks::<8>().0 {
            let word = u64::from_le_bytes(*word);
            assert!(word >= cursor, "a word of round {word} after cursor {cursor}");
        }
        if cursor == rounds {
            break;
        }
        reads_while_running += u32::from(cursor > 0);
    }
    assert!(reads_while_running > 0, "the device was never read while it ran");
    wait_finished(&mut *device);
}

fn an_early_finish_is_reported_once(case: &Case) {
    let mut device = case.open();
    let args = launch(&mut *device, Op::FinishEarly, &[]);
    assert_eq!(device.wait(PATIENCE).unwrap(), DeviceEvent::Finished);
    assert_eq!(result(&*device, args, 1), 0);
    device.write_u64(result_addr(args, 0), 1).unwrap();
    eventually("the program continues after it has reported its end", || result(&*device, args, 1) == 1);
    let describe = launch(&mut *device, Op::Describe, &[]);
    wait_finished(&mut *device);
    assert_ne!(result(&*device, describe, 0), 0, "the end of the first launch was reported twice");
    let after = device.wait(Duration::from_millis(50)).unwrap();
    assert_eq!(after, DeviceEvent::TimedOut, "an end was reported twice");
}

fn an_idle_device_times_out(case: &Case) {
    let mut device = case.open();
    assert_eq!(device.wait(Duration::from_millis(1)).unwrap(), DeviceEvent::TimedOut);
    device.wake();
    run(&mut *device, Op::Describe, &[]);
}

fn opening_leaks_no_files(case: &Case) {
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    drop(case.open());
    let before = open_files();
    let opened = case.open();
    assert!(open_files() > before, "an open device has files, otherwise this test checks nothing");
    drop(opened);
    for _ in 0..20 {
        let mut device = case.open();
        run(&mut *device, Op::Describe, &[]);
    }
    assert_eq!(open_files(), before);
}

/// The program of these tests creates a file whose name is the data that it receives.
fn prepare_runs_before_the_first_launch(case: &Case) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("prepared");
    let mut options = case.options();
    options.confined = case.is_process();
    options.program_data = path.to_str().expect("UTF-8").into();
    let mut device = case.open_with(&options).expect("the device opens");
    assert_eq!(std::fs::read(&path).expect("written"), options.program_data);
    run(&mut *device, Op::Describe, &[]);
    drop(device);
    options.program_data = folder.path().join("none/prepared").to_str().expect("UTF-8").into();
    let refusal = case.open_with(&options).err().expect("it cannot be prepared").to_string();
    assert!(refusal.contains("cannot write") && refusal.contains("none/prepared"), "{refusal}");
}
