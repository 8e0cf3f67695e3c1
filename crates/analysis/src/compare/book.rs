use std::collections::HashMap;

use tensortap_format::RunInfo;

use crate::metrics::Rule;
use crate::rules::{Profile, Rules, Subject};

/// Chooses the rule for every record: the first rule of a file that matches, else the profile `bitexact`, else tolerances that
/// were given, else those of the kernel, else those of the dtype.
#[derive(Clone, Debug, Default)]
pub struct RuleBook {
    /// A rules file.
    pub rules: Rules,
    /// Where no rule of the file matches.
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
        // Of a mix task the widest: nobody knows which of its kernels wrote what.
        let declared = subject.kernels.iter().filter_map(|name| self.kernels.get(*name)).copied();
        self.rule_declared(subject, declared.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))))
    }

    /// The rule for something whose relative and absolute tolerance is declared elsewhere than with its kernels.
    #[must_use]
    pub fn rule_declared(&self, subject: &Subject<'_>, declared: Option<(f64, f64)>) -> Rule {
        let dtype = subject.dtype;
        if let Some(rule) = self.rules.first_match(subject) {
            return rule;
        }
        if self.profile == Profile::BitExact {
            return Rule::bitexact(dtype);
        }
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
    use tensortap_abi::DType;

    #[test]
    fn what_is_more_particular_decides() {
        let of = |dtype| Subject { task_id: "0x7", kernels: &["mul"], arg_index: 0, dtype };
        let mut book = RuleBook::default();
        assert_eq!(book.rule(&of(DType::Float32)), Rule::for_dtype(DType::Float32));
        book.kernels.insert("mul".into(), (0.5, 0.25));
        assert_eq!(book.rule(&of(DType::Float32)).predicate, Predicate::Close { rtol: 0.5, atol: 0.25 });
        book.kernels.insert("add".into(), (0.25, 0.5));
        let mix = Subject { task_id: "0x7", kernels: &["mul", "add"], arg_index: 0, dtype: DType::Float32 };
        assert_eq!(book.rule(&mix).predicate, Predicate::Close { rtol: 0.5, atol: 0.5 });
        book.rtol = Some(0.1);
        assert_eq!(book.rule(&of(DType::Float32)).predicate, Predicate::Close { rtol: 0.1, atol: 0.0 });
        book.profile = Profile::BitExact;
        assert_eq!(book.rule(&of(DType::Int8)).predicate, Predicate::BitExact);
        book.rules = Rules::parse("[[rule]]\nfunc = 'mul'\nulps = 2\n", Profile::Default).unwrap();
        assert_eq!(book.rule(&of(DType::Int8)).predicate, Predicate::Ulps(2));
    }
}
