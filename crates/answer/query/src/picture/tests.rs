//! Compares pictures with a plain walk over all elements.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "sizes of a test"
)]

use proptest::prelude::*;
use tensortap::DType;
use tensortap::analysis::compare::Side;
use tensortap::values::{Value, element_bits, put_element_bits};

use super::*;
use crate::show::Slice;

const DTYPES: [DType; 6] =
    [DType::Float32, DType::BFloat16, DType::Int4, DType::Int64, DType::UInt8, DType::Float8E5M2];

/// Pseudorandom bytes.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn tensor(dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Source<'static> {
    Source::of_side(Side::of_bytes(dtype, shape, bytes))
}

fn whole_bytes(dtype: DType, shape: &[u64]) -> usize {
    usize::try_from(dtype.packed_bytes(shape.iter().product()).unwrap()).unwrap()
}

/// Coordinates of all elements of a tensor, in order.
fn coordinates(shape: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for &size in shape {
        all = all.iter().flat_map(|at| (0..size).map(|p| [&at[..], &[p]].concat())).collect();
    }
    all
}

/// A tensor as a list of coordinates and values; `None` for elements that are not stored.
fn elements(dtype: DType, shape: &[u64], bytes: &[u8]) -> Vec<(Vec<u64>, Option<Value>)> {
    let value = |place| element_bits(dtype, bytes, place).map(|bits| Value::decode(dtype, bits));
    coordinates(shape).into_iter().enumerate().map(|(place, at)| (at, value(place))).collect()
}

fn exactly(value: Value) -> i128 {
    match value {
        Value::Int(value) => value.into(),
        Value::UInt(value) => value.into(),
        Value::Bool(value) => value.into(),
        Value::Float(_) | Value::Complex(..) => unreachable!("only called with integers"),
    }
}

/// Complex numbers are drawn as their magnitudes.
fn drawn(value: Value) -> f64 {
    match value {
        Value::Complex(real, imaginary) => real.hypot(imaginary),
        other => other.to_f64(),
    }
}

fn naive_difference(left: Value, right: Value) -> f64 {
    let part = |a: f64, b: f64| naive_difference(Value::Float(a), Value::Float(b));
    match (left, right) {
        (Value::Complex(a, b), Value::Complex(c, d)) => part(a, c).hypot(part(b, d)),
        (Value::Float(a), Value::Float(b)) if a == b || (a.is_nan() && b.is_nan()) => 0.0,
        (Value::Float(a), Value::Float(b)) => a - b,
        (a, b) => (exactly(a) - exactly(b)) as f64,
    }
}

/// The cell of a coordinate on an axis of a tile.
fn cell_on(axis: &TileAxis, at: &[u64]) -> Option<usize> {
    let Some(of) = axis.axis else { return Some(0) };
    let from_first = i64::try_from(at[of]).unwrap() - axis.first;
    let place = u64::try_from(from_first / axis.step).ok().filter(|_| from_first % axis.step == 0)?;
    (place < axis.count).then(|| usize::try_from(place / axis.per_cell).unwrap())
}

/// Expected content of a cell: finite values, NaNs, infinities, missing.
type Naive = (Vec<f64>, u64, u64, u64);

/// Assigns every element to the cells of a tile. `fixed` are the axes that are not drawn.
fn naive(tile: &Tile, fixed: &[(usize, u64)], values: &[(Vec<u64>, Option<f64>)]) -> Vec<Naive> {
    let mut cells = vec![Naive::default(); tile.rows.cells * tile.columns.cells];
    for (at, value) in values.iter().filter(|(at, _)| fixed.iter().all(|&(axis, place)| at[axis] == place)) {
        let (Some(row), Some(column)) = (cell_on(&tile.rows, at), cell_on(&tile.columns, at)) else {
            continue;
        };
        let (finite, nan, inf, missing) = &mut cells[row * tile.columns.cells + column];
        match value {
            None => *missing += 1,
            Some(value) if value.is_nan() => *nan += 1,
            Some(value) if value.is_infinite() => *inf += 1,
            Some(value) => finite.push(*value),
        }
    }
    cells
}

