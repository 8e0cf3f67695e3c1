//! Results do not depend on chunks, parts, threads or vector instructions.

use proptest::prelude::*;
use tensortap_abi::DType;
use tensortap_judge::{
    BLOCK, Comparison, DetailPass, Level, MetricsPass, Pass, Predicate, QuickPass, Rule, Stream,
};

use crate::flat;
use crate::sample::{Random, pair};

/// All results as text, which shows every bit of a number and makes NaN equal to itself.
fn whole(comparison: &Comparison, dump: &[u8], golden: &[u8], threads: usize) -> [String; 3] {
    [
        format!("{:?}", comparison.full(dump, golden, threads).unwrap()),
        format!("{:?}", comparison.quick(dump, golden, threads).unwrap()),
        format!("{:?}", comparison.detail(dump, golden, threads).unwrap()),
    ]
}

/// The same results from chunks and from parts that begin at multiples of a block.
fn cut<P: Pass>(comparison: &Comparison, bytes: (&[u8], &[u8]), cuts: &[u64], seed: u64) -> P::Output {
    let mut random = Random::new(seed);
    let mut ends: Vec<u64> = cuts.iter().map(|cut| cut * BLOCK as u64).collect();
    ends.extend([0, comparison.numel()]);
    ends.retain(|end| *end <= comparison.numel());
    ends.sort_unstable();
    ends.dedup();
    let mut whole: Option<Stream<'_, P>> = None;
    for range in ends.windows(2) {
        let mut part = comparison.part::<P>(range[0]).unwrap();
        feed(&mut part, comparison, bytes, (range[0], range[1]), &mut random);
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => whole.join(part).unwrap(),
        }
    }
    whole.unwrap_or_else(|| comparison.stream()).finish().unwrap()
}

fn feed<P: Pass>(
    part: &mut Stream<'_, P>,
    comparison: &Comparison,
    (dump, golden): (&[u8], &[u8]),
    (mut at, end): (u64, u64),
    random: &mut Random,
) {
    while at < end {
        // An even number, so that packed elements end at a byte boundary.
        let count = (random.next() % 1500 / 2 * 2).min(end - at);
        let slice = |dtype: DType, bytes: &[u8]| {
            let byte = |element: u64| usize::try_from(dtype.packed_bytes(element).unwrap()).unwrap();
            bytes[byte(at)..byte(at + count)].to_vec()
        };
        let (dump, golden) = (slice(comparison.dump_dtype(), dump), slice(comparison.golden_dtype(), golden));
        part.update(&dump, &golden).unwrap();
        at += count;
    }
}

fn rules() -> impl Strategy<Value = Predicate> {
    prop_oneof![
        (0.0..0.1, 0.0..0.1).prop_map(|(rtol, atol)| Predicate::Close { rtol, atol }),
        (0..5u64).prop_map(Predicate::Ulps),
        Just(Predicate::BitExact),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn results_do_not_depend_on_chunks_parts_or_instructions(
        dtype in prop::sample::select(&DType::ALL[..]),
        numel in 0..9000usize,
        predicate in rules(),
        cuts in prop::collection::vec(0..9u64, 0..4),
        seed in any::<u64>(),
    ) {
        let (dump, golden) = pair(dtype, numel, seed);
        let rule = Rule { predicate, ..Rule::for_dtype(dtype) };
        let comparison = flat(dtype, numel, rule);
        let expected = whole(&comparison, &dump, &golden, 1);
        for level in Level::available() {
            let comparison = comparison.clone().at_level(level);
            let bytes = (&dump[..], &golden[..]);
            let results = [
                format!("{:?}", cut::<MetricsPass>(&comparison, bytes, &cuts, seed)),
                format!("{:?}", cut::<QuickPass>(&comparison, bytes, &cuts, seed)),
                format!("{:?}", cut::<DetailPass>(&comparison, bytes, &cuts, seed)),
            ];
            prop_assert_eq!(&results, &expected, "{}", level.name());
        }
    }

    #[test]
    fn arbitrary_bytes_are_compared_without_a_panic(
        dtype in prop::sample::select(&DType::ALL[..]),
        dump in prop::collection::vec(any::<u8>(), 64),
        golden in prop::collection::vec(any::<u8>(), 64),
        predicate in rules(),
    ) {
        let numel = 64 * 8 / dtype.bits() as usize;
        let comparison = flat(dtype, numel, Rule { predicate, ..Rule::for_dtype(dtype) });
        let metrics = comparison.full(&dump, &golden, 1).unwrap();
        let detail = comparison.detail(&dump, &golden, 1).unwrap();
        let by_size: u64 = detail.decades.iter().map(|decade| decade.count).sum();
        prop_assert_eq!(detail.equal + detail.unmeasured + by_size, metrics.elements);
        prop_assert_eq!(detail.axes[0].failing.iter().sum::<u64>(), metrics.failing);
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    const NUMEL: usize = 600_001;
    for dtype in [DType::Float32, DType::BFloat16, DType::Float64, DType::Int64, DType::Float4E2M1] {
        let (dump, golden) = pair(dtype, NUMEL, 11);
        let comparison = flat(dtype, NUMEL, Rule::for_dtype(dtype));
        let expected = whole(&comparison, &dump, &golden, 1);
        for threads in [0, 2, 3, 7, 64] {
            assert_eq!(whole(&comparison, &dump, &golden, threads), expected, "{dtype} {threads}");
        }
    }
}
