//! The recorded program: this test binary, started again with its task in the environment. Its data depends
//! only on numbers, so that a test can compute the expected dump.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;

use tensortap::record::{
    DType, DumpStage, Outcome, Role, Session, StringId, TaskInfo, Tensor, ThreadRecorder,
};

use crate::hostile;

/// Environment variables with the role, and with the folder for notes.
const ROLE: &str = "TENSORTAP_TEST_PROGRAM";
const NOTES: &str = "TENSORTAP_TEST_NOTES";

/// Records of each task: an input, an output and a scalar.
pub const RECORDS_PER_TASK: u64 = 3;

/// The content of a tensor, which depends only on the numbers of its task and argument.
pub fn content(task: u64, arg: u16) -> Vec<u8> {
    let seed = task.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(arg) << 7;
    let bytes = 40 + usize::try_from(task % 7).unwrap() * 900;
    (0..bytes as u64)
        .map(|at| (seed.wrapping_add(at.wrapping_mul(seed | 1)) >> 23).to_le_bytes()[0])
        .collect()
}

/// The id of a task, unique among the threads of a process.
pub fn task_id(thread: u64, number: u64) -> u64 {
    thread << 32 | (number + 1)
}

/// Environment variables that make a command this program, with a role and a folder for notes.
pub fn command(role: &str, notes: &Path) -> Vec<(String, String)> {
    vec![(ROLE.into(), role.into()), (NOTES.into(), notes.display().to_string())]
}

/// Program and arguments that start this program.
pub fn words() -> [String; 5] {
    let executable = std::env::current_exe().unwrap().display().to_string();
    [executable, "--ignored".into(), "--exact".into(), "program::program".into(), "--nocapture".into()]
}

#[test]
#[ignore = "the other tests record it"]
fn program() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    match words[0] {
        "tasks" => tasks(number(1), number(2)),
        "tree" => tree(number(1), number(2)),
        "leaves" => {
            // Like a program that never closes its session.
            std::mem::forget(recorded(1, number(1)));
            std::process::exit(i32::try_from(number(2)).unwrap());
        }
        "acknowledged" => acknowledged(disturbed_before_the_last(number(1))),
        "endless" => {
            // SAFETY: it has no preconditions. An interrupt must not end this process.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
            acknowledged((0..).take_while(|_| !is_to_stop()));
        }
        "parent" => parent(number(1)),
        "hostile" => hostile::attack(),
        "impersonated" => impersonated(),
        "outside" => outside(),
        "burst" => burst(number(1)),
        "crowd" => crowd(number(1)),
        "too_many" => too_many(),
        "starved" => starved(),
        "hangs_up" => {
            hostile::hang_up(6);
            tasks(1, 2);
        }
        "again" => (0..2).for_each(|_| tasks(1, number(1))),
        "becomes" => {
            let _session = recorded(1, number(1));
            let error = std::os::unix::process::CommandExt::exec(
                Command::new("sh").args(["-c", "sleep 0.6; exit 4"]),
            );
            panic!("{error}");
        }
        other => panic!("{other}"),
    }
    // The test harness must not continue.
    std::process::exit(0);
}

/// Writes a note: a line in a file of this process.
fn note(what: &str) {
    let folder = std::env::var_os(NOTES).unwrap();
    let file = Path::new(&folder).join(std::process::id().to_string());
    let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
    file.write_all(format!("{what}\n").as_bytes()).unwrap();
}

/// Whether the test has requested that this process ends.
fn is_to_stop() -> bool {
    Path::new(&std::env::var_os(NOTES).unwrap()).join("stop").exists()
}

fn session() -> Session {
    Session::attach().expect("attaching works").expect("a recorder is present")
}

