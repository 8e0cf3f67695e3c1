//! Rules files: the input is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensortap::DType;
use tensortap::judge::{Profile, RuleSubject, Rules};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(rules) = Rules::parse(text, Profile::Default) else { return };
    for dtype in [DType::Float32, DType::Int8] {
        for kernels in [&["add"][..], &["mul", "a_kernel_with_a_long_name"], &[]] {
            let subject = RuleSubject { task_id: "0x0000000100000002", kernels, arg_index: 2, dtype };
            let _ = (rules.rule_for(&subject), rules.first_match(&subject));
        }
    }
});
