//! Compares what a task wrote with what it wrote when it was captured, or with what it should have written.

use tensortap_abi::DType;
use tensortap_analysis::reference::{ExpectedTensor, as_compared};
use tensortap_judge::{CompareError, Comparison, Metrics, Rule, TensorType, Tolerance, coordinate};
use tensortap_values::{Element, element_bits, elements_in, put_element_bits};

use crate::{Check, Difference, OutputReport};

/// How to compare one output.
pub struct OutputCheck<'a> {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: &'a [u64],
    /// Elements of the view.
    pub elements: u64,
    /// Tolerance; `None` for the default of the dtype.
    pub tolerance: Option<Tolerance>,
    /// Content before a single dispatch ran. Only elements that the dispatch changed are compared.
    pub before: Option<&'a [u8]>,
}

impl OutputCheck<'_> {
    /// Compares packed content. If the expected content is shorter, compares only its length.
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

    /// Compares packed content with a reference, by the rule. For a single dispatch, compares only the
    /// elements it changed, with the rounded reference.
    pub fn against_reference(&self, actual: &[u8], expected: &ExpectedTensor) -> OutputReport {
        let rounded = expected.rounded(self.dtype);
        let mut report = self.report(actual, &rounded);
        if self.before.is_some() || report.compared < self.elements {
            return report;
        }
        let (dtype, content) = as_compared(self.dtype, actual);
        let types = (TensorType::new(dtype, self.shape), TensorType::new(expected.dtype, self.shape));
        let measure =
            |rule| Comparison::across_dtypes(&types.0, &types.1, rule)?.full(&content, &expected.bytes, 1);
        let (Ok(metrics), Ok(worst)) = (measure(self.rule()), self.worst(&types, &content, &expected.bytes))
        else {
            return report;
        };
        report.outside = metrics.failing;
        report.max_abs_err = metrics.max_abs_err();
        report.first = worst.map(|place| self.difference(place, actual, &rounded));
        report
    }

    /// The worst element outside the rule.
    fn worst(
        &self,
        types: &(TensorType, TensorType),
        actual: &[u8],
        expected: &[u8],
    ) -> Result<Option<u64>, CompareError> {
        let comparison = Comparison::across_dtypes(&types.0, &types.1, self.rule())?;
        let detail = comparison.detail(actual, expected, 1)?;
        Ok(detail.worst.iter().find(|worst| worst.fails).map(|worst| worst.index))
    }

    /// Report of a comparison without differences.
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

    /// The output with the expected content in place of unchanged elements, and the number of changed
    /// elements.
    fn only_changed(&self, count: usize, before: &[u8], actual: &[u8], expected: &[u8]) -> (Vec<u8>, u64) {
        let mut changed = actual.to_vec();
        let mut written = 0;
        for place in 0..count {
            if element_bits(self.dtype, actual, place) != element_bits(self.dtype, before, place) {
                written += 1;
            } else if let Some(expected) = element_bits(self.dtype, expected, place) {
                put_element_bits(self.dtype, &mut changed, place, expected);
            }
        }
        (changed, written)
    }

    /// Report on two contents of the same length, of which `compared` elements count.
    fn measured(&self, compared: u64, actual: &[u8], expected: &[u8]) -> OutputReport {
        let metrics = self.metrics(actual, expected);
        let first = first_difference(self.dtype, actual, expected)
            .filter(|&place| place < metrics.elements && metrics.differing != Some(0));
        OutputReport {
            different: metrics.differing.unwrap_or(metrics.elements),
            outside: metrics.failing,
            max_abs_err: metrics.max_abs_err(),
            first: first.map(|place| self.difference(place, actual, expected)),
            ..self.same(compared)
        }
    }

    fn difference(&self, element: u64, actual: &[u8], expected: &[u8]) -> Difference {
        let text = |side: &[u8]| {
            let bits = usize::try_from(element).ok().and_then(|place| element_bits(self.dtype, side, place));
            Element { dtype: self.dtype, bits: bits.unwrap_or(0) }.to_string()
        };
        let coordinate = coordinate(self.shape, element);
        Difference { element, coordinate, here: text(actual), expected: text(expected) }
    }

    fn rule(&self) -> Rule {
        Rule::declared(self.dtype, self.tolerance)
    }

    fn metrics(&self, actual: &[u8], expected: &[u8]) -> Metrics {
        let count = (elements_in(self.dtype, actual.len()) as u64).min(self.elements);
        let tensor = TensorType::new(self.dtype, &[count]);
        let compare = |rule| Comparison::new(&tensor, &tensor, rule)?.full(actual, expected, 1);
        // An invalid tolerance comes from a dump, so it must not panic.
        compare(self.rule())
            .or_else(|_| compare(Rule::bitexact(self.dtype)))
            .expect("both sides have the bytes of their elements")
    }
}

