use proptest::prelude::*;

use super::*;

const FILE: &str = "\
[[rule]]
func = 'softmax|pv'
rtol = 2e-2

[[rule]]
task = '0x00000001.*'
arg = '\\d'
ulps = 2
nan_equal = false
small = 0.5

[[rule]]
func = 'exact'
profile = 'bitexact'
";

fn rule(rules: &Rules, task_id: &str, kernels: &[&str], arg_index: u32) -> Rule {
    rules.rule_for(&RuleSubject { task_id, kernels, arg_index, dtype: DType::Float16 })
}

#[test]
fn the_first_match_decides_and_the_profile_is_the_default() {
    let rules = Rules::parse(FILE, Profile::Default).unwrap();
    let (first, other) = ("0x0000000100000000", "0x0000000200000000");
    let close = Predicate::Close { rtol: 2e-2, atol: 0.0 };
    assert_eq!(rule(&rules, first, &["qk", "pv"], 2).predicate, close, "an earlier rule wins");
    let ulps = rule(&rules, first, &["qk"], 3);
    assert_eq!((ulps.predicate, ulps.nan_equal, ulps.small), (Predicate::Ulps(2), false, 0.5));
    assert_eq!(rule(&rules, other, &["exact"], 0).predicate, Predicate::BitExact);
    for (task, kernels, arg) in
        [(first, "qk", 23), (first, "pvx", 11), (other, "qk", 2), (other, "xsoftmax", 2)]
    {
        assert_eq!(
            rule(&rules, task, &[kernels], arg),
            Rule::for_dtype(DType::Float16),
            "{task} {kernels} {arg}"
        );
    }
    let strict = Rules::parse(FILE, Profile::BitExact).unwrap();
    assert_eq!(rule(&strict, other, &[], 0), Rule::bitexact(DType::Float16));
    assert_eq!(rule(&Rules::of_profile(Profile::BitExact), other, &[], 0), Rule::bitexact(DType::Float16));
}

#[test]
fn errors_name_the_line_and_the_fix() {
    let refused =
        |tail: &str| Rules::parse(&format!("# head\n[[rule]]\n{tail}"), Profile::Default).unwrap_err();
    assert!(matches!(refused("func = 'a(b'\nulps = 1\n"), RulesError::Pattern { line: 3, key: "func", .. }));
    assert!(matches!(refused("ulps = 1\nfunc = 'a)|(b'\n"), RulesError::Pattern { line: 4, .. }));
    assert_eq!(refused("func = 'a'\n"), RulesError::Predicate { line: 2, found: "none" });
    assert_eq!(refused("ulps = 1\nrtol = 0.1\n"), RulesError::Predicate { line: 2, found: "several" });
    assert_eq!(refused("rtol = 0.1\natol = -1.0\n"), RulesError::Negative { line: 4, key: "atol" });
    assert_eq!(refused("rtol = nan\n"), RulesError::Negative { line: 3, key: "rtol" });
    assert!(matches!(refused("ulps = 1\nulp = 2\n"), RulesError::Syntax { line: 4, .. }));
    assert!(matches!(refused("profile = 'loose'\n"), RulesError::Syntax { line: 3, .. }));
    assert!(matches!(refused("ulps = \n"), RulesError::Syntax { line: 3, .. }));
    let long = "#".repeat(MAX_RULES_BYTES + 1);
    assert!(matches!(Rules::parse(&long, Profile::Default), Err(RulesError::TooLarge { .. })));
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(tail in "\\PC{0,80}", key in "task|func|arg|rtol|ulps|profile") {
        let _ = Rules::parse(&tail, Profile::Default);
        if let Ok(rules) = Rules::parse(&format!("[[rule]]\nulps = 1\n{key} = {tail}\n"), Profile::Default) {
            rule(&rules, "0x0", &["k"], 1);
        }
    }
}