fn check(tile: &Tile, naive: &[Naive]) -> Result<(), TestCaseError> {
    prop_assert_eq!(tile.cells.mean.len(), naive.len());
    let count = |list: &Option<Vec<u64>>, place: usize| list.as_ref().map_or(0, |list| list[place]);
    for (place, (finite, nan, inf, missing)) in naive.iter().enumerate() {
        let counts =
            (count(&tile.cells.nan, place), count(&tile.cells.inf, place), count(&tile.cells.missing, place));
        prop_assert_eq!(counts, (*nan, *inf, *missing), "cell {}", place);
        let mean = tile.cells.mean[place];
        prop_assert_eq!(mean.is_nan(), finite.is_empty());
        let (low, high) =
            finite.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
        if let (Some(min), Some(max), false) = (&tile.cells.min, &tile.cells.max, finite.is_empty()) {
            prop_assert_eq!((min[place], max[place]), (low, high));
        }
        if !finite.is_empty() {
            let naive_mean = finite.iter().map(|v| v / finite.len() as f64).sum::<f64>();
            let size = low.abs().max(high.abs());
            prop_assert!((mean - naive_mean).abs() <= size * 1e-9, "{} {}", mean, naive_mean);
        }
    }
    Ok(())
}

/// A dtype, a shape, a slice `start:end:step` for each axis, a seed for the content, and a frame.
type Case = (DType, Vec<u64>, Vec<(i64, i64, i64)>, u64, Frame);

fn cases() -> impl Strategy<Value = Case> {
    let frame = (1_usize..6, 1_usize..6).prop_map(|(rows, columns)| Frame { rows, columns });
    let axes = proptest::collection::vec((1_u64..7, -8_i64..8, -8_i64..8, -3_i64..4), 0..4);
    (proptest::sample::select(&DTYPES), axes, any::<u64>(), frame).prop_map(|(dtype, axes, seed, frame)| {
        let shape = axes.iter().map(|axis| axis.0).collect();
        let cuts = axes.iter().map(|&(_, start, end, step)| (start, end, if step == 0 { 1 } else { step }));
        (dtype, shape, cuts.collect(), seed, frame)
    })
}

fn slice_of(cuts: &[(i64, i64, i64)]) -> Slice {
    let terms: Vec<String> = cuts.iter().map(|(start, end, step)| format!("{start}:{end}:{step}")).collect();
    if terms.is_empty() { Slice::default() } else { Slice::parse(&terms.join(",")).unwrap() }
}

/// The axes that a tile does not draw, with their positions.
fn fixed(tile: &Tile, slice: &Slice, shape: &[u64]) -> Vec<(usize, u64)> {
    let is_drawn = |axis| tile.rows.axis == Some(axis) || tile.columns.axis == Some(axis);
    let cuts = slice.cuts(shape).unwrap().into_iter().enumerate();
    cuts.filter(|(axis, _)| !is_drawn(*axis))
        .map(|(axis, cut)| (axis, u64::try_from(cut.first).unwrap()))
        .collect()
}