/// Records one complete task.
fn task(recorder: &mut ThreadRecorder, id: u64) {
    let kernel = recorder.kernel("made").unwrap();
    let mut task = recorder.begin(&TaskInfo { id, ..TaskInfo::of(kernel) }).unwrap();
    let (given, made) = (content(id, 0), content(id, 1));
    let tensor = |bytes, arg, role| Tensor::of(bytes, DType::UInt8).unwrap().arg(arg).role(role);
    let given = tensor(&given[..], 0, Role::Input);
    let made = tensor(&made[..], 1, Role::Output);
    let gone = |outcome: Outcome| matches!(outcome, Outcome::Dropped(_));
    let mut lost = gone(recorder.tensor(&mut task, DumpStage::BeforeDispatch, &given).unwrap());
    lost |= gone(recorder.scalar(&mut task, 2, DType::UInt64, id, StringId::NONE).unwrap());
    lost |= gone(recorder.tensor(&mut task, DumpStage::AfterCompletion, &made).unwrap());
    recorder.end(&mut task).unwrap();
    if lost {
        note("lost");
    }
}

/// Records tensors of 1 MiB, faster than they can be written.
fn burst(tensors: u64) {
    let session = session();
    let mut recorder = session.named_thread("burst").unwrap();
    let kernel = recorder.kernel("made").unwrap();
    let mut task = recorder.begin(&TaskInfo { id: 1, ..TaskInfo::of(kernel) }).unwrap();
    let content =
        |arg: u64| (0..1_u64 << 17).flat_map(|at| ((at * at) ^ (arg << 40)).to_le_bytes()).collect();
    let contents: Vec<Vec<u8>> = (0..tensors).map(content).collect();
    for (arg, content) in (0..).zip(&contents) {
        let tensor = Tensor::of(&content[..], DType::UInt8).unwrap().arg(arg).role(Role::Input);
        recorder.tensor(&mut task, DumpStage::BeforeDispatch, &tensor).unwrap();
    }
    recorder.end(&mut task).unwrap();
    note("recorded");
}

/// Records on this many threads, each with two handles, one after the other.
fn recorded(threads: u64, count: u64) -> Session {
    let session = session();
    thread::scope(|scope| {
        for number in 0..threads {
            let session = &session;
            scope.spawn(move || {
                for half in [0..count / 2, count / 2..count] {
                    let mut recorder = session.named_thread(&format!("worker {number}")).unwrap();
                    half.for_each(|at| task(&mut recorder, task_id(number, at)));
                }
            });
        }
    });
    note(&format!("recorded {}", threads * count * RECORDS_PER_TASK));
    session
}

fn tasks(threads: u64, count: u64) {
    recorded(threads, count).close().unwrap();
}

/// A process that others pretend to be.
fn impersonated() {
    let session = session();
    let wrong = hostile::impersonate(|| {
        let mut recorder = session.thread().unwrap();
        let mut task = recorder.begin(&TaskInfo::default()).unwrap();
        let secret = Tensor::of(hostile::SECRET, DType::UInt8).unwrap().role(Role::Input);
        recorder.tensor(&mut task, DumpStage::BeforeDispatch, &secret).unwrap();
        recorder.end(&mut task).unwrap();
        assert!(recorder.flush().unwrap());
    });
    wrong.iter().for_each(|wrong| note(wrong));
    session.close().unwrap();
    note("ended");
}

/// A task with two arguments that claim to extend past their memory.
fn outside() {
    let session = session();
    let mut recorder = session.thread().unwrap();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    for arg in 0..2 {
        let outside = Tensor::of(&[0_u8; 8], DType::UInt8).unwrap().view(&[9], &[1], 0).unwrap().arg(arg);
        assert!(recorder.tensor(&mut task, DumpStage::BeforeDispatch, &outside).is_err());
    }
    recorder.end(&mut task).unwrap();
    drop(recorder);
    session.close().unwrap();
}

/// Three handles with room for only one, and an invalid call.
fn too_many() {
    let session = session();
    let mut recorder = session.thread().unwrap();
    (0..2).for_each(|_| assert!(session.named_thread("another").is_err()));
    task(&mut recorder, task_id(0, 0));
    let mut wrong = recorder.begin(&TaskInfo { id: task_id(0, 1), ..TaskInfo::default() }).unwrap();
    let refused = recorder.scalar(&mut wrong, u16::MAX, DType::UInt64, 1, StringId::NONE).unwrap_err();
    recorder.count_refusal(&refused);
    recorder.end(&mut wrong).unwrap();
    drop(recorder);
    session.close().unwrap();
}

