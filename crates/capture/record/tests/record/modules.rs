//! Tests images of modules and descriptions of launches.

use std::fs;

use tensortap_abi::{DumpGeometry, MAX_IMAGE_BYTES};
use tensortap_format::{Dump, Launch, Module, verify};
use tensortap_record::*;

const GEOMETRY: DumpGeometry = DumpGeometry { lanes: 4, buffers: 4, records: 16, arena_bytes: 64 << 10 };

/// Bytes without a repeating pattern.
fn image(bytes: u64, seed: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[5]).collect()
}

/// Records into a new folder and opens the dump.
fn record(options: FolderOptions, record: impl FnOnce(&mut ThreadRecorder)) -> (tempfile::TempDir, Dump) {
    let dir = tempfile::tempdir().unwrap();
    let session = Session::in_folder(&dir.path().join("dump"), &options).unwrap();
    let mut recorder = session.thread().unwrap();
    record(&mut recorder);
    drop(recorder);
    session.close().unwrap();
    let dump = Dump::open(&dir.path().join("dump")).unwrap();
    (dir, dump)
}

fn files(dump: &Dump) -> Vec<String> {
    let entries = fs::read_dir(dump.dir().join("modules")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn stores_images_of_any_size_once_at_every_level_and_policy() {
    let sizes = [0, 1, 4096, 4097, 16 << 10, (64 << 10) - 1, 64 << 10, 300_001, 1 << 20];
    let images: Vec<Vec<u8>> = sizes.map(|bytes| image(bytes, bytes)).to_vec();
    for level in [DumpLevel::Marked, DumpLevel::Full, DumpLevel::Meta, DumpLevel::Hash] {
        for policy in [DumpPolicy::Block, DumpPolicy::Drop] {
            // Filters of tasks do not apply to modules.
            let filter = DumpFilter { first_tasks: 0, max_bytes: 1, ..DumpFilter::ALL };
            let options =
                FolderOptions { level, policy, filter, geometry: GEOMETRY, ..FolderOptions::default() };
            let (_dir, dump) = record(options, |recorder| {
                for (at, image) in images.iter().enumerate() {
                    let name = format!("program {at}");
                    let module = ModuleImage {
                        name: &name,
                        kind: ModuleKind::OpenClC,
                        options: "-cl-fast -DN=4",
                        device: "cpu",
                        image,
                    };
                    let first = recorder.module_image(&module).unwrap();
                    assert_eq!(recorder.module_image(&module).unwrap(), first, "it is the same module");
                    // The same content with different options is a second module in the same file.
                    let other = ModuleImage { options: "", ..module };
                    assert_ne!(recorder.module_image(&other).unwrap(), first);
                }
            });
            let modules = dump.modules();
            assert_eq!(modules.len(), 2 * images.len(), "{level:?} {policy:?}");
            for (at, module) in modules.iter().enumerate() {
                let expected = &images[at / 2];
                let options = if at % 2 == 0 { "-cl-fast -DN=4" } else { "" };
                assert_eq!(module.name, format!("program {}", at / 2));
                assert_eq!(
                    (module.kind, &module.options[..], &module.device[..], module.has_image),
                    (ModuleKind::OpenClC, options, "cpu", true)
                );
                assert_eq!(module.hash, tensortap_values::content_hash(expected));
                assert!(module.image(dump.dir()).unwrap() == *expected, "{level:?} {policy:?} {at}");
            }
            assert_eq!(files(&dump).len(), images.len());
            let findings = verify(&dump).unwrap();
            assert!(findings.is_ok(), "{:?}", findings.problems);
        }
    }
}

#[test]
fn detects_damaged_and_missing_images_and_reads_modules_from_the_manifest() {
    let code = image(5000, 3);
    let (_dir, dump) = record(FolderOptions::default(), |recorder| {
        let module =
            ModuleImage { name: "m", kind: ModuleKind::Cubin, image: &code, ..ModuleImage::default() };
        let module = recorder.module_image(&module).unwrap();
        recorder.define_kernel(&KernelInfo { name: "k", module, args: &[] }).unwrap();
        recorder.module("no image", 7, 9).unwrap();
    });
    let modules = dump.modules();
    assert_eq!(modules.len(), 2);
    assert_eq!(dump.info().kernels[0].module, modules[0].id);
    assert_eq!(
        modules[1],
        Module { id: 2, name: "no image".into(), bytes: 7, hash: 9, ..Module::default() },
        "without an image"
    );
    assert!(modules[1].image(dump.dir()).unwrap_err().to_string().contains("its image was not stored"));
    let path = dump.dir().join(modules[0].file().unwrap());
    assert_eq!(path.file_name().unwrap().to_str(), Some(&*format!("{:032x}.cubin", modules[0].hash)));
    // Without the index.
    let copy = tempfile::tempdir().unwrap();
    for name in ["tensor_dump.json", "graph.json"] {
        fs::copy(dump.dir().join(name), copy.path().join(name)).unwrap();
    }
    assert_eq!(Dump::open(copy.path()).unwrap().modules(), modules);
    let mut damaged = code.clone();
    damaged[4999] ^= 0x80;
    fs::write(&path, &damaged).unwrap();
    let problem = &verify(&dump).unwrap().problems[0];
    assert!(
        problem.what.contains("module 1 (`m`)") && problem.what.contains("differs from the recorded image")
    );
    fs::remove_file(&path).unwrap();
    assert!(verify(&dump).unwrap().problems[0].what.contains("cannot open"), "{:?}", verify(&dump).unwrap());
}

#[test]
fn several_threads_send_images_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let options = FolderOptions { geometry: GEOMETRY, ..FolderOptions::default() };
    let session = Session::in_folder(&dir.path().join("dump"), &options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let session = &session;
            scope.spawn(move || {
                let mut recorder = session.thread().unwrap();
                for seed in [thread, 100] {
                    let code = image(200_000, seed);
                    // All threads send one image under different names.
                    let name = format!("{thread}.{seed}");
                    let module = ModuleImage { name: &name, image: &code, ..ModuleImage::default() };
                    recorder.module_image(&module).unwrap();
                }
            });
        }
    });
    session.close().unwrap();
    let dump = Dump::open(&dir.path().join("dump")).unwrap();
    let modules = dump.modules();
    assert_eq!((modules.len(), files(&dump).len()), (8, 5));
    for module in &modules {
        let (thread, seed) = module.name.split_once('.').unwrap();
        assert!(module.image(dump.dir()).unwrap() == image(200_000, seed.parse().unwrap()), "{thread}");
    }
}

