use std::collections::HashMap;

use tensortap_abi::DType;
use tensortap_format::RunInfo;

use crate::metrics::Rule;

/// What decides when nothing more particular does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The tolerance of the kernel, else that of the dtype.
    #[default]
    Default,
    /// The same bits: for the same kernel on the same device.
    BitExact,
}

/// What a rule is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Task.
    pub task_id: u64,
    /// Names of its kernels.
    pub kernels: &'a [String],
    /// Argument.
    pub arg_index: u16,
    /// Its element type.
    pub dtype: DType,
}

/// Chooses the rule for every record.
#[derive(Clone, Debug, Default)]
pub struct RuleBook {
    /// Decides when nothing below does.
    pub profile: Profile,
    /// Instead of a float's own relative tolerance.
    pub rtol: Option<f64>,
    /// Instead of a float's own absolute tolerance.
    pub atol: Option<f64>,
    /// What kernels declare: relative and absolute tolerance.
    pub kernels: HashMap<String, (f64, f64)>,
}

impl RuleBook {
    /// Takes over what a dump says about the tolerance of its kernels.
    #[must_use]
    pub fn with_kernels_of(mut self, info: &RunInfo) -> RuleBook {
        for kernel in &info.kernels {
            if let Some(tolerance) = &kernel.tolerance {
                self.kernels.insert(kernel.name.clone(), (tolerance.rtol, tolerance.atol));
            }
        }
        self
    }

    /// The rule for a record.
    #[must_use]
    pub fn rule(&self, subject: &Subject<'_>) -> Rule {
        let dtype = subject.dtype;
        if self.profile == Profile::BitExact {
            return Rule::bitexact(dtype);
        }
        let declared = subject.kernels.iter().find_map(|name| self.kernels.get(name)).copied();
        let given = (self.rtol.is_some() || self.atol.is_some()) && dtype.is_float();
        match (given, declared) {
            (true, _) => Rule::close(dtype, self.rtol.unwrap_or(0.0), self.atol.unwrap_or(0.0)),
            (false, Some((rtol, atol))) => Rule::close(dtype, rtol, atol),
            (false, None) => Rule::for_dtype(dtype),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Predicate;

    #[test]
    fn what_is_more_particular_decides() {
        let kernels = ["mul".to_string()];
        let of = |dtype| Subject { task_id: 0, kernels: &kernels, arg_index: 0, dtype };
        let mut book = RuleBook::default();
        assert_eq!(book.rule(&of(DType::Float32)), Rule::for_dtype(DType::Float32));
        book.kernels.insert("mul".into(), (0.5, 0.25));
        assert_eq!(book.rule(&of(DType::Float32)).predicate, Predicate::Close { rtol: 0.5, atol: 0.25 });
        book.rtol = Some(0.1);
        assert_eq!(book.rule(&of(DType::Float32)).predicate, Predicate::Close { rtol: 0.1, atol: 0.0 });
        book.profile = Profile::BitExact;
        assert_eq!(book.rule(&of(DType::Int8)).predicate, Predicate::BitExact);
    }
}
