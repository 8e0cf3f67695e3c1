use std::collections::{HashMap, HashSet};

use crate::metrics::{Rule, Tolerance};
use crate::rules::{Profile, RuleSubject, Rules};

/// Chooses the rule of every record. The first of these that exists counts:
///
/// 1. the first matching rule of a rules file
/// 2. the profile `bitexact`, except for replaced kernels
/// 3. tolerances in options
/// 4. the kernel's tolerance
/// 5. the default of the dtype
#[derive(Clone, Debug, Default)]
pub struct RuleBook {
    /// A rules file.
    pub rules: Rules,
    /// Applies if no rule of the file matches.
    pub profile: Profile,
    /// Replaces the relative tolerance of floats.
    pub rtol: Option<f64>,
    /// Replaces the absolute tolerance of floats.
    pub atol: Option<f64>,
    /// The tolerances that kernels declare, by kernel name.
    pub kernels: HashMap<String, Tolerance>,
    /// Kernels that the user replaced by another build. The profile `bitexact` does not apply to them.
    pub replaced: HashSet<String>,
}

impl RuleBook {
    /// Adds tolerances that kernels declare.
    #[must_use]
    pub fn with_kernels(mut self, declared: impl IntoIterator<Item = (String, Tolerance)>) -> RuleBook {
        self.kernels.extend(declared);
        self
    }

    /// The rule of a record.
    #[must_use]
    pub fn rule(&self, subject: &RuleSubject<'_>) -> Rule {
        // For a mix task, the widest tolerance: it is not known which of its kernels wrote the argument.
        let declared = subject.kernels.iter().filter_map(|name| self.kernels.get(*name)).copied();
        self.rule_declared(subject, declared.reduce(Tolerance::wider))
    }

    /// The rule of a record whose tolerance is declared by something other than a kernel.
    #[must_use]
    pub fn rule_declared(&self, subject: &RuleSubject<'_>, declared: Option<Tolerance>) -> Rule {
        let dtype = subject.dtype;
        if let Some(rule) = self.rules.first_match(subject) {
            return rule;
        }
        let is_replaced = || subject.kernels.iter().any(|name| self.replaced.contains(*name));
        if self.profile == Profile::BitExact && !is_replaced() {
            return Rule::bitexact(dtype);
        }
        let given = (self.rtol.is_some() || self.atol.is_some()) && dtype.part().is_float();
        if given {
            return Rule::close(dtype, self.rtol.unwrap_or(0.0), self.atol.unwrap_or(0.0));
        }
        Rule::declared(dtype, declared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Predicate;
    use tensortap_abi::DType;

    #[test]
    fn the_most_specific_rule_decides() {
        let of = |dtype| RuleSubject { task_id: "0x7", kernels: &["mul"], arg_index: 0, dtype };
        let mut book = RuleBook::default();
        assert_eq!(book.rule(&of(DType::Float32)), Rule::for_dtype(DType::Float32));
        book.kernels.insert("mul".into(), Tolerance { rtol: 0.5, atol: 0.25 });
        assert_eq!(book.rule(&of(DType::Float32)).predicate, Predicate::Close { rtol: 0.5, atol: 0.25 });
        book.kernels.insert("add".into(), Tolerance { rtol: 0.25, atol: 0.5 });
        let mix =
            RuleSubject { task_id: "0x7", kernels: &["mul", "add"], arg_index: 0, dtype: DType::Float32 };
        assert_eq!(book.rule(&mix).predicate, Predicate::Close { rtol: 0.5, atol: 0.5 });
        book.rtol = Some(0.1);
        assert_eq!(book.rule(&of(DType::Float32)).predicate, Predicate::Close { rtol: 0.1, atol: 0.0 });
        book.profile = Profile::BitExact;
        assert_eq!(book.rule(&of(DType::Int8)).predicate, Predicate::BitExact);
        book.replaced.insert("mul".into());
        assert_eq!(book.rule(&of(DType::Float32)).predicate, Predicate::Close { rtol: 0.1, atol: 0.0 });
        assert_eq!(book.rule(&RuleSubject { kernels: &["add"], ..mix }).predicate, Predicate::BitExact);
        book.rules = Rules::parse("[[rule]]\nfunc = 'mul'\nulps = 2\n", Profile::Default).unwrap();
        assert_eq!(book.rule(&of(DType::Int8)).predicate, Predicate::Ulps(2));
    }
}