proptest! {
    #[test]
    fn a_tile_matches_a_plain_walk_over_all_elements((dtype, shape, cuts, seed, frame) in cases(), lost in 0_usize..9, turned: bool) {
        let mut bytes = noise(seed, whole_bytes(dtype, &shape));
        bytes.truncate(bytes.len().saturating_sub(lost));
        let slice = slice_of(&cuts);
        let axes = if turned && shape.len() > 1 { (Some(1), Some(0)) } else { (None, None) };
        let source = tensor(dtype, &shape, bytes.clone());
        let tile = Tile::of(PictureInput::tensor(&source), &slice, axes, frame).unwrap();
        let values: Vec<_> =
            elements(dtype, &shape, &bytes).into_iter().map(|(at, v)| (at, v.map(drawn))).collect();
        let expected = naive(&tile, &fixed(&tile, &slice, &shape), &values);
        check(&tile, &expected)?;
        let there: usize = expected.iter().map(|(finite, nan, inf, missing)| finite.len() + (nan + inf + missing) as usize).sum();
        prop_assert_eq!((tile.elements, tile.looked_at), (there as u64, there as u64));
        prop_assert!(tile.rows.cells <= frame.rows && tile.columns.cells <= frame.columns);
        prop_assert!(tile.bytes_read <= bytes.len() as u64 * tile.looked_at.max(1));
    }

    #[test]
    fn a_difference_is_exact_for_every_element((dtype, shape, cuts, seed, frame) in cases(), near: bool) {
        let bytes = noise(seed, whole_bytes(dtype, &shape));
        let mut other = noise(if near { seed } else { seed ^ 0x5555 }, bytes.len());
        if near && shape.iter().product::<u64>() > 0 {
            let bits = element_bits(dtype, &other, 0).unwrap();
            put_element_bits(dtype, &mut other, 0, bits ^ 1);
        }
        let slice = slice_of(&cuts);
        let (left, right) = (tensor(dtype, &shape, bytes.clone()), tensor(dtype, &shape, other.clone()));
        let subject = PictureInput::difference(&left, &right).unwrap();
        let tile = Tile::of(subject, &slice, (None, None), frame).unwrap();
        let values: Vec<_> = elements(dtype, &shape, &bytes)
            .into_iter()
            .zip(elements(dtype, &shape, &other))
            .map(|((at, a), (_, b))| (at, a.zip(b).map(|(a, b)| naive_difference(a, b))))
            .collect();
        check(&tile, &naive(&tile, &fixed(&tile, &slice, &shape), &values))?;

        let profile = Profile::of(subject, &slice, 3).unwrap();
        for bins in &profile.axes {
            let cuts = slice.cuts(&shape).unwrap();
            let mut expected = vec![Bin::default(); bins.bins.len()];
            for (at, value) in &values {
                let on = |axis: usize| {
                    let cut = cuts[axis];
                    let from = i64::try_from(at[axis]).unwrap() - cut.first;
                    u64::try_from(from / cut.step).ok().filter(|p| from % cut.step == 0 && *p < cut.count)
                };
                let (true, Some(value)) = ((0..shape.len()).all(|axis| on(axis).is_some()), value) else { continue };
                let bin = &mut expected[(on(bins.axis).unwrap() / bins.per_bin) as usize];
                bin.elements += 1;
                bin.not_zero += u64::from(*value != 0.0);
                bin.not_finite += u64::from(!value.is_finite());
                bin.greatest = bin.greatest.max(if value.is_finite() { value.abs() } else { 0.0 });
            }
            for (bin, expected) in bins.bins.iter().zip(&expected) {
                let plain = |bin: &Bin| (bin.elements, bin.not_zero, bin.not_finite, bin.greatest);
                prop_assert_eq!(plain(bin), plain(expected));
                prop_assert!(bin.sum <= bin.greatest * bin.elements as f64 * 1.000_001);
            }
        }
    }

    #[test]
    fn two_tensors_are_counted_in_the_same_ranges((dtype, shape, cuts, seed, _) in cases(), bins in 1_usize..7) {
        let bytes = [noise(seed, whole_bytes(dtype, &shape)), noise(seed ^ 77, whole_bytes(dtype, &shape))];
        let sources = bytes.clone().map(|bytes| tensor(dtype, &shape, bytes));
        let slice = slice_of(&cuts);
        let spread = Spread::of(&[&sources[0], &sources[1]], &slice, bins).unwrap();
        let view = slice.view(&shape).unwrap();
        let mut positions = vec![view.first];
        for dim in &view.dims {
            positions = positions
                .iter()
                .flat_map(|at| (0..dim.count).map(move |place| at + dim.stride * place as i64))
                .collect();
        }
        let values = bytes.map(|bytes| {
            let value = |&at: &i64| drawn(Value::decode(dtype, element_bits(dtype, &bytes, at as usize).unwrap()));
            positions.iter().map(value).collect::<Vec<f64>>()
        });
        let finite = values.iter().flatten().copied().filter(|v| v.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        prop_assert_eq!(spread.min, (low <= high).then_some(low));
        prop_assert_eq!(spread.max, (low <= high).then_some(high));
        for (series, values) in spread.series.iter().zip(&values) {
            let finite = values.iter().filter(|v| v.is_finite()).count() as u64;
            prop_assert_eq!(series.counts.iter().sum::<u64>(), finite);
            prop_assert_eq!(series.nan, values.iter().filter(|v| v.is_nan()).count() as u64);
            prop_assert_eq!(series.inf, values.iter().filter(|v| v.is_infinite()).count() as u64);
            prop_assert_eq!(series.looked_at, positions.len() as u64);
            // Without finite values, `high` is an infinity, which is in no range.
            let at_the_top = values.iter().filter(|v| v.is_finite() && **v == high).count() as u64;
            prop_assert!(series.counts.last().copied().unwrap_or(0) >= at_the_top);
        }
        prop_assert_eq!(spread.series[0].counts.len(), spread.series[1].counts.len());
    }
}

#[test]
fn reads_only_the_requested_corner() {
    let shape = [4096, 4096];
    let source = tensor(DType::UInt8, &shape, vec![7; 1 << 24]);
    let corner = Slice::parse("100:104,200:300").unwrap();
    let frame = Frame { rows: 64, columns: 64 };
    let tile = Tile::of(PictureInput::tensor(&source), &corner, (None, None), frame).unwrap();
    assert_eq!((tile.elements, tile.bytes_read), (400, 400));
    let column = Slice::parse(":,5").unwrap();
    let tile = Tile::of(PictureInput::tensor(&source), &column, (None, None), frame).unwrap();
    assert_eq!((tile.elements, tile.bytes_read), (4096, 4096), "each element is a read of its own");
    let turned = Tile::of(PictureInput::tensor(&source), &corner, (Some(1), Some(0)), frame).unwrap();
    assert_eq!((turned.bytes_read, turned.rows.count, turned.columns.count), (400, 100, 4));
}

#[test]
fn reads_a_part_of_a_huge_slice_and_reports_it() {
    // A huge shape with almost nothing stored: the picture must not walk over all positions.
    let shape = [1 << 24, 1 << 24];
    let source = tensor(DType::Float32, &shape, 1.5_f32.to_le_bytes().to_vec());
    let frame = Frame { rows: 8, columns: 8 };
    let tile =
        Tile::of(PictureInput::tensor(&source), &Slice::parse("...").unwrap(), (None, None), frame).unwrap();
    assert_eq!(tile.elements, 1 << 48);
    assert!(tile.looked_at <= MOST_ELEMENTS && tile.looked_at >= 64, "{}", tile.looked_at);
    assert_eq!((tile.min, tile.missing), (Some(1.5), tile.looked_at - 1));
    assert_eq!(tile.cells.mean[0], 1.5);
}

#[test]
fn writes_elements_as_text_if_each_has_a_cell() {
    let bytes: Vec<u8> =
        [1.5_f32, f32::NAN, -0.1, f32::INFINITY].iter().flat_map(|v| v.to_le_bytes()).collect();
    let source = tensor(DType::Float32, &[2, 2], bytes.clone());
    let frame = Frame { rows: 9, columns: 9 };
    let all = Slice::parse("...").unwrap();
    let tile = Tile::of(PictureInput::tensor(&source), &all, (None, None), frame).unwrap();
    assert_eq!(tile.cells.text.unwrap(), ["1.5", "NaN", "-0.1", "Infinity"]);
    let golden = tensor(DType::Float32, &[2, 2], [&bytes[..12], &1_f32.to_le_bytes()].concat());
    let difference = PictureInput::difference(&source, &golden).unwrap();
    let tile = Tile::of(difference, &all, (None, None), frame).unwrap();
    assert_eq!(tile.cells.text.unwrap(), ["0", "0", "0", "Infinity"]);
    assert_eq!((tile.nan, tile.inf), (0, 1));
    let other = tensor(DType::Float32, &[4], bytes);
    assert!(PictureInput::difference(&source, &other).is_err());
}

#[test]
fn a_tile_as_json_has_null_for_nan_and_exact_text() {
    let bytes: Vec<u8> = [f64::NAN, 1e300, 0.1].iter().flat_map(|v| v.to_le_bytes()).collect();
    let source = tensor(DType::Float64, &[3], bytes);
    let tile = Tile::of(
        PictureInput::tensor(&source),
        &Slice::parse(":").unwrap(),
        (None, None),
        Frame { rows: 9, columns: 9 },
    );
    let json = serde_json::to_string(&tile.unwrap()).unwrap();
    assert!(json.contains(r#""mean":[null,1e+300,0.1]"#), "{json}");
    assert!(
        json.contains(r#""text":["NaN","1e+300","0.1"]"#) || json.contains(r#""text":["NaN","1e300","0.1"]"#),
        "{json}"
    );
}
