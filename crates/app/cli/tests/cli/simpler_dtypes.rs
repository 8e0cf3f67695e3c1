//! Dtypes that only dumps of the public project `simpler` have: reading, showing, and passing them to kernels.

use serde_json::{Value, json};

use crate::folders::{WorkFolder, has_compilers};
use crate::given_kernels::{failed, library};
use crate::simpler_dumps::{SimplerDump, source};

/// Kernels: scale 4-bit floats by powers of two, negate 8-bit floats, and swap the values of each pair in a view.
const KERNELS: &str = r"
void scaled(int64_t *args)
{
    static const float value[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    tensor *packed = t(args, 0), *scales = t(args, 1);
    if (packed->dtype != 14 || scales->dtype != 13 || packed->ndims != 1 || packed->extent != packed->shapes[0]) return;
    for (uint32_t i = 0; i < packed->shapes[0]; i++) {
        uint32_t power = (uint32_t)bytes(args, 1)[i] << 23;
        float factor;
        memcpy(&factor, &power, 4);
        for (int half = 0; half < 2; half++) {
            int bits = bytes(args, 0)[i] >> 4 * half & 15;
            data(args, 2)[2 * i + half] = (bits & 8 ? -factor : factor) * value[bits & 7];
        }
    }
}
void turned(int64_t *args)
{
    if (t(args, 0)->dtype != 12 || t(args, 1)->dtype != 12) return;
    for (uint32_t i = 0; i < t(args, 0)->shapes[0]; i++) bytes(args, 1)[i] = bytes(args, 0)[i] ^ 0x80;
}
void exchanged(int64_t *args)
{
    tensor *x = t(args, 0);
    if (x->dtype != 14 || x->ndims != 2 || x->start != 5 || x->strides[0] != 8 || x->extent != 11 || x->is_contiguous) return;
    for (uint32_t i = 0; i < x->shapes[0]; i++)
        for (uint32_t j = 0; j < x->shapes[1]; j++) {
            uint8_t *at = bytes(args, 0) + i * x->strides[0] + j * x->strides[1];
            *at = (uint8_t)(*at << 4 | *at >> 4);
        }
}
";

const BEFORE: &str = "before_dispatch";
const AFTER: &str = "after_completion";

/// Every 4-bit float twice, in the high and in the low half of a byte.
const PACKED: [u8; 16] =
    [0x80, 0x91, 0xa2, 0xb3, 0xc4, 0xd5, 0xe6, 0xf7, 0x08, 0x19, 0x2a, 0x3b, 0x4c, 0x5d, 0x6e, 0x7f];

/// The value of a 4-bit float.
fn meaning(bits: u8) -> f32 {
    let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(bits & 7)];
    if bits & 8 == 0 { magnitude } else { -magnitude }
}

/// A task for each kernel.
fn dump(shop: &WorkFolder) {
    let mut dump = SimplerDump::default();
    let one = |dump: &mut SimplerDump, dtype: &str, role: &str, bytes: &[u8]| {
        let stage = if role == "input" { BEFORE } else { AFTER };
        dump.elements(dtype, [role, stage], (&[bytes.len() as u64], &[1], 0), bytes);
        dump.next_argument();
    };
    let scales: Vec<u8> = (120..136).collect();
    let values = PACKED.iter().zip(&scales).flat_map(|(byte, scale)| {
        [byte & 15, byte >> 4].map(|bits| meaning(bits) * 2_f32.powi(i32::from(*scale) - 127))
    });
    let values: Vec<f32> = values.collect();
    dump.task(0, [-1, 0, -1], 1, 3);
    one(&mut dump, "FP4E2M1", "input", &PACKED);
    one(&mut dump, "FP8E8M0", "input", &scales);
    dump.output(&values);
    let eighths: Vec<u8> = (0..64).collect();
    dump.task(1, [-1, 1, -1], 1, 2);
    one(&mut dump, "FP8E4M3FN", "input", &eighths);
    one(&mut dump, "FP8E4M3FN", "output", &eighths.iter().map(|bits| bits | 0x80).collect::<Vec<_>>());
    dump.task(2, [-1, 2, -1], 1, 1);
    let view = (&[2_u64, 3][..], &[8_u64, 1][..], 5);
    dump.elements("FP4E2M1", ["inout", BEFORE], view, &[0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
    dump.elements("FP4E2M1", ["inout", AFTER], view, &[0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb]);
    dump.write(shop);
}

#[test]
fn reads_simpler_dtypes_as_values() {
    let shop = WorkFolder::new();
    dump(&shop);
    let (code, list) = shop.json(&["list", "g"]);
    assert_eq!(code, Some(0), "{list}");
    let fields = |at: usize| {
        let record = &list["records"][at];
        ["dtype", "dtype_known", "shape", "strides", "start_offset", "numel"].map(|key| record[key].clone())
    };
    assert_eq!(
        fields(0),
        [json!("float4_e2m1"), Value::Null, json!([16, 2]), json!([2, 1]), json!(0), json!(32)]
    );
    assert_eq!(
        fields(1),
        [json!("float8_e8m0fnu"), Value::Null, json!([16]), json!([1]), json!(0), json!(16)]
    );
    assert_eq!(
        fields(3),
        [json!("float8_e4m3fn"), Value::Null, json!([64]), json!([1]), json!(0), json!(64)]
    );
    assert_eq!(
        fields(5),
        [json!("float4_e2m1"), Value::Null, json!([2, 3, 2]), json!([16, 2, 1]), json!(10), json!(12)]
    );
    let (_, shown) = shop.json(&["show", "g", "0"]);
    let values: Vec<f32> = PACKED.iter().flat_map(|byte| [byte & 15, byte >> 4].map(meaning)).collect();
    assert_eq!(shown["values"]["elements"], json!(values), "{shown}");
    let (_, scales) = shop.json(&["show", "g", "1"]);
    let powers: Vec<f32> = (120..136).map(|bits| 2_f32.powi(bits - 127)).collect();
    assert_eq!(scales["values"]["elements"], json!(powers), "{scales}");
    let (code, verdict) = shop.json(&["verify", "g"]);
    assert_eq!((code, &verdict["verdict"]), (Some(0), &json!("unverifiable")), "{verdict}");
}

#[test]
fn passes_simpler_dtypes_to_its_kernels() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    dump(&shop);
    library(&shop, "k", &source(KERNELS));
    library(&shop, "wrong", &source(&KERNELS.replace("*at << 4 | *at >> 4", "*at << 4 | *at >> 5")));
    let all = |last: &str| {
        let kernels = ["--kernel", "0=k.so:scaled", "--kernel", "1=k.so:turned", "--kernel", last];
        shop.json(&[&["replay", "g", "--abi", "simpler", "--all"], &kernels[..]].concat())
    };
    let (code, said) = all("2=k.so:exchanged");
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(0), &3.into(), &3.into()), "{said}");
    let (code, said) = all("2=wrong.so:exchanged");
    assert_eq!((code, failed(&said)), (Some(1), vec!["0x0000000000000002"]), "{said}");
    // A case keeps the dtypes.
    for (task, kernel) in [("0", "0=k.so:scaled"), ("2", "2=k.so:exchanged")] {
        let out = format!("cases/{task}");
        let words = ["extract", "g", "--task", task, "--abi", "simpler", "--kernel", kernel, "--out", &out];
        assert_eq!(shop.json(&words).0, Some(0), "{task}");
    }
    let (code, said) = shop.json(&["replay", "cases"]);
    assert_eq!((code, &said["bitexact"]), (Some(0), &2.into()), "{said}");
}
