use tensortap_abi::DType;

use super::error::CompareError;

/// When an element counts as equal to its golden.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_judge::{Predicate, Rule};
///
/// let rule = Rule::for_dtype(DType::BFloat16);
/// assert_eq!(rule.predicate, Predicate::Close { rtol: 1.6e-2, atol: 1e-5 });
/// assert_eq!(Rule::for_dtype(DType::Float8E4M3FN).predicate, Predicate::Ulps(1));
/// assert!(rule.nan_equal);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The test that measured pairs must pass.
    pub predicate: Predicate,
    /// Whether NaN equals NaN at the same position. True by default, so only a NaN on one side counts as an
    /// error. [`Predicate::BitExact`] compares the bits of NaN instead.
    pub nan_equal: bool,
    /// The least magnitude of the golden for a relative error; zero never counts. Changes no verdict.
    pub small: f64,
}

/// The allowed difference: `|a - g| <= atol + rtol * |g|`. Declared by kernels and scenes.
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

    /// The wider part of each, for an output that several kernels may have written.
    #[must_use]
    pub fn wider(self, other: Tolerance) -> Tolerance {
        Tolerance { rtol: self.rtol.max(other.rtol), atol: self.atol.max(other.atol) }
    }
}

/// The test of a pair of finite values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Predicate {
    /// `|dump - golden| <= atol + rtol * |golden|`. Between integers with `rtol` 0 this is exact at every
    /// width; otherwise it is evaluated in `f64`.
    Close {
        /// Tolerance relative to the golden.
        rtol: f64,
        /// Absolute tolerance.
        atol: f64,
    },
    /// At most this many representable values apart; for integers, at most this difference.
    Ulps(u64),
    /// Equal bits, which distinguishes the two zeros.
    BitExact,
}

impl Rule {
    /// The default rule of a dtype.
    ///
    /// | dtype | rtol | atol | small |
    /// | --- | --- | --- | --- |
    /// | `float64` | 1e-7 | 1e-7 | 1e-7 |
    /// | `float32` | 1.3e-6 | 1e-5 | 1e-5 |
    /// | `float16` | 1e-3 | 1e-5 | 1e-5 |
    /// | `bfloat16` | 1.6e-2 | 1e-5 | 1e-5 |
    /// | 8- and 4-bit floats | one representable value | | least normal value |
    /// | integers, `bool` | exact | | 1 |
    ///
    /// Each part of a complex number has the rule of its float.
    #[must_use]
    pub fn for_dtype(dtype: DType) -> Rule {
        let close = |rtol, atol| Predicate::Close { rtol, atol };
        let (predicate, small) = match dtype.part() {
            DType::Float64 => (close(1e-7, 1e-7), 1e-7),
            DType::Float32 => (close(1.3e-6, 1e-5), 1e-5),
            DType::Float16 => (close(1e-3, 1e-5), 1e-5),
            DType::BFloat16 => (close(1.6e-2, 1e-5), 1e-5),
            DType::Float8E4M3FN => (Predicate::Ulps(1), 1.0 / 64.0),
            DType::Float8E5M2 => (Predicate::Ulps(1), 1.0 / 16384.0),
            DType::Float8E4M3FNUZ => (Predicate::Ulps(1), 1.0 / 128.0),
            DType::Float8E5M2FNUZ => (Predicate::Ulps(1), 1.0 / 32768.0),
            DType::Float8E8M0FNU => (Predicate::Ulps(1), f64::from_bits((1023 - 127) << 52)),
            DType::Float4E2M1 => (Predicate::Ulps(1), 1.0),
            _ => (close(0.0, 0.0), 1.0),
        };
        Rule { predicate, nan_equal: true, small }
    }

    /// The default rule of a dtype with other tolerances.
    #[must_use]
    pub fn close(dtype: DType, rtol: f64, atol: f64) -> Rule {
        Rule { predicate: Predicate::Close { rtol, atol }, ..Rule::for_dtype(dtype) }
    }

    /// The declared tolerance of a kernel or scene, else the default rule of the dtype.
    #[must_use]
    pub fn declared(dtype: DType, tolerance: Option<Tolerance>) -> Rule {
        match tolerance {
            Some(Tolerance { rtol, atol }) => Rule::close(dtype, rtol, atol),
            None => Rule::for_dtype(dtype),
        }
    }

    /// The rule of the profile `bitexact`, for the same kernel on the same device.
    #[must_use]
    pub fn bitexact(dtype: DType) -> Rule {
        Rule { predicate: Predicate::BitExact, ..Rule::for_dtype(dtype) }
    }

    pub(super) fn check(&self) -> Result<(), CompareError> {
        let (rtol, atol) = match self.predicate {
            Predicate::Close { rtol, atol } => (rtol, atol),
            Predicate::Ulps(_) | Predicate::BitExact => (0.0, 0.0),
        };
        for (name, value) in [("rtol", rtol), ("atol", atol), ("small", self.small)] {
            if value.is_nan() || value < 0.0 {
                return Err(CompareError::Tolerance { name, value });
            }
        }
        Ok(())
    }
}

/// A rule in the form that the loops apply: every test is always evaluated, and unused tests never fail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub rtol: f64,
    pub atol: f64,
    /// Greatest distance in representable values.
    pub max_distance: u64,
    /// Whether different bits fail.
    pub same_bits: bool,
    pub nan_equal: bool,
    /// Greater than zero.
    pub small: f64,
}

impl Test {
    pub fn new(rule: &Rule, dtype: DType) -> Test {
        let anything = Test {
            rtol: 0.0,
            atol: f64::INFINITY,
            max_distance: u64::MAX,
            same_bits: false,
            nan_equal: rule.nan_equal,
            small: rule.small.max(f64::from_bits(1)),
        };
        match rule.predicate {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
            Predicate::Close { rtol: 0.0, atol } if !dtype.part().is_float() => {
                Test { max_distance: atol as u64, ..anything }
            }
            Predicate::Close { rtol, atol } => Test { rtol, atol, ..anything },
            Predicate::Ulps(most) => Test { max_distance: most, ..anything },
            Predicate::BitExact => Test { same_bits: true, ..anything },
        }
    }

    /// A test that every measured pair passes.
    pub fn that_always_passes(self) -> Test {
        Test { rtol: 0.0, atol: f64::INFINITY, max_distance: u64::MAX, same_bits: false, ..self }
    }

    /// Whether only [`rtol`](Self::rtol) and [`atol`](Self::atol) decide.
    pub fn is_close(&self) -> bool {
        self.max_distance == u64::MAX && !self.same_bits
    }

    /// Whether the error of a measured pair is within the tolerance.
    #[inline(always)]
    pub fn within(&self, error: f64, golden: f64) -> bool {
        error <= self.atol + self.rtol * golden.abs()
    }
}