/// Records, without a single free file, until the recorder is gone.
fn starved() {
    let session = session();
    let mut recorder = session.thread().unwrap();
    note("starved");
    let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: it reads the limit from a local variable of this function.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let mut number = 0;
    while !recorder.is_recorder_gone() {
        let kernel = recorder.kernel("made").unwrap();
        let info = TaskInfo { id: task_id(0, number), ..TaskInfo::of(kernel) };
        let mut task = recorder.begin(&info).unwrap();
        let bytes = content(info.id, 1);
        let made = Tensor::of(&bytes[..], DType::UInt8).unwrap().arg(1).role(Role::Output);
        recorder.tensor(&mut task, DumpStage::AfterCompletion, &made).unwrap();
        recorder.end(&mut task).unwrap();
        number += 1;
    }
    drop(all);
    note("ended");
    drop(recorder);
    // The recorder would report the result, but there is none.
    let _ = session.close();
}

/// Four processes: this one, a forked one, and two that are started as separate programs.
fn tree(threads: u64, count: u64) {
    let session = recorded(threads, count);
    // SAFETY: the child creates its own threads and files and ends without running any code of the harness.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        assert!(session.thread().is_err(), "the session belongs to the parent");
        tasks(threads, count);
        // SAFETY: it has no preconditions.
        unsafe { libc::_exit(0) };
    }
    let started: Vec<Child> = (0..2).map(|_| start(&format!("tasks {threads} {count}"))).collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    let mut status = 0;
    // SAFETY: the number is that of a child, and the status goes to a local variable of this function.
    assert_eq!(unsafe { libc::waitpid(forked, &raw mut status, 0) }, forked);
    assert_eq!(status, 0);
    session.close().unwrap();
}

/// Forks this many processes, which attach at the same moment.
fn crowd(count: u64) {
    let (mut starts, starter) = std::io::pipe().unwrap();
    let mut starter = Some(starter);
    for _ in 0..count {
        // SAFETY: the child creates its own threads and files and ends without running any code of the
        // harness.
        if unsafe { libc::fork() } == 0 {
            starter.take();
            // Until every process has closed the other end.
            let _ = std::io::Read::read(&mut starts, &mut [0]);
            tasks(1, 2);
            // SAFETY: it has no preconditions.
            unsafe { libc::_exit(0) };
        }
    }
    starter.take();
    for _ in 0..count {
        let mut status = 0;
        // SAFETY: the status goes to a local variable of this function.
        assert!(unsafe { libc::wait(&raw mut status) } > 0);
        assert_eq!(status, 0);
    }
}

fn start(role: &str) -> Child {
    let [program, args @ ..] = words();
    Command::new(program).args(args).env(ROLE, role).spawn().unwrap()
}

/// The last tasks of a disturbed process. It waits for the disturbance before it records them.
pub const LAST_TASKS: u64 = 8;
/// The file next to the notes that signals the disturbance.
pub const DISTURBED: &str = "disturbed";

/// The numbers below `count`. Those of the last tasks follow after the disturbance, so that no victim ends
/// before it is killed.
fn disturbed_before_the_last(count: u64) -> impl Iterator<Item = u64> {
    let disturbed = Path::new(&std::env::var_os(NOTES).unwrap()).with_file_name(DISTURBED);
    (0..count).inspect(move |number| {
        if number + LAST_TASKS == count {
            // After a failed test the program continues.
            let waiting = (0..120_000).take_while(|_| !disturbed.exists());
            waiting.for_each(|_| thread::sleep(std::time::Duration::from_millis(1)));
        }
    })
}

/// Notes after every few tasks how many of them are stored.
fn acknowledged(numbers: impl Iterator<Item = u64>) {
    let session = session();
    let mut recorder = session.thread().unwrap();
    for number in numbers {
        task(&mut recorder, task_id(0, number));
        if number % 8 == 7 && recorder.flush().unwrap() {
            note(&format!("safe {}", number + 1));
        }
    }
    note("ended");
    drop(recorder);
    session.close().unwrap();
}

/// Starts such a process and waits for it, however it ends.
fn parent(count: u64) {
    let mut child = start(&format!("acknowledged {count}"));
    note(&format!("child {}", child.id()));
    child.wait().unwrap();
    tasks(1, 20);
}
