//! The device program of the tests. The first argument word selects the operation.

use std::{hint::black_box, ptr, time::Duration};

use tensortap_platform::{
    AltStack, DeviceLink, DeviceMemory, DeviceMode, DeviceProgram, HostEvent, set_crash_recorder,
};
use tensortap_sync::{Counter, Flag, SharedU64};

use crate::harness::PATIENCE;

/// Size of an argument block in words: parameters come first, results from [`RESULTS`] on.
pub const ARG_WORDS: u64 = 1024;
/// The first result word.
pub const RESULTS: u64 = 16;
/// The address that [`Op::Segv`] writes to.
pub const BAD_ADDRESS: u64 = 0x10;
/// Size of a block of [`Op::Publish`] in words.
pub const BLOCK_WORDS: u64 = 512;

#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Op {
    /// (source, bytes, destination): writes `transform` of every byte.
    Transform,
    /// Results: mode, contained, base, size, variable set, standard input empty.
    Describe,
    /// (rounds): copies word 0 to word 1 each time the host wakes the device.
    PingPong,
    /// Wakes the host, sets word 0, waits for word 1.
    WakeOnce,
    /// (threads): all threads sleep. Word 0 counts threads that are about to sleep, word 1 those that were
    /// woken.
    Sleepers,
    /// Alternates word 0 between all zero bits and all one bits, until word 1 is set.
    Flicker,
    /// (rounds): fills a block at word 8 with the number of the round, then stores the number in word 0.
    Publish,
    /// Reports its end, waits for word 0, sets word 1.
    FinishEarly,
    /// Writes to [`BAD_ADDRESS`]. The crash is recorded in words 0 (signal), 1 (address) and 2 (count).
    Segv,
    /// Aborts.
    Abort,
    /// Overflows the stack of a thread that has an [`AltStack`].
    Overflow,
    /// (code): exits.
    Exit,
    /// Panics.
    Panic,
    /// Sets word 0 and never returns.
    Hang,
    /// Sets word 0 and waits until the host is gone.
    UntilGone,
    /// Runs until [`RELEASE`], counts in [`BEATS`] and reads its memory.
    Linger,
    /// Prints to standard output, without a newline.
    Print,
}

const OPS: [Op; 17] = [
    Op::Transform,
    Op::Describe,
    Op::PingPong,
    Op::WakeOnce,
    Op::Sleepers,
    Op::Flicker,
    Op::Publish,
    Op::FinishEarly,
    Op::Segv,
    Op::Abort,
    Op::Overflow,
    Op::Exit,
    Op::Panic,
    Op::Hang,
    Op::UntilGone,
    Op::Linger,
    Op::Print,
];

/// The output of [`Op::Print`].
pub const PRINTED: &str = "a kernel printed this";

/// Ends [`Op::Linger`]. Thread mode only.
pub static RELEASE: Flag = Flag::new();
/// Rounds of [`Op::Linger`].
pub static BEATS: Counter = Counter::new();

/// The expected result for byte `index`, whose value is `byte`. The host computes the same with different
/// code.
fn transform(index: usize, byte: u8) -> u8 {
    byte.rotate_left(3) ^ (index % 251) as u8
}

pub struct TestProgram;

impl DeviceProgram for TestProgram {
    /// The data is a path to create. This works only before the device is confined.
    fn prepare(&self, given: &[u8]) -> Result<(), String> {
        let path = std::str::from_utf8(given).map_err(|error| error.to_string())?;
        std::fs::write(path, path).map_err(|error| format!("cannot write {path}: {error}"))
    }

    fn run(&self, link: &DeviceLink, args: u64) {
        let args = Args { memory: link.memory(), addr: args };
        let op = OPS[usize::try_from(args.param(0)).expect("an operation")];
        match op {
            Op::Transform => transform_bytes(&args),
            Op::Describe => describe(link, &args),
            Op::PingPong => ping_pong(link, &args),
            Op::WakeOnce => wake_once(link, &args),
            Op::Sleepers => sleepers(link, &args),
            Op::Flicker => flicker(&args),
            Op::Publish => publish(&args),
            Op::FinishEarly => finish_early(link, &args),
            Op::Segv => segv(&args),
            Op::Abort => abort(&args),
            Op::Overflow => overflow(&args),
            Op::Exit => std::process::exit(args.param(1) as i32),
            Op::Panic => panic!("a program may panic"),
            Op::Hang => hang(&args),
            Op::UntilGone => until_gone(link, &args),
            Op::Linger => linger(&args),
            Op::Print => print!("{PRINTED}"),
        }
    }
}

/// Argument words of a launch.
#[derive(Clone, Copy)]
struct Args {
    memory: DeviceMemory,
    addr: u64,
}

impl Args {
    #[expect(clippy::cast_ptr_alignment, reason = "argument blocks are allocated at cache lines")]
    fn word(&self, index: u64) -> &SharedU64 {
        let ptr = self.memory.ptr(self.addr + 8 * index, 8).expect("inside device memory");
        // SAFETY: inside device memory, aligned, and mapped while the program runs.
        unsafe { &*ptr.cast::<SharedU64>() }
    }

    fn param(&self, index: u64) -> u64 {
        self.word(index).see()
    }

