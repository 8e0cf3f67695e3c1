//! The variables of a kernel's module are arguments of its launches, with their names. If two modules have a
//! kernel of the same name, each launch has its own variables.

use tensortap::DumpStage;

use crate::{Bench, succeeded};

/// A range: name, stage, content, and whether the host may change it.
type RangeState = (String, DumpStage, Vec<u32>, bool);

#[test]
fn module_variables_are_named_ranges_of_a_launch() {
    let bench = Bench::new();
    // The first write comes before any launch of the module, and the program has not asked for the address.
    let plan = "alloc 0 8\nfill 0 0 0 100 8\ntotal 0 50 1\ntally 0 0 0 8 0\ntally 0 0 2 3 1\nsyncall\ntotal 1 7\ntally 0 0 4 2 1\ntally 0 0 0 1 0\nread 0 0 0 8 1\n";
    let alone = succeeded(&bench.program(plan, None).output().unwrap());
    assert_eq!(succeeded(&bench.program(plan, Some(("run", ""))).output().unwrap()), alone);

    let (before, after) = (DumpStage::BeforeDispatch, DumpStage::AfterCompletion);
    let (mut y, mut total, mut other, mut host) = (vec![100_u32; 8], 50_u32, 1000_u32, vec![5, 6]);
    let bias = [1, 20, 300, 4000];
    let mut expected: Vec<Vec<RangeState>> = Vec::new();
    let range = |name: &str, stage, words: &[u32], host| (name.to_owned(), stage, words.to_vec(), host);
    let tally = |y: &mut Vec<u32>, total: &mut u32, host: &mut Vec<u32>, count: usize| {
        let seen = |stage, y: &[u32], total, host: &[u32]| {
            [
                range("", stage, y, false),
                range("total", stage, &[total], false),
                range("bias", stage, &bias, false),
                range("seen_by_host", stage, host, true),
            ]
        };
        let found = seen(before, y, *total, host);
        (0..count).for_each(|at| y[at] = y[at].wrapping_add(bias[at % 4]).wrapping_add(*total));
        *total += u32::try_from(count).unwrap();
        host[1] += 1;
        [found, seen(after, y, *total, host)].concat()
    };
    let other_tally = |y: &mut Vec<u32>, other: &mut u32, at: usize, count: usize| {
        let seen =
            |stage, y: &[u32], other| [range("", stage, y, false), range("total", stage, &[other], false)];
        let found = seen(before, &y[at..], *other);
        for word in &mut y[at..at + count] {
            *word = word.wrapping_sub(*other);
            *other += 1;
        }
        [found, seen(after, &y[at..], *other)].concat()
    };
    expected.push(vec![range("", after, &y, false)]);
    expected.push(vec![range("", after, &[50], false)]);
    expected.push(tally(&mut y, &mut total, &mut host, 8));
    expected.push(other_tally(&mut y, &mut other, 2, 3));
    other = 7;
    expected.push(vec![range("", after, &[7], false)]);
    expected.push(other_tally(&mut y, &mut other, 4, 2));
    expected.push(tally(&mut y, &mut total, &mut host, 1));
    expected.push(vec![range("", before, &y, false)]);

    let dump = bench.dump("run");
    assert!(dump.uncaptured().unwrap().is_empty(), "{:?}", dump.uncaptured().unwrap().first());
    let tasks = dump.tasks().unwrap();
    let mut ids: Vec<u64> = tasks.iter().map(|task| task.key().task_id).collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), expected.len());
    for (place, (id, expected)) in ids.into_iter().zip(expected).enumerate() {
        let records = dump
            .records()
            .map(Result::unwrap)
            .filter(|record| record.task_id == id && !record.shape().is_empty());
        let mut seen: Vec<(u16, RangeState)> = records
            .map(|record| {
                assert!(
                    dump.arg_name(&record).is_none() || record.extent_known,
                    "a variable ends where it does"
                );
                let words = dump
                    .payload(&record)
                    .unwrap()
                    .as_chunks()
                    .0
                    .iter()
                    .map(|word| u32::from_le_bytes(*word))
                    .collect();
                let name = dump.arg_name(&record).unwrap_or_default().to_owned();
                (record.arg_index, (name, record.stage, words, record.host_writable))
            })
            .collect();
        seen.sort_unstable_by_key(|(arg, (_, stage, ..))| (*stage as u8, *arg));
        let seen: Vec<RangeState> = seen.into_iter().map(|(_, seen)| seen).collect();
        assert_eq!(seen, expected, "task {place}");
    }
    let modules: Vec<u32> =
        tasks.iter().map(|task| task.facts().func_id[0]).filter(|&kernel| kernel != u32::MAX).collect();
    assert_eq!(
        modules.iter().collect::<std::collections::HashSet<_>>().len(),
        2,
        "two kernels have the same name"
    );
}

#[test]
fn variables_that_a_kernel_cannot_address_are_not_its_ranges() {
    let bench = Bench::new();
    succeeded(&bench.program("alloc 0 8\nplain 0 0 0 5 8 0\n", Some(("run", ""))).output().unwrap());
    let dump = bench.dump("run");
    assert!(dump.uncaptured().unwrap().is_empty(), "{:?}", dump.uncaptured().unwrap().first());
    let records = dump.records().map(Result::unwrap).filter(|record| !record.shape().is_empty());
    let mut seen: Vec<(u16, u8, Option<String>, Vec<u8>)> = records
        .map(|record| {
            let name = dump.arg_name(&record).map(str::to_owned);
            (record.arg_index, record.stage as u8, name, dump.payload(&record).unwrap())
        })
        .collect();
    seen.sort_unstable();
    let (before, after) = (DumpStage::BeforeDispatch as u8, DumpStage::AfterCompletion as u8);
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let weights = || (Some("weights".to_owned()), bytes(&[8, 9]));
    let given: Vec<_> = seen.into_iter().skip(1).collect();
    let expected = [
        (0, after, (None, bytes(&[5, 6, 7, 8, 9, 10, 11, 12]))),
        (3, before, weights()),
        (3, after, weights()),
    ];
    assert_eq!(given, expected.map(|(arg, stage, (name, bytes))| (arg, stage, name, bytes)));
}
