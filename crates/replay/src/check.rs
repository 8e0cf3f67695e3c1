//! Holds what a task wrote against what it wrote when it was captured.

use tensortap_abi::DType;
use tensortap_analysis::metrics::{self, Metrics, Rule, TensorType};
use tensortap_scene::Tolerance;
use tensortap_values::{Element, element_bits, elements_in};

use crate::OutputReport;

/// What is compared, and how.
pub struct Comparison<'a> {
    /// Position in the payload.
    pub arg_index: u16,
    /// Element type.
    pub dtype: DType,
    /// Elements of the view.
    pub elements: u64,
    /// How far they may be apart; `None` for the default of the dtype.
    pub tolerance: Option<Tolerance>,
    /// What was there before a single dispatch ran: elements it did not change say nothing.
    pub before: Option<&'a [u8]>,
}

impl Comparison<'_> {
    /// Compares packed content; expected content that ends early is compared as far as it goes.
    pub fn report(&self, actual: &[u8], expected: &[u8]) -> OutputReport {
        let bits = self.dtype.bits() as usize;
        let there = elements_in(self.dtype, actual.len().min(expected.len()));
        let count = usize::try_from(self.elements).map_or(there, |elements| elements.min(there));
        let [actual, expected] = [actual, expected].map(|side| &side[..(count * bits).div_ceil(8)]);
        match self.before {
            None if actual == expected => self.same(count as u64),
            None => self.measured(count as u64, actual, expected),
            Some(before) => {
                let (changed, written) = self.only_changed(count, before, actual, expected);
                self.measured(written, &changed, expected)
            }
        }
    }

    /// So many elements compared, and no difference.
    fn same(&self, compared: u64) -> OutputReport {
        OutputReport {
            arg_index: self.arg_index,
            dtype: self.dtype,
            compared,
            elements: self.elements,
            different: 0,
            outside: 0,
            max_abs_err: 0.0,
            first: None,
        }
    }

    /// What was written, with the expected content in place of elements that were not; how many were.
    fn only_changed(&self, count: usize, before: &[u8], actual: &[u8], expected: &[u8]) -> (Vec<u8>, u64) {
        let bits = self.dtype.bits() as usize;
        let mut changed = actual.to_vec();
        let mut written = 0;
        for place in 0..count {
            if element_bits(self.dtype, actual, place) != element_bits(self.dtype, before, place) {
                written += 1;
            } else if bits == 4 {
                let half = 0xf << (4 * (place % 2));
                changed[place / 2] = changed[place / 2] & !half | expected[place / 2] & half;
            } else {
                let bytes = place * bits / 8..(place + 1) * bits / 8;
                changed[bytes.clone()].copy_from_slice(&expected[bytes]);
            }
        }
        (changed, written)
    }

    /// How far two contents of the same length are apart, of which so many elements count.
    fn measured(&self, compared: u64, actual: &[u8], expected: &[u8]) -> OutputReport {
        let metrics = self.metrics(actual, expected);
        let first = first_difference(self.dtype, actual, expected)
            .filter(|&place| place < metrics.elements && metrics.differing != Some(0));
        let text = |side: &[u8], place: u64| {
            let bits = usize::try_from(place).ok().and_then(|place| element_bits(self.dtype, side, place));
            Element { dtype: self.dtype, bits: bits.unwrap_or(0) }.to_string()
        };
        OutputReport {
            different: metrics.differing.unwrap_or(metrics.elements),
            outside: metrics.failing,
            max_abs_err: if metrics.mismatched > 0 { f64::NAN } else { metrics.max_abs },
            first: first.map(|place| (place, text(actual, place), text(expected, place))),
            ..self.same(compared)
        }
    }

    fn metrics(&self, actual: &[u8], expected: &[u8]) -> Metrics {
        let count = (elements_in(self.dtype, actual.len()) as u64).min(self.elements);
        let tensor = TensorType::new(self.dtype, &[count]);
        let rule = match self.tolerance {
            Some(Tolerance { rtol, atol }) => Rule::close(self.dtype, rtol, atol),
            None => Rule::for_dtype(self.dtype),
        };
        let compare = |rule| metrics::Comparison::new(&tensor, &tensor, rule)?.full(actual, expected, 1);
        // A tolerance that no number is within comes from a dump, so it is no reason to panic.
        compare(rule)
            .or_else(|_| compare(Rule::bitexact(self.dtype)))
            .expect("both sides have the bytes of their elements")
    }
}

/// The first element with other bits, counted from the first byte.
fn first_difference(dtype: DType, actual: &[u8], expected: &[u8]) -> Option<u64> {
    let mut pairs = actual.iter().zip(expected);
    let byte = pairs.position(|(a, e)| a != e)?;
    Some(match dtype.bits() as usize {
        4 => byte * 2 + usize::from((actual[byte] ^ expected[byte]) & 0xf == 0),
        bits => byte / (bits / 8),
    } as u64)
}

