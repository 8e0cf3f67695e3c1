//! Holds what a task wrote against what it wrote when it was captured.

use tensortap_abi::DType;
use tensortap_scene::Tolerance;
use tensortap_values::{Element, decode_bits, elements_in, to_f64, ulp_distance};

use crate::OutputReport;

/// Elements decoded at a time: an even number, so that a byte of 4-bit elements is never split.
const BLOCK: usize = 1024;

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
        let mut report = OutputReport {
            arg_index: self.arg_index,
            dtype: self.dtype,
            compared: 0,
            elements: self.elements,
            different: 0,
            outside: 0,
            max_abs_err: 0.0,
            first: None,
        };
        let length = actual.len().min(expected.len());
        let (actual, expected) = (&actual[..length], &expected[..length]);
        if self.before.is_none() && actual == expected {
            report.compared = self.elements.min(elements_in(self.dtype, length) as u64);
            return report;
        }
        let width = BLOCK * self.dtype.bits() as usize / 8;
        let [mut a, mut e, mut b] = [[0; BLOCK]; 3];
        let mut first = 0;
        for (block, actual) in actual.chunks(width).enumerate() {
            let count = decode_bits(self.dtype, actual, &mut a);
            decode_bits(self.dtype, &expected[block * width..], &mut e);
            if let Some(before) = self.before {
                decode_bits(self.dtype, before.get(block * width..).unwrap_or(&[]), &mut b);
            }
            for i in 0..count {
                let place = first + i as u64;
                if place < self.elements && (self.before.is_none() || a[i] != b[i]) {
                    self.element(&mut report, place, a[i], e[i]);
                }
            }
            first += count as u64;
        }
        report
    }

    fn element(&self, report: &mut OutputReport, place: u64, actual: u64, expected: u64) {
        report.compared += 1;
        if actual == expected {
            return;
        }
        report.different += 1;
        report.outside += u64::from(!self.within(actual, expected));
        let (a, e) = (to_f64(self.dtype, actual), to_f64(self.dtype, expected));
        let error = if a == e || (a.is_nan() && e.is_nan()) { 0.0 } else { (a - e).abs() };
        if error.is_nan() || error > report.max_abs_err {
            report.max_abs_err = error;
        }
        let text = |bits| Element { dtype: self.dtype, bits }.to_string();
        report.first.get_or_insert_with(|| (place, text(actual), text(expected)));
    }

    fn within(&self, actual: u64, expected: u64) -> bool {
        match self.dtype {
            DType::Float8E4M3FN | DType::Float8E5M2 | DType::Float4E2M1 if self.tolerance.is_none() => {
                ulp_distance(self.dtype, actual, expected).is_some_and(|distance| distance <= 1)
            }
            dtype => {
                let tolerance = self.tolerance.unwrap_or(Tolerance::of(dtype));
                let exact = !dtype.is_float() && self.tolerance.is_none();
                !exact && tolerance.accepts(to_f64(dtype, actual), to_f64(dtype, expected))
            }
        }
    }
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
    fn expected_content_that_ends_early_is_compared_as_far_as_it_goes() {
        let report = comparison(DType::Float32, 4).report(&f32s(&[1.0, 2.0, 3.0, 4.0]), &f32s(&[1.0, 2.0]));
        assert_eq!((report.compared, report.elements, report.different), (2, 4, 0));
    }
}
