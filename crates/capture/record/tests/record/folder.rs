//! Tests sessions with their own folder.

use tensortap_format::{Dump, Status};
use tensortap_record::*;

#[test]
fn a_session_with_its_own_folder_needs_no_recorder() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("dump");
    let session = Session::in_folder(&folder, &FolderOptions::default()).unwrap();
    let mut recorder = session.thread().unwrap();
    // Larger than the arena, so it is recorded in pieces.
    let large: Vec<u32> = (0..3_000_000).collect();
    let mut task = recorder.begin(&TaskInfo::default()).unwrap();
    recorder
        .tensor(&mut task, DumpStage::BeforeDispatch, &Tensor::of(&large[..], DType::UInt32).unwrap())
        .unwrap();
    recorder.end(&mut task).unwrap();
    drop(recorder);
    let summary = session.close().unwrap().expect("this process collected it");
    assert_eq!((summary.status, summary.counters.dropped_records), (Status::Complete, 0));
    let dump = Dump::open(&folder).unwrap();
    assert_eq!((&dump.info().runtime[..], &dump.info().platform[..]), ("record", "host"));
    let bytes: Vec<u8> = large.iter().flat_map(|element| element.to_le_bytes()).collect();
    assert!(dump.payload(&dump.record(0).unwrap()).unwrap() == bytes);
    let again = Session::in_folder(&folder, &FolderOptions::default());
    assert!(matches!(again, Err(RecordError::Folder { .. })), "the folder contains a dump");
}

#[test]
fn two_sessions_with_folders_write_two_dumps() {
    let dir = tempfile::tempdir().unwrap();
    let sessions =
        ["a", "b"].map(|name| Session::in_folder(&dir.path().join(name), &FolderOptions::default()).unwrap());
    for (session, tasks) in sessions.iter().zip([1, 2]) {
        let mut recorder = session.thread().unwrap();
        for _ in 0..tasks {
            let mut task = recorder.begin(&TaskInfo::default()).unwrap();
            recorder.end(&mut task).unwrap();
        }
    }
    for session in sessions {
        session.close().unwrap();
    }
    let tasks =
        ["a", "b"].map(|name| Dump::open(&dir.path().join(name)).unwrap().tasks().unwrap().iter().count());
    assert_eq!(tasks, [1, 2]);
}
