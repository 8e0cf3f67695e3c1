//! Device threads against a host thread that drains while they record.

use core::time::Duration;
use std::time::Instant;

use tensortap_abi::*;
use tensortap_recorder::*;
use tensortap_sync::Counter;
use tensortap_values::content_hash;

use crate::host::{FakeHost, state_offset};
use crate::rig::{Rig, input};

struct RealLink(Instant);

impl HostLink for RealLink {
    fn wake_host(&self) {}

    fn pause(&self, _limit: Duration) {
        std::thread::yield_now();
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap()
    }

    fn waiting(&self, _waiting: bool) {}
}

#[test]
fn every_thread_s_records_arrive_whole_while_the_host_drains() {
    const THREADS: u32 = 3;
    let rounds: u64 = if cfg!(miri) { 8 } else { 3000 };
    let geometry = DumpGeometry { lanes: THREADS, buffers: 2, records: 7, arena_bytes: 16 << 10 };
    let rig = Rig::new(geometry);
    // Long but finite: if the host's thread fails, the others end too.
    let options = SetupOptions { liveness_ms: 20_000, ..rig.options(DumpLevel::Full, DumpPolicy::Block) };
    let region = rig.open(&options);
    // From empty to larger than a quarter of the arena; one is larger than the whole arena.
    let sizes = [0, 1, 64, 500, 3000, 4096, 5000, 20_000];
    let tensors: Vec<(TensorDesc, Vec<u8>)> = sizes
        .iter()
        .map(|&bytes| {
            let desc = rig.tensor(bytes);
            (desc, rig.content(&desc))
        })
        .collect();
    let pick = |thread: u64, round: u64| usize::try_from((round * 5 + thread) % sizes.len() as u64).unwrap();
    let ended = Counter::new();
    let began = Instant::now();

    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (region, tensors, ended) = (&region, &tensors, &ended);
            scope.spawn(move || {
                let mut recorder = region.recorder(thread, RealLink(began)).unwrap();
                for round in 0..rounds {
                    let (desc, _) = &tensors[pick(thread.into(), round)];
                    assert_eq!(recorder.tensor(&input(round, desc)), Outcome::Recorded);
                }
                recorder.flush();
                assert!(recorder.counters().held_up_ns > 0);
                ended.next();
            });
        }
        let mut hosts: Vec<FakeHost<'_>> =
            (0..THREADS.into()).map(|thread| FakeHost::new(&rig, thread)).collect();
        while hosts.iter().any(|host| host.state(state_offset!(leases)) != 2) {
            hosts.iter_mut().for_each(FakeHost::drain);
            FakeHost::beat(&rig);
            std::thread::yield_now();
        }
        for (thread, mut host) in (0..).zip(hosts) {
            host.drain();
            assert_eq!(host.taken.len() as u64, rounds);
            for (round, taken) in (0..).zip(&host.taken) {
                let (_, content) = &tensors[pick(thread, round)];
                assert_eq!(taken.record.task_id, round);
                assert!(taken.payload.as_ref() == Some(content), "thread {thread}, round {round}");
                assert_eq!(taken.tensor().hash, content_hash(content).to_le_bytes());
            }
        }
    });
    assert_eq!(ended.count(), u64::from(THREADS));
}