    fn result(&self, index: u64) -> &SharedU64 {
        self.word(RESULTS + index)
    }

    fn set(&self, index: u64, value: u64) {
        self.result(index).publish(value);
    }

    fn wait_until_set(&self, index: u64) {
        while self.result(index).see() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn transform_bytes(args: &Args) {
    let bytes = args.param(2);
    let source = args.memory.ptr(args.param(1), bytes).expect("source inside");
    let destination = args.memory.ptr(args.param(3), bytes).expect("destination inside");
    for index in 0..usize::try_from(bytes).expect("fits") {
        // SAFETY: both ranges were checked, and nothing else uses them during the launch.
        unsafe { destination.add(index).write(transform(index, source.add(index).read())) };
    }
}

fn describe(link: &DeviceLink, args: &Args) {
    args.set(0, 1 + u64::from(link.mode() == DeviceMode::Thread));
    args.set(1, u64::from(link.crashes_are_contained()));
    args.set(2, link.memory().base());
    args.set(3, link.memory().bytes());
    args.set(4, u64::from(std::env::var_os("TENSORTAP_DEVICE").is_some()));
    if link.mode() == DeviceMode::Process {
        let mut line = String::new();
        args.set(5, u64::from(matches!(std::io::stdin().read_line(&mut line), Ok(0))));
    }
}

fn ping_pong(link: &DeviceLink, args: &Args) {
    for round in 1..=args.param(1) {
        loop {
            let seen = link.host_wakes();
            if args.result(0).see() == round {
                break;
            }
            let event = link.wait_for_host_since(seen, PATIENCE);
            assert_eq!(event, HostEvent::Woken, "round {round} was never announced");
        }
        args.set(1, round);
        link.wake_host();
    }
}

fn wake_once(link: &DeviceLink, args: &Args) {
    link.wake_host();
    args.set(0, 1);
    args.wait_until_set(1);
}

fn sleepers(link: &DeviceLink, args: &Args) {
    std::thread::scope(|scope| {
        for _ in 0..args.param(1) {
            scope.spawn(|| {
                let seen = link.host_wakes();
                args.result(0).add(1);
                // No timeout: a sleeper that timed out would wait again, and would count as woken.
                if link.wait_for_host_since(seen, Duration::MAX) == HostEvent::Woken {
                    args.result(1).add(1);
                }
            });
        }
    });
}

fn flicker(args: &Args) {
    while args.result(1).get() == 0 {
        args.result(0).set(u64::MAX);
        args.result(0).set(0);
    }
}

fn publish(args: &Args) {
    for round in 1..=args.param(1) {
        for index in 0..BLOCK_WORDS {
            args.result(8 + index).set(round);
        }
        args.set(0, round);
    }
}

fn finish_early(link: &DeviceLink, args: &Args) {
    link.finished();
    args.wait_until_set(0);
    args.set(1, 1);
}

/// The address where [`record`] stores. One device per process crashes.
static RECORD_AT: SharedU64 = SharedU64::new(0);

fn record_crashes(args: &Args) {
    let results = ptr::from_ref(args.result(0)).addr();
    RECORD_AT.publish(results as u64);
    set_crash_recorder(record);
}

fn record(signal: i32, fault_addr: u64) {
    let results = RECORD_AT.see() as usize;
    for (index, value) in [(0, signal.unsigned_abs().into()), (1, fault_addr)] {
        // SAFETY: points to result words of the launch, which stay mapped until the process ends.
        unsafe { &*ptr::with_exposed_provenance::<SharedU64>(results + 8 * index) }.publish(value);
    }
    // SAFETY: as above.
    unsafe { &*ptr::with_exposed_provenance::<SharedU64>(results + 16) }.add(1);
}

fn segv(args: &Args) {
    record_crashes(args);
    let bad = ptr::without_provenance_mut::<u8>(BAD_ADDRESS as usize);
    // SAFETY: none. The page at zero is never mapped, and crashing at this write is the purpose.
    unsafe { black_box(bad).write_volatile(1) };
}

fn abort(args: &Args) {
    record_crashes(args);
    std::process::abort();
}

fn overflow(args: &Args) {
    record_crashes(args);
    let run = || {
        forget_signal_stack();
        let _stack = AltStack::install().expect("a signal stack");
        black_box(recurse(black_box(1)))
    };
    let _ = std::thread::Builder::new().stack_size(256 << 10).spawn(run).expect("a thread").join();
}

/// Threads of the standard library have a signal stack. Threads that a kernel library starts have none.
fn forget_signal_stack() {
    let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: disabling the stack of this thread needs nothing to stay valid.
    assert_eq!(unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) }, 0);
}

pub fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == 0 { 0 } else { recurse(depth + 1) + frame[7] }
}

fn hang(args: &Args) {
    record_crashes(args);
    args.set(3, 1);
    loop {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn until_gone(link: &DeviceLink, args: &Args) {
    args.set(3, 1);
    while link.wait_for_host(PATIENCE) != HostEvent::Gone {}
}

fn linger(args: &Args) {
    args.set(3, 1);
    while !RELEASE.is_raised() {
        assert_eq!(args.result(3).see(), 1, "memory went away");
        BEATS.next();
        std::thread::sleep(Duration::from_millis(1));
    }
}
