//! `--golden-dtype`: a golden of a different float dtype, compared with and without rounding.
//!
//! The dump contains bfloat16, whose values next to 1 are 2^-7 apart; the golden contains float32. All expected numbers
//! follow from that.

use serde_json::{Value, json};
use tensortap::abi::Role;
use tensortap::{DType, DumpStage};

use crate::dumps::Folder;
use crate::made::{DumpMaker, f32s, i32s};

/// Half of the distance between adjacent values at 1.
const HALF: f32 = 0.003_906_25;

/// Rounds to the value in the dump: below half, above half of the next value, and both ties, which round to even.
const NEAR: [(u16, f32); 4] =
    [(0x3f80, 1.003), (0x3f81, 1.005), (0x3f80, 1.0 + HALF), (0x3f82, 1.0 + 3.0 * HALF)];
/// Rounds to the value next to the one in the dump, which is within the tolerance of bfloat16 (1.6e-2).
const ROUNDED: [(u16, f32); 2] = [(0x3f80, 1.003), (0x3f80, 1.006)];
/// Fails every rule: 2 instead of 1.
const FAR: [(u16, f32); 2] = [(0x3f80, 1.003), (0x4000, 1.003)];

fn bf16s(pairs: &[(u16, f32)]) -> Vec<u8> {
    pairs.iter().flat_map(|(bits, _)| bits.to_le_bytes()).collect()
}

fn goldens(pairs: &[(u16, f32)]) -> Vec<u8> {
    f32s(pairs.iter().map(|(_, golden)| *golden))
}

/// A `.npy` file as numpy writes it.
fn npy(descr: &str, elements: usize, content: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({elements},), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).expect("short").to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), content].concat()
}

/// A folder with a dump `bf16` of one task, which wrote NEAR, ROUNDED and FAR, and a folder `npy` with its golden.
fn folder() -> Folder {
    let folder = Folder::new();
    let mut made = DumpMaker::new(&folder.path("bf16"), 2);
    made.task(3, 0, DumpStage::AfterCompletion);
    std::fs::create_dir(folder.path("npy")).expect("a folder");
    for (arg, pairs) in [(0, NEAR.as_slice()), (1, &ROUNDED), (2, &FAR)] {
        made.tensor(Role::Output, arg, DType::BFloat16, &[pairs.len() as u64], &bf16s(pairs));
        let file = folder.path("npy").join(format!("task_0x0000000000000003_after_out{arg}.npy"));
        std::fs::write(file, npy("<f4", pairs.len(), &goldens(pairs))).expect("written");
    }
    made.finish();
    folder
}

/// The records of a diff that must end with a code, by argument.
fn records(folder: &Folder, line: &str, code: i32) -> Vec<Value> {
    let outcome = folder.tensortap(line);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(code), ""), "{line}: {outcome:?}");
    let document: Value = serde_json::from_str(&outcome.stdout).expect("one JSON document");
    let mut records = document["records"].as_array().expect("records").clone();
    records.sort_by_key(|r| r["arg_index"].as_u64());
    records
}

fn verdicts(records: &[Value]) -> Vec<&str> {
    records.iter().map(|r| r["verdict"].as_str().expect("a word")).collect()
}

