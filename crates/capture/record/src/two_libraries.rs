//! Two libraries of one process, each with its own copy of this crate: here two attachments of one process.

use std::{thread, time::Duration};

use tensortap_abi::{DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy};
use tensortap_platform::{
    LINK_PAGE_BYTES,
    attach::{AttachListener, AttachedProcess, Attachment, Caller, Hello},
};
use tensortap_recorder::{SetupOptions, setup_bytes};

use crate::{
    KernelId, TaskInfo, ThreadRecorder,
    core::{Core, CoreRef},
};

const LONG: Duration = Duration::from_secs(60);

/// Two libraries that share one region, and the host, which collects nothing.
struct Libraries {
    _host: AttachedProcess,
    first: CoreRef,
    second: CoreRef,
}

fn libraries(lanes: u32) -> Libraries {
    let folder = tempfile::tempdir().unwrap();
    let listener = AttachListener::bind(&folder.path().join("socket")).unwrap();
    let call = || -> (Caller, thread::JoinHandle<CoreRef>) {
        let path = listener.path().to_owned();
        let library = thread::spawn(move || {
            let attachment = Attachment::new(&path, &Hello::of_this_process(None, None)).unwrap();
            CoreRef::new(Core::new(attachment, None).unwrap())
        });
        let mut caller = listener.accept(LONG).unwrap().unwrap();
        caller.hello(LONG).unwrap();
        (caller, library)
    };
    let geometry = DumpGeometry { lanes, buffers: 4, records: 64, arena_bytes: 64 << 10 };
    let options = SetupOptions {
        base: LINK_PAGE_BYTES,
        run_id: 7,
        level: DumpLevel::Full,
        policy: DumpPolicy::Drop,
        collect: DumpCollect::Live,
        liveness_ms: 0,
        filter: DumpFilter::ALL,
        of_process: true,
    };
    let setup = setup_bytes(geometry, &options).unwrap();
    let (caller, first) = call();
    let host = caller.welcome(LINK_PAGE_BYTES + geometry.bytes(), 7, |memory| {
        setup.try_write(|offset, bytes| memory.copy_to(LINK_PAGE_BYTES + offset, bytes))
    });
    let (host, first) = (host.unwrap(), first.join().unwrap());
    let (caller, second) = call();
    host.join(caller).unwrap();
    Libraries { _host: host, first, second: second.join().unwrap() }
}

impl Libraries {
    /// A recorder of each library for this thread.
    fn recorders(&self) -> [ThreadRecorder; 2] {
        [&self.first, &self.second].map(|core| ThreadRecorder::new(core.share(), "t").unwrap())
    }
}

fn begin(recorder: &mut ThreadRecorder, id: u64) -> crate::Task {
    recorder.begin(&TaskInfo { id, ..TaskInfo::default() }).unwrap()
}

#[test]
fn lanes_ids_and_numbers_of_names_are_never_the_same() {
    let libraries = libraries(3);
    let [mut a, mut b] = libraries.recorders();
    assert_ne!(a.lane.lane(), b.lane.lane());
    let third = ThreadRecorder::new(libraries.first.share(), "t").unwrap();
    let none = ThreadRecorder::new(libraries.second.share(), "t");
    assert!(matches!(none, Err(crate::RecordError::NoLane { lanes: 3 })), "the other library has it");
    drop(third);
    assert!(ThreadRecorder::new(libraries.second.share(), "t").is_ok());

    let ids = [(); 3].map(|()| [a.next_task_id(), b.next_task_id()]);
    assert_eq!(ids, [[1, 2], [3, 4], [5, 6]]);
    let kernels = [a.kernel("k"), b.kernel("k"), a.kernel("k"), b.kernel("other")].map(Result::unwrap);
    assert_eq!(kernels, [1, 2, 1, 3].map(KernelId));
    let strings = [a.string("k"), b.string("k"), b.string("k")].map(|id| id.unwrap().0);
    assert!(strings[0] != strings[1] && strings[1] == strings[2]);
    let counters = [&libraries.first, &libraries.second].map(|core| core.counters().records);
    assert_eq!(counters[0], counters[1], "both see the counters of all lanes");
}