/// In words, what is wrong with an output.
pub fn describe(report: &OutputReport) -> String {
    let OutputReport { arg_index, compared, elements, different, first, max_abs_err, .. } = report;
    match first {
        None if *compared == 0 && *elements > 0 => {
            format!("argument {arg_index}: nothing was written, 0 of {elements} elements compared")
        }
        None => format!("argument {arg_index}: as captured"),
        Some((place, here, captured)) => format!(
            "argument {arg_index}: {different} of {compared} elements differ, first element {place}: {here}, captured \
             {captured}; max error {max_abs_err:.3e}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(dtype: DType, elements: u64) -> Comparison<'static> {
        Comparison { arg_index: 3, dtype, elements, tolerance: None, before: None }
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn a_bit_is_a_difference_and_a_rule_may_forgive_it() {
        let expected = f32s(&[1.0, 2.0, f32::INFINITY, 0.0]);
        let close = f32s(&[1.0, 2.000_000_2, f32::INFINITY, -0.0]);
        let report = comparison(DType::Float32, 4).report(&close, &expected);
        assert_eq!((report.compared, report.different, report.outside), (4, 2, 0));
        assert!(!report.bitexact() && report.within_rule());
        assert_eq!(report.first, Some((1, "2.0000002".into(), "2.0".into())));
        let nan = comparison(DType::Float32, 4).report(&f32s(&[f32::NAN, 2.0, 3.0, 0.0]), &expected);
        assert_eq!((nan.different, nan.outside), (2, 2));
        assert!(nan.max_abs_err.is_nan(), "{nan:?}");
        assert!(
            describe(&nan).contains("2 of 4 elements differ, first element 0: NaN"),
            "{}",
            describe(&nan)
        );
    }

    #[test]
    fn integers_and_the_last_odd_nibble_are_compared_exactly() {
        let report = comparison(DType::Int32, 2).report(&[1, 0, 0, 0, 2, 0, 0, 0], &[1, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!((report.different, report.outside), (1, 1));
        let report = comparison(DType::Int4, 3).report(&[0x21, 0xf3], &[0x21, 0x03]);
        assert_eq!((report.compared, report.different), (3, 0));
        let report = comparison(DType::Int4, 3).report(&[0x21, 0x04], &[0x21, 0x03]);
        assert_eq!((report.compared, report.different), (3, 1));
        assert_eq!(report.first, Some((2, "4".into(), "3".into())));
        let report = comparison(DType::Int4, 4).report(&[0x31, 0xf3], &[0x21, 0x03]);
        assert_eq!((report.different, report.first), (2, Some((1, "3".into(), "2".into()))));
    }

    #[test]
    fn of_a_single_dispatch_only_what_it_changed_is_compared_and_nothing_is_no_pass() {
        let (before, expected) = (f32s(&[9.0; 4]), f32s(&[1.0, 2.0, 3.0, 4.0]));
        let comparison = Comparison { before: Some(&before), ..comparison(DType::Float32, 4) };
        let half = comparison.report(&f32s(&[1.0, 2.0, 9.0, 9.0]), &expected);
        assert_eq!((half.compared, half.different), (2, 0));
        assert!(half.bitexact());
        let none = comparison.report(&before, &expected);
        assert!(!none.bitexact() && none.compared == 0);
        assert!(describe(&none).contains("nothing was written"), "{}", describe(&none));
    }

    #[test]
    fn of_a_single_dispatch_halves_of_a_byte_are_told_apart() {
        let before = [0x00, 0x00];
        let comparison = Comparison { before: Some(&before), ..comparison(DType::Int4, 3) };
        let report = comparison.report(&[0x50, 0x06], &[0x51, 0x07]);
        assert_eq!((report.compared, report.different, report.outside), (2, 1, 1));
        assert_eq!(report.first, Some((2, "6".into(), "7".into())));
    }

    #[test]
    fn a_tolerance_that_makes_no_sense_forgives_nothing() {
        for atol in [-1.0, f64::NAN] {
            let tolerance = Some(Tolerance { rtol: 0.0, atol });
            let comparison = Comparison { tolerance, ..comparison(DType::Float32, 1) };
            let report = comparison.report(&f32s(&[1.000_000_1]), &f32s(&[1.0]));
            assert_eq!((report.different, report.outside), (1, 1));
        }
    }

    #[test]
    fn expected_content_that_ends_early_is_compared_as_far_as_it_goes() {
        let report = comparison(DType::Float32, 4).report(&f32s(&[1.0, 2.0, 3.0, 4.0]), &f32s(&[1.0, 2.0]));
        assert_eq!((report.compared, report.elements, report.different), (2, 4, 0));
    }
}