/// The largest error, computed exactly.
fn max_abs(pairs: &[(u16, f32)]) -> f64 {
    let errors = pairs.iter().map(|&(bits, golden)| {
        let dump = f32::from_bits(u32::from(bits) << 16);
        (f64::from(dump) - f64::from(golden)).abs()
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn a_different_dtype_needs_the_option() {
    let folder = folder();
    let refused = records(&folder, "diff bf16 npy --json", 1);
    assert_eq!(verdicts(&refused), ["fail"; 3]);
    let reason = refused[0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("the dump holds bfloat16, the golden float32"), "{reason}");
}

#[test]
fn tolerances_apply_to_the_unrounded_golden() {
    let folder = folder();
    let found = records(&folder, "diff bf16 npy --golden-dtype --json", 1);
    assert_eq!(verdicts(&found), ["pass", "pass", "fail"]);
    for (record, pairs) in found.iter().zip([NEAR.as_slice(), &ROUNDED, &FAR]) {
        assert_eq!(record["max_abs_err"].as_f64(), Some(max_abs(pairs)), "{record}");
        assert_eq!((&record["max_ulps"], &record["bit_exact"]), (&Value::Null, &Value::Null), "{record}");
    }
    // This tolerance is smaller than the rounding: a value that is equal after rounding fails, and the report explains that.
    let strict = records(&folder, "diff bf16 npy --golden-dtype --rtol 1e-4 --atol 0 --json", 1);
    assert_eq!(verdicts(&strict), ["fail"; 3]);
    let failing: Vec<_> =
        strict.iter().map(|r| (r["failing"].clone(), r["rounded"]["failing"].clone())).collect();
    assert_eq!(failing, [(json!(4), json!(0)), (json!(2), json!(1)), (json!(2), json!(1))]);
}

#[test]
fn bitexact_compares_with_the_rounded_golden() {
    let folder = folder();
    let found = records(&folder, "diff bf16 npy --golden-dtype --profile bitexact --json", 1);
    assert_eq!(verdicts(&found), ["pass", "fail", "fail"]);
    // The distance from 1 to the next value is 1 ulp, to 2 it is 128.
    let rounded: Vec<_> = found.iter().map(|r| r["rounded"].clone()).collect();
    let measured = |of: &Value| {
        [&of["failing"], &of["max_ulps"], &of["max_abs_err"], &of["bit_exact"]].map(Value::clone)
    };
    assert_eq!(measured(&rounded[0]), [json!(0), json!(0), json!(0.0), json!(true)]);
    assert_eq!(measured(&rounded[1]), [json!(1), json!(1), json!(2.0 * HALF), json!(false)]);
    assert_eq!(measured(&rounded[2]), [json!(1), json!(128), json!(1.0), json!(false)]);
    let table = folder.tensortap("diff bf16 npy --golden-dtype --profile bitexact");
    assert!(table.code == Some(1) && table.stdout.contains(" 128 "), "{table:?}");
}

#[test]
fn a_dump_of_a_different_float_dtype_can_be_a_golden() {
    let folder = folder();
    let mut made = DumpMaker::new(&folder.path("f32"), 2);
    made.task(3, 0, DumpStage::AfterCompletion);
    for (arg, pairs) in [(0, NEAR.as_slice()), (1, &ROUNDED), (2, &FAR)] {
        made.tensor(Role::Output, arg, DType::Float32, &[pairs.len() as u64], &goldens(pairs));
    }
    made.finish();
    let found = records(&folder, "diff bf16 f32 --golden-dtype --profile bitexact --json", 1);
    assert_eq!(verdicts(&found), ["pass", "fail", "fail"]);
    let blamed = folder.tensortap("blame bf16 --golden f32 --golden-dtype --json");
    assert_eq!(blamed.code, Some(1), "{blamed:?}");
    let blamed: Value = serde_json::from_str(&blamed.stdout).expect("one JSON document");
    assert_eq!((&blamed["compared"], &blamed["tasks"][0]["label"]), (&3.into(), &"wrong_here".into()));
}

#[test]
fn suggests_the_option_for_a_different_float_dtype() {
    let folder = folder();
    let hint =
        "3 records have a different float dtype in the golden; --golden-dtype compares across float dtypes";
    let refused = folder.tensortap("diff bf16 npy");
    assert!(refused.code == Some(1) && refused.stdout.contains(&format!("\nhint: {hint}\n")), "{refused:?}");
    let refused = folder.tensortap("diff bf16 npy --json");
    let document: Value = serde_json::from_str(&refused.stdout).expect("one JSON document");
    assert_eq!(document["hint"], hint);
    assert!(!folder.tensortap("diff bf16 npy --golden-dtype").stdout.contains("hint:"));
}

#[test]
fn only_floats_compare_across_dtypes() {
    let folder = Folder::new();
    let mut made = DumpMaker::new(&folder.path("ints"), 2);
    made.task(3, 0, DumpStage::AfterCompletion);
    made.tensor(Role::Output, 0, DType::Int32, &[2], &i32s([1, 2]));
    made.tensor(Role::Output, 1, DType::BFloat16, &[2], &bf16s(&ROUNDED));
    made.finish();
    std::fs::create_dir(folder.path("npy")).expect("a folder");
    for (arg, descr, content) in [(0, "<f4", f32s([1.0, 2.0])), (1, "<i4", i32s([1, 1]))] {
        let file = folder.path("npy").join(format!("task_0x0000000000000003_after_out{arg}.npy"));
        std::fs::write(file, npy(descr, 2, &content)).expect("written");
    }
    let found = records(&folder, "diff ints npy --golden-dtype --json", 1);
    assert_eq!(verdicts(&found), ["fail"; 2]);
    for (record, held) in found.iter().zip(["int32, the golden float32", "bfloat16, the golden int32"]) {
        let reason = record["reason"].as_str().expect("a reason");
        assert!(
            reason.contains(held) && reason.contains("only floats compare with another dtype"),
            "{reason}"
        );
        assert_eq!(record["max_abs_err"], Value::Null);
    }
}

/// An array of 2^28 floats, declared by a few bytes of a zip archive. The entry claims to be deflated, but its data is not
/// valid, so inflating it fails.
fn declared_huge(descr: &str) -> Vec<u8> {
    let head = npy(descr, 1 << 28, &[]);
    let unpacked = u32::try_from(head.len() + (4 << 28)).expect("below 4 GiB").to_le_bytes();
    // Two stored blocks, which opening the file reads in part, then a block of an invalid type; padded so that the declared
    // size is plausible.
    let mut packed = Vec::new();
    for start in [&head[..], &[]] {
        packed.extend([0, 0xff, 0xff, 0, 0]);
        packed.extend(start);
        packed.resize(packed.len() + 0xffff - start.len(), 0);
    }
    packed.resize(1 << 20, 0xff);
    let name = b"task_0x0000000000000003_after_out0.npy";
    let sizes = [&[0; 4][..], &u32::try_from(packed.len()).expect("small").to_le_bytes(), &unpacked].concat();
    let name_bytes = u16::try_from(name.len()).expect("short").to_le_bytes();
    let common = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &sizes, &name_bytes, &[0, 0]].concat();
    let local = [b"PK\x03\x04", &common[..], name].concat();
    let central = [b"PK\x01\x02\x14\x00", &common[..], &[0; 14], name].concat();
    let at = u32::try_from(local.len() + packed.len()).expect("small").to_le_bytes();
    let bytes = u32::try_from(central.len()).expect("small").to_le_bytes();
    let end = [b"PK\x05\x06", &[0, 0, 0, 0, 1, 0, 1, 0][..], &bytes, &at, &[0, 0]].concat();
    [local, packed, central, end].concat()
}

#[test]
fn rejects_an_array_of_a_different_shape_without_inflating_it() {
    let folder = folder();
    for descr in ["<f4", "<i4"] {
        std::fs::write(folder.path("huge.npz"), declared_huge(descr)).expect("written");
        let records = records(&folder, "diff bf16 huge.npz --json", 1);
        let out = records.iter().find(|record| record["arg_index"] == 0).expect("it is compared");
        assert_eq!(out["verdict"], "fail", "{out}");
        assert!(out.to_string().contains("shape"), "{out}");
    }
}