#[test]
fn ids_that_a_program_sets_never_equal_those_that_another_library_assigns() {
    // Assigned before and after.
    let before = libraries(2);
    let [mut a, mut b] = before.recorders();
    assert_eq!([begin(&mut a, 0).id(), begin(&mut a, 0).id()], [1, 2]);
    let ids = [1, 2, 3].map(|id| begin(&mut b, id).id());
    assert_eq!(ids, [0x2001_0000_0000_0001, 0x2001_0000_0000_0002, 3], "only the taken ones move");
    assert_eq!(begin(&mut a, 0).id(), 0x4000_0000_0000_0001);
    assert_eq!(begin(&mut b, ids[0]).id(), ids[0], "an id of the dump stays");
    let inside = b.begin(&TaskInfo { id: 4, parent: Some(2), ..TaskInfo::default() }).unwrap();
    assert_eq!(inside.record().parent_task, ids[1]);

    // All set ids come first.
    let after = libraries(2);
    let [mut a, mut b] = after.recorders();
    assert_eq!([1, 2].map(|id| begin(&mut b, id).id()), [1, 2]);
    assert_eq!(begin(&mut a, 0).id(), 0x4000_0000_0000_0001);
    // Both libraries set ids.
    let [mut c, mut d] = libraries(2).recorders();
    assert_eq!([begin(&mut c, 7).id(), begin(&mut d, 7).id()], [7, 0x2001_0000_0000_0007]);
    // An id that a library reserved is its own.
    let [mut e, _f] = libraries(2).recorders();
    let reserved = e.next_task_id();
    assert_eq!(begin(&mut e, reserved).id(), reserved);
}

#[test]
fn a_task_begun_inside_of_a_task_of_the_other_library_has_it_as_parent() {
    for turned in [false, true] {
        let libraries = libraries(4);
        let [mut a, mut b] = libraries.recorders();
        if turned {
            std::mem::swap(&mut a, &mut b);
        }
        let parent = |recorder: &mut ThreadRecorder| begin(recorder, 0).record().parent_task;
        assert_eq!((parent(&mut a), parent(&mut b)), (0, 0));
        let mut outer = begin(&mut a, 0);
        assert!(a.enter(&mut outer).unwrap());
        assert_eq!((parent(&mut a), parent(&mut b)), (outer.id(), outer.id()));
        let mut inner = begin(&mut b, 0);
        assert_eq!(inner.record().parent_task, outer.id());
        assert!(b.enter(&mut inner).unwrap());
        assert_eq!((parent(&mut a), parent(&mut b)), (inner.id(), inner.id()));
        let named = b.begin(&TaskInfo { parent: Some(99), ..TaskInfo::default() }).unwrap();
        assert_eq!(named.record().parent_task, 99, "the program's word counts");
        let others = thread::scope(|scope| scope.spawn(|| parent(&mut b)).join().unwrap());
        assert_eq!(others, 0, "another thread is not inside");
        b.end(&mut inner).unwrap();
        assert_eq!((parent(&mut a), parent(&mut b)), (outer.id(), outer.id()));
        a.end(&mut outer).unwrap();
        assert_eq!((parent(&mut a), parent(&mut b)), (0, 0));
    }
}

#[test]
fn tasks_left_in_any_order_by_any_thread_or_never_enclose_nothing_afterwards() {
    let libraries = libraries(4);
    let [mut a, mut b] = libraries.recorders();
    let parent = |recorder: &mut ThreadRecorder| begin(recorder, 0).record().parent_task;
    let mut tasks = [(); 3].map(|()| begin(&mut a, 0));
    tasks.iter_mut().for_each(|task| assert!(a.enter(task).unwrap()));
    let [first, second, third] = &mut tasks;
    assert_eq!(parent(&mut b), third.id());
    // Another thread leaves one, and so what is inside of it.
    thread::scope(|scope| scope.spawn(|| a.leave(second).unwrap()).join().unwrap());
    assert_eq!(parent(&mut b), first.id());
    a.leave(third).unwrap();
    assert_eq!(parent(&mut b), first.id(), "it is left already");
    a.leave(first).unwrap();
    assert_eq!(parent(&mut b), 0);
    // A recorder leaves what it entered, and so does a session that closes.
    let mut open = begin(&mut a, 0);
    assert!(a.enter(&mut open).unwrap());
    drop(a);
    assert_eq!(parent(&mut b), 0);
    let [mut a, _] = libraries.recorders();
    let mut open = begin(&mut a, 0);
    assert!(a.enter(&mut open).unwrap());
    libraries.first.close().unwrap();
    assert_eq!(parent(&mut b), 0);
}

#[test]
fn one_library_that_closes_its_session_leaves_the_others_recording() {
    let libraries = libraries(2);
    let [mut a, mut b] = libraries.recorders();
    libraries.first.close().unwrap();
    assert!(a.begin(&TaskInfo::default()).is_err());
    let before = libraries.second.counters().records;
    let mut task = begin(&mut b, 0);
    b.end(&mut task).unwrap();
    assert_eq!(libraries.second.counters().records, before + 2);
    assert_eq!(libraries.second.counters().dropped_no_host, 0);
}