#[test]
fn records_the_grid_and_local_memory_of_a_launch() {
    let (_dir, dump) = record(FolderOptions::default(), |recorder| {
        let kernel = recorder.kernel("k").unwrap();
        let info = TaskInfo {
            work_dims: 2,
            grid: [3, 1, 1],
            group: [4, 2, 1],
            global_size: [10, 2, 0],
            global_offset: [1 << 33, 0, 0],
            ..TaskInfo::of(kernel)
        };
        let mut task = recorder.begin(&info).unwrap();
        recorder.local_memory(&mut task, 0, 256, StringId::NONE).unwrap();
        recorder.scalar(&mut task, 1, DType::Int32, 256, StringId::NONE).unwrap();
        let (before, opaque) = (DumpStage::BeforeDispatch, UncapturedReason::Opaque);
        let handle = recorder.string("handle").unwrap();
        recorder.not_captured(&mut task, before, (2, Role::InOut, handle), opaque).unwrap();
        recorder.end(&mut task).unwrap();
        let mut plain =
            recorder.begin(&TaskInfo { operation: Operation::Barrier, ..TaskInfo::of(kernel) }).unwrap();
        recorder.end(&mut plain).unwrap();
        let shared =
            TaskInfo { shared_bytes: 70_000, cluster: [2, 1, 4], launch_flags: 0xff, ..TaskInfo::of(kernel) };
        let mut shared = recorder.begin(&shared).unwrap();
        recorder.end(&mut shared).unwrap();
    });
    let manifest = fs::read_to_string(dump.dir().join("tensor_dump.json")).unwrap();
    assert!(manifest.contains(r#""arg_name":"handle""#) || manifest.contains(r#""arg_name": "handle""#));
    let details =
        Launch { shared_bytes: 70_000, cluster: [2, 1, 4], is_cooperative: true, ..Launch::default() };
    let expected = Launch {
        work_dims: 2,
        grid: [3, 1, 1],
        group: [4, 2, 1],
        global_size: [10, 2, 0],
        global_offset: [1 << 33, 0, 0],
        ..Launch::default()
    };
    let copy = tempfile::tempdir().unwrap();
    for name in ["tensor_dump.json", "graph.json"] {
        fs::copy(dump.dir().join(name), copy.path().join(name)).unwrap();
    }
    for dump in [dump, Dump::open(copy.path()).unwrap()] {
        let tasks = dump.tasks().unwrap();
        let facts: Vec<_> = tasks.iter().map(|task| task.facts().clone()).collect();
        assert_eq!(facts[0].launch.as_deref(), Some(&expected));
        assert_eq!(facts[2].launch.as_deref(), Some(&details));
        assert_eq!((facts[1].launch.as_deref(), facts[1].operation), (None, Operation::Barrier));
        assert_eq!((facts[0].operation, facts[0].module), (Operation::Kernel, 0));
        let locals: Vec<_> =
            (0..2).map(|at| dump.record(at).unwrap()).map(|r| (r.is_local, r.scalar_bits)).collect();
        assert_eq!(locals, [(true, Some(256)), (false, Some(256))]);
        assert_eq!(dump.uncaptured().unwrap()[0].reason, UncapturedReason::Opaque);
    }
}

#[test]
fn refuses_an_image_that_is_too_large() {
    record(FolderOptions::default(), |recorder| {
        // Untouched zero pages need no memory.
        let huge = vec![0_u8; usize::try_from(MAX_IMAGE_BYTES + 1).unwrap()];
        let module = ModuleImage { image: &huge, ..ModuleImage::default() };
        let refused = recorder.module_image(&module).unwrap_err();
        assert!(refused.to_string().contains("at most 4 GiB"), "{refused}");
    });
}