/// The first element with different bits.
fn first_difference(dtype: DType, actual: &[u8], expected: &[u8]) -> Option<u64> {
    let mut pairs = actual.iter().zip(expected);
    let byte = pairs.position(|(a, e)| a != e)?;
    Some(match dtype.bits() as usize {
        4 => byte * 2 + usize::from((actual[byte] ^ expected[byte]) & 0xf == 0),
        bits => byte / (bits / 8),
    } as u64)
}

/// Describes what is wrong with an output.
pub fn describe(report: &OutputReport, check: Check) -> String {
    let OutputReport { arg_index, compared, elements, different, outside, first, max_abs_err, .. } = report;
    match first {
        None if *compared == 0 && *elements > 0 => {
            format!("argument {arg_index}: nothing was written, so 0 of {elements} elements were compared")
        }
        None => format!("argument {arg_index}: as expected"),
        Some(Difference { coordinate, here, expected, .. }) if check == Check::Captured => format!(
            "argument {arg_index}: {different} of {compared} elements differ, first at {coordinate:?}: got {here}, captured \
             {expected}; max error {max_abs_err:.3e}"
        ),
        Some(Difference { coordinate, here, expected, .. }) => format!(
            "argument {arg_index}: {outside} of {compared} elements outside the rule, worst at {coordinate:?}: got {here}, expected \
             {expected}; max error {max_abs_err:.3e}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use tensortap_judge::Verdict;

    use super::*;

    fn comparison(dtype: DType, elements: u64) -> OutputCheck<'static> {
        OutputCheck { arg_index: 3, dtype, shape: &[2, 2], elements, tolerance: None, before: None }
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn reports_differing_bits_even_within_the_rule() {
        let expected = f32s(&[1.0, 2.0, f32::INFINITY, 0.0]);
        let close = f32s(&[1.0, 2.000_000_2, f32::INFINITY, -0.0]);
        let report = comparison(DType::Float32, 4).report(&close, &expected);
        assert_eq!((report.compared, report.different, report.outside), (4, 2, 0));
        assert!(!report.bitexact() && report.verdict() == Verdict::Within);
        assert_eq!(report.first, Some(at(1, "2.0000002", "2.0")));
        assert!(
            describe(&report, Check::Captured)
                .contains("2 of 4 elements differ, first at [0, 1]: got 2.0000002"),
            "{report:?}"
        );
        let nan = comparison(DType::Float32, 4).report(&f32s(&[f32::NAN, 2.0, 3.0, 0.0]), &expected);
        assert_eq!((nan.different, nan.outside), (2, 2));
        assert!(nan.max_abs_err.is_nan(), "{nan:?}");
        let words = describe(&nan, Check::Captured);
        assert!(words.contains("2 of 4 elements differ, first at [0, 0]: got NaN"), "{words}");
    }

    fn at(element: u64, here: &str, expected: &str) -> Difference {
        let coordinate = vec![element / 2, element % 2];
        Difference { element, coordinate, here: here.into(), expected: expected.into() }
    }

    fn reference(values: &[f64]) -> ExpectedTensor {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        ExpectedTensor {
            arg_index: 3,
            bytes,
            dtype: DType::Float64,
            shape: vec![2, 2],
            from_non_finite: false,
        }
    }

    #[test]
    fn compares_with_the_unrounded_reference_and_reports_the_worst_element() {
        let tolerance = Some(Tolerance { rtol: 0.0, atol: 1e-8 });
        let comparison = OutputCheck { tolerance, ..comparison(DType::Float32, 4) };
        let actual = f32s(&[1.0, 2.0, 3.0, 4.0]);
        let near = comparison.against_reference(&actual, &reference(&[1.0, 2.0, 3.0, 4.0 + 5e-9]));
        assert!(near.verdict() == Verdict::Within && near.different == 0, "{near:?}");
        // The rounded reference would be equal.
        let far = comparison.against_reference(&actual, &reference(&[1.0, 2.0, 3.0, 4.0 + 5e-8]));
        assert_eq!((far.outside, far.different), (1, 0));
        let far = comparison.against_reference(&actual, &reference(&[1.0, 2.5, 7.0, 4.0]));
        assert_eq!((far.outside, far.first.clone()), (2, Some(at(2, "3.0", "7.0"))));
        let words = describe(&far, Check::Reference);
        assert!(
            words.contains("2 of 4 elements outside the rule, worst at [1, 0]: got 3.0, expected 7.0"),
            "{words}"
        );
    }

    #[test]
    fn compares_wide_integers_within_the_precision_of_f64() {
        let comparison = comparison(DType::Int64, 4);
        let bytes =
            |last: i64| [1, 2, 3, last].iter().flat_map(|v: &i64| v.to_le_bytes()).collect::<Vec<_>>();
        let expected = reference(&[1.0, 2.0, 3.0, 9_007_199_254_740_992.0]);
        assert_eq!(comparison.against_reference(&bytes((1 << 53) + 1), &expected).verdict(), Verdict::Within);
        assert_eq!(comparison.against_reference(&bytes(4), &expected).outside, 1);
    }

    #[test]
    fn compares_integers_and_the_last_nibble_exactly() {
        let report = comparison(DType::Int32, 2).report(&[1, 0, 0, 0, 2, 0, 0, 0], &[1, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!((report.different, report.outside), (1, 1));
        let report = comparison(DType::Int4, 3).report(&[0x21, 0xf3], &[0x21, 0x03]);
        assert_eq!((report.compared, report.different), (3, 0));
        let report = comparison(DType::Int4, 3).report(&[0x21, 0x04], &[0x21, 0x03]);
        assert_eq!((report.compared, report.different), (3, 1));
        assert_eq!(report.first, Some(at(2, "4", "3")));
        let report = comparison(DType::Int4, 4).report(&[0x31, 0xf3], &[0x21, 0x03]);
        assert_eq!((report.different, report.first), (2, Some(at(1, "3", "2"))));
    }

    #[test]
    fn compares_only_changed_elements_of_a_single_dispatch_and_fails_without_any() {
        let (before, expected) = (f32s(&[9.0; 4]), f32s(&[1.0, 2.0, 3.0, 4.0]));
        let comparison = OutputCheck { before: Some(&before), ..comparison(DType::Float32, 4) };
        let half = comparison.report(&f32s(&[1.0, 2.0, 9.0, 9.0]), &expected);
        assert_eq!((half.compared, half.different), (2, 0));
        assert!(half.bitexact());
        let none = comparison.report(&before, &expected);
        assert!(!none.bitexact() && none.compared == 0);
        assert!(describe(&none, Check::Captured).contains("nothing was written"), "{none:?}");
    }

    #[test]
    fn compares_nibbles_of_a_single_dispatch_separately() {
        let before = [0x00, 0x00];
        let comparison = OutputCheck { before: Some(&before), ..comparison(DType::Int4, 3) };
        let report = comparison.report(&[0x50, 0x06], &[0x51, 0x07]);
        assert_eq!((report.compared, report.different, report.outside), (2, 1, 1));
        assert_eq!(report.first, Some(at(2, "6", "7")));
    }

    #[test]
    fn an_invalid_tolerance_allows_no_difference() {
        for atol in [-1.0, f64::NAN] {
            let tolerance = Some(Tolerance { rtol: 0.0, atol });
            let comparison = OutputCheck { tolerance, ..comparison(DType::Float32, 1) };
            let report = comparison.report(&f32s(&[1.000_000_1]), &f32s(&[1.0]));
            assert_eq!((report.different, report.outside), (1, 1));
        }
    }

    #[test]
    fn compares_only_the_length_of_shorter_expected_content() {
        let report = comparison(DType::Float32, 4).report(&f32s(&[1.0, 2.0, 3.0, 4.0]), &f32s(&[1.0, 2.0]));
        assert_eq!((report.compared, report.elements, report.different), (2, 4, 0));
    }
}
