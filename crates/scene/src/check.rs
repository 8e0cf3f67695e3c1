use tensortap_abi::DType;

use crate::decode_f64;

/// How far a value may be from what is expected: `|a - g| <= atol + rtol * |g|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Relative part.
    pub rtol: f64,
    /// Absolute part.
    pub atol: f64,
}

impl Tolerance {
    /// Equality.
    pub const EXACT: Tolerance = Tolerance { rtol: 0.0, atol: 0.0 };

    /// The default of a dtype. 8- and 4-bit floats are given their spacing.
    pub const fn of(dtype: DType) -> Tolerance {
        match dtype {
            DType::Float64 => Tolerance { rtol: 1e-7, atol: 1e-7 },
            DType::Float32 => Tolerance { rtol: 1.3e-6, atol: 1e-5 },
            DType::Float16 => Tolerance { rtol: 1e-3, atol: 1e-5 },
            DType::BFloat16 => Tolerance { rtol: 1.6e-2, atol: 1e-5 },
            DType::Float8E4M3FN => Tolerance { rtol: 0.125, atol: 0.002 },
            DType::Float8E5M2 => Tolerance { rtol: 0.25, atol: 0.00002 },
            DType::Float4E2M1 => Tolerance { rtol: 0.5, atol: 0.5 },
            _ => Tolerance::EXACT,
        }
    }

    /// Whether `actual` is near enough to `expected`. Equal infinities are equal, and so are two NaN.
    pub fn accepts(self, actual: f64, expected: f64) -> bool {
        if actual == expected || (actual.is_nan() && expected.is_nan()) {
            return true;
        }
        // A tolerance relative to infinity would accept every number.
        actual.is_finite()
            && expected.is_finite()
            && (actual - expected).abs() <= self.atol + self.rtol * expected.abs()
    }
}

/// What came of comparing one tensor with what was expected of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Elements compared.
    pub elements: usize,
    /// Elements outside the tolerance.
    pub outside: usize,
    /// Greatest absolute difference; NaN or infinite when a value or a difference is.
    pub max_abs_err: f64,
    /// First element outside the tolerance: place, actual and expected value.
    pub first_outside: Option<(usize, f64, f64)>,
}

impl Comparison {
    /// Something was compared, and all of it is near enough.
    pub fn passed(&self) -> bool {
        self.elements > 0 && self.outside == 0
    }
}

/// Bytes decoded at a time: a multiple of every element size, small against the tensors compared.
const CHUNK_BYTES: usize = 1 << 16;

/// Compares packed elements. `None` when the sizes differ or the dtype has no arithmetic yet.
pub fn compare(dtype: DType, actual: &[u8], expected: &[u8], tolerance: Tolerance) -> Option<Comparison> {
    if actual.len() != expected.len() {
        return None;
    }
    let mut result = Comparison { elements: 0, outside: 0, max_abs_err: 0.0, first_outside: None };
    for (actual, expected) in actual.chunks(CHUNK_BYTES).zip(expected.chunks(CHUNK_BYTES)) {
        result.add(&decode_f64(dtype, actual)?, &decode_f64(dtype, expected)?, tolerance);
    }
    Some(result)
}

impl Comparison {
    fn add(&mut self, actual: &[f64], expected: &[f64], tolerance: Tolerance) {
        for (&a, &e) in actual.iter().zip(expected) {
            let error = if a == e || (a.is_nan() && e.is_nan()) { 0.0 } else { (a - e).abs() };
            if error.is_nan() || error > self.max_abs_err {
                self.max_abs_err = error;
            }
            if !tolerance.accepts(a, e) {
                self.outside += 1;
                self.first_outside.get_or_insert((self.elements, a, e));
            }
            self.elements += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn one_element_outside_is_found_and_placed() {
        let tolerance = Tolerance::of(DType::Float32);
        let good = f32s(&[1.0, f32::NAN, f32::INFINITY]);
        assert!(compare(DType::Float32, &good, &good, tolerance).unwrap().passed());
        let bad = f32s(&[1.0, f32::NAN, f32::NEG_INFINITY]);
        let found = compare(DType::Float32, &bad, &good, tolerance).unwrap();
        assert_eq!((found.outside, found.first_outside.unwrap().0), (1, 2));
        assert_eq!(found.max_abs_err, f64::INFINITY);
    }

    #[test]
    fn a_number_where_an_infinity_is_expected_is_outside() {
        let tolerance = Tolerance::of(DType::Float32);
        let found = compare(DType::Float32, &f32s(&[3.0]), &f32s(&[f32::INFINITY]), tolerance).unwrap();
        assert_eq!(found.outside, 1);
    }

    #[test]
    fn nan_where_a_number_is_expected_fails_and_shows_as_the_error() {
        let found =
            compare(DType::Float32, &f32s(&[f32::NAN, 3.0]), &f32s(&[1.0, 1.0]), Tolerance::EXACT).unwrap();
        assert_eq!(found.outside, 2);
        assert!(found.max_abs_err.is_nan());
    }

    #[test]
    fn comparing_nothing_or_other_sizes_does_not_pass() {
        assert!(!compare(DType::Int8, &[], &[], Tolerance::EXACT).unwrap().passed());
        assert_eq!(compare(DType::Int8, &[1], &[1, 2], Tolerance::EXACT), None);
    }
}
