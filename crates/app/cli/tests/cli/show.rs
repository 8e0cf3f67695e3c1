use serde_json::{Value, json};
use tensortap::abi::Role;
use tensortap::format::{Payload, WriterOptions};
use tensortap::{DType, DumpStage};

use crate::assert_snapshot;
use crate::dumps::{Folder, cut, vector_example};
use crate::json::document;
use crate::made::{DumpMaker, f32s, i32s, stats};

const BEFORE: DumpStage = DumpStage::BeforeDispatch;
const AFTER: DumpStage = DumpStage::AfterCompletion;

/// A folder with a dump `d` of one task whose records `fill` makes.
fn made(level: u32, fill: impl FnOnce(&mut DumpMaker)) -> Folder {
    let folder = Folder::new();
    let mut made = DumpMaker::new(&folder.path("d"), level);
    made.task(7, 0, BEFORE);
    fill(&mut made);
    made.finish();
    folder
}

/// The text after the metadata.
fn values(folder: &Folder, options: &str) -> String {
    let text = folder.good(&format!("show d {options}")).stdout;
    text.split_once("\n\n").expect("values follow").1.into()
}

#[test]
fn shows_a_record_from_metadata_to_histogram() {
    let folder = Folder::new();
    folder.record("dump_tensor_example --dump-tensor", "d");
    let text = folder.good("show d 5").stdout;
    let settings_free: String =
        text.lines().filter(|line| !line.starts_with("  address")).map(|line| format!("{line}\n")).collect();
    assert_ne!(text, settings_free, "a tensor of a tensortap dump has an address");
    assert_snapshot("show", &settings_free);
    assert_snapshot("show_scalar", &folder.good("show d 4").stdout);
}

#[test]
fn formats_excerpts_like_numpy() {
    let folder = made(2, |made| {
        made.tensor(Role::Input, 0, DType::Int32, &[2, 3, 4], &i32s(0..24));
        made.tensor(Role::Input, 1, DType::Int32, &[100, 100], &i32s(0..10_000));
        made.tensor(Role::Input, 2, DType::Int32, &[30], &i32s(1_000_000..1_000_030));
        made.tensor(Role::Input, 3, DType::Int32, &[], &i32s([-5]));
        made.tensor(Role::Input, 4, DType::Int32, &[0, 3], &[]);
    });
    let three = "[[[ 0  1  2  3]\n  [ 4  5  6  7]\n  [ 8  9 10 11]]\n\n \
                 [[12 13 14 15]\n  [16 17 18 19]\n  [20 21 22 23]]]\n";
    assert!(values(&folder, "0 --bins 0").ends_with(three), "{}", values(&folder, "0"));
    let corners = "[[   0    1    2 ...   97   98   99]\n [ 100  101  102 ...  197  198  199]\n \
                   [ 200  201  202 ...  297  298  299]\n ...\n [9700 9701 9702 ... 9797 9798 9799]\n \
                   [9800 9801 9802 ... 9897 9898 9899]\n [9900 9901 9902 ... 9997 9998 9999]]\n";
    assert!(values(&folder, "1 --bins 0").ends_with(corners), "{}", values(&folder, "1"));
    let full = values(&folder, "1 --full --slice :");
    let numbers = full.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    assert!(numbers.map(|word| word.parse::<u32>().unwrap()).eq(0..10_000), "every element once, in order");
    let wrapped = values(&folder, "2 --slice :");
    assert_eq!(wrapped.lines().count(), 3, "{wrapped}");
    assert!(
        wrapped.lines().all(|line| line.len() <= 100) && wrapped.starts_with("[1000000 1000001 "),
        "{wrapped}"
    );
    assert!(wrapped.lines().nth(1).unwrap().starts_with(" 10000"), "continued under the first: {wrapped}");
    assert_eq!(values(&folder, "3 --slice ..."), "-5\n");
    assert_eq!(values(&folder, "4 --slice :"), "[]\n");
}

#[test]
fn slices_support_negative_positions_and_steps() {
    let folder = made(2, |made| {
        made.tensor(Role::Input, 0, DType::Int32, &[2, 3, 4], &i32s(0..24));
    });
    for (slice, expected) in [
        ("0:4,:,3", "[[ 3  7 11]\n [15 19 23]]\n"),
        ("1,1,1", "17\n"),
        ("-1,-1", "[20 21 22 23]\n"),
        ("0,::-1,::2", "[[ 8 10]\n [ 4  6]\n [ 0  2]]\n"),
        ("...,0", "[[ 0  4  8]\n [12 16 20]]\n"),
        ("0,0,4:", "[]\n"),
    ] {
        assert_eq!(values(&folder, &format!("0 --slice {slice}")), expected, "{slice}");
        let shown = document(&folder.good(&format!("show d 0 --json --slice {slice}")));
        let numbers: Vec<i64> = expected
            .split(|c: char| !c.is_ascii_digit())
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().unwrap())
            .collect();
        assert_eq!(shown["values"]["elements"], json!(numbers), "{slice}");
        assert_eq!((&shown["values"]["left_out"], &shown["stats"]), (&0.into(), &Value::Null), "{slice}");
    }
    for (slice, part) in [
        ("5", "position 5 is out of range for axis 0, which has 2"),
        ("0,0,0,0", "4 terms, but the tensor has 3 axes"),
        ("x", "a term per axis"),
        ("::0", "step of 0"),
    ] {
        let outcome = folder.tensortap(&format!("show d 0 --slice {slice}"));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{slice}: {outcome:?}");
        assert!(outcome.stderr.contains(part), "{slice}: {outcome:?}");
    }
}

#[test]
fn elements_of_every_kind_are_exact() {
    let nan = f32::from_bits(0x7f80_0001);
    let folder = made(2, |made| {
        made.tensor(Role::Input, 0, DType::Int4, &[3], &[0x87, 0x0f]);
        made.tensor(Role::Input, 1, DType::UInt64, &[2], &[[0xff; 8], [1, 0, 0, 0, 0, 0, 0, 0x80]].concat());
        made.tensor(
            Role::Input,
            2,
            DType::Float32,
            &[4],
            &f32s([0.1, f32::INFINITY, f32::NEG_INFINITY, nan]),
        );
        made.tensor(Role::Input, 3, DType::BFloat16, &[2], &[0xcd, 0x3d, 0x80, 0xff]);
        made.tensor(Role::Input, 4, DType::Bool, &[2], &[0, 1]);
        made.scalar(5, DType::Float16, 0x3c00);
    });
    for (index, text, elements) in [
        (0, "[ 7 -8 -1]\n", json!([7, -8, -1])),
        (
            1,
            "[18446744073709551615  9223372036854775809]\n",
            json!(["18446744073709551615", "9223372036854775809"]),
        ),
        (2, "Infinity", json!([f64::from(0.1_f32), "Infinity", "-Infinity", "NaN"])),
        (3, "[      0.1 -Infinity]\n", json!([0.100_097_656_25, "-Infinity"])),
        (4, "[0 1]\n", json!([false, true])),
    ] {
        let shown = values(&folder, &format!("{index} --slice :"));
        assert!(shown.contains(text), "{index}: {shown}");
        let shown = document(&folder.good(&format!("show d {index} --json")));
        assert_eq!(shown["values"]["elements"], elements, "{index}");
    }
    assert!(values(&folder, "2 --slice :").contains("NaN(0x7f800001)"));
    let all = folder.good("show d 2").stdout;
    assert!(all.contains("NaN 1  Inf 2  of 4") && all.contains("not counted: 1 NaN, 2 infinite"), "{all}");
    let counts = document(&folder.good("show d 2 --json"));
    assert_eq!((&counts["stats"]["nan"], &counts["stats"]["inf"]), (&1.into(), &2.into()));
    assert_eq!(counts["histogram"]["counts"], json!([1]));
    let all = folder.good("show d 1").stdout;
    assert!(
        all.contains("min 9223372036854775809  max 18446744073709551615"),
        "64 bits are not rounded: {all}"
    );
    let scalar = folder.good("show d 5").stdout;
    assert!(
        scalar.contains("value         1.0\n") && scalar.contains("bits          0x0000000000003c00\n"),
        "{scalar}"
    );
}

#[test]
fn values_and_statistics_equal_the_payload_file() {
    let folder = vector_example();
    let manifest = folder.manifest("d");
    let bin = std::fs::read(folder.path("d/tensor_dump.bin")).unwrap();
    for (index, record) in manifest["tensors"].as_array().unwrap().iter().enumerate() {
        if record["kind"] != "tensor" {
            continue;
        }
        let at = usize::try_from(record["bin_offset"].as_u64().unwrap()).unwrap();
        let numbers: Vec<f64> = bin[at..at + 65_536]
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into())
            .collect();
        let shown = document(&folder.good(&format!("show d {index} --json --full")));
        #[expect(clippy::cast_possible_truncation, reason = "what is shown are 32-bit floats")]
        let elements =
            shown["values"]["elements"].as_array().unwrap().iter().map(|e| e.as_f64().unwrap() as f32);
        assert!(elements.map(f64::from).eq(numbers.iter().copied()), "record {index}");
        let near = |key: &str, expected: f64| {
            let found = shown["stats"][key].as_f64().unwrap();
            assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{key}: {found} {expected}");
        };
        near("min", numbers.iter().copied().fold(f64::INFINITY, f64::min));
        near("max", numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        near("mean", numbers.iter().sum::<f64>() / 16_384.0);
        let counted: u64 =
            shown["histogram"]["counts"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
        assert_eq!(counted, 16_384, "every value is in one range");
    }
    let short = document(&folder.good("show d 0 --json"));
    assert_eq!(
        (short["values"]["elements"].as_array().unwrap().len(), &short["values"]["left_out"]),
        (1000, &15_384.into())
    );
}

#[test]
fn hex_shows_offsets_and_is_limited() {
    let content: Vec<u8> = (0..=255).cycle().take(600).collect();
    let folder = made(2, |made| {
        made.tensor(Role::Input, 0, DType::UInt8, &[600], &content);
    });
    let some = values(&folder, "0 --hex");
    assert!(some.starts_with("00000000  00 01 02 03 04 05 06 07  08 09 0a"), "{some}");
    assert_eq!(some.lines().count(), 33);
    assert!(some.ends_with("... 88 bytes more; --full shows them\n"), "{some}");
    let all = values(&folder, "0 --hex --full");
    assert_eq!(all.lines().count(), 38);
    assert!(all.lines().nth(4).unwrap().ends_with("|@ABCDEFGHIJKLMNO|"), "{all}");
    let shown = document(&folder.good("show d 0 --hex --full --json"));
    let expected: String = content.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((&shown["hex"]["bytes"], &shown["hex"]["left_out"]), (&expected.into(), &0.into()));
}

#[test]
fn delta_shows_how_much_where_and_what_changed() {
    let before: Vec<i32> = (0..48).collect();
    let mut after = before.clone();
    for (row, column, by) in [(1, 2, 5), (1, 4, -90), (3, 3, 1)] {
        after[row * 8 + column] += by;
    }
    let folder = made(2, |made| {
        made.tensor(Role::InOut, 0, DType::Int32, &[6, 8], &i32s(before));
        made.tensor(Role::InOut, 1, DType::Float32, &[2], &f32s([1.0, 2.0]));
        made.tensor(Role::Input, 2, DType::Int32, &[1], &i32s([3]));
        made.task(7, 0, AFTER);
        made.tensor(Role::InOut, 0, DType::Int32, &[6, 8], &i32s(after));
        made.tensor(Role::InOut, 1, DType::Float32, &[2], &f32s([1.0, f32::NAN]));
    });
    let expected = "3 of 48 elements changed (6.25 %)\n  all within    --slice 1:4,2:5\n  \
                    largest       by 90.0000, [1,4]  12 -> -78\n  first         [1,2]  10 -> 15\n                \
                    [1,4]  12 -> -78\n                [3,3]  27 -> 28\n";
    for name in ["0", "3", "0:7/before/0", "0x7/after/0"] {
        assert_eq!(values(&folder, &format!("{name} --delta")), expected, "{name}");
    }
    let delta = document(&folder.good("show d 3 --delta --json"))["delta"].clone();
    assert_eq!((&delta["before"], &delta["after"], &delta["changed"]), (&0.into(), &3.into(), &3.into()));
    assert_eq!((&delta["first_changed"], &delta["last_changed"]), (&json!([1, 2]), &json!([3, 4])));
    assert_eq!((&delta["greatest"]["by"], &delta["greatest"]["at"]), (&90.0.into(), &json!([1, 4])));
    let nan = values(&folder, "1 --delta");
    assert!(nan.contains("not finite    1 changed") && nan.contains("[1]  2.0 -> NaN"), "{nan}");
    let outcome = folder.tensortap("show d 2 --delta");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(
        outcome.stderr.contains("captured at only one stage") && outcome.stderr.contains("--role inout"),
        "{outcome:?}"
    );
}

#[test]
fn reports_an_unchanged_argument() {
    let folder = made(2, |made| {
        made.tensor(Role::InOut, 0, DType::Int32, &[4], &i32s(0..4));
        made.task(7, 0, AFTER);
        made.tensor(Role::InOut, 0, DType::Int32, &[4], &i32s(0..4));
    });
    let shown = folder.good("show d 0 --delta").stdout;
    assert!(
        shown.contains("the kernel did not change it") && shown.ends_with("none of 4 elements changed\n"),
        "{shown}"
    );
}

#[test]
fn states_why_content_is_not_stored() {
    let folder = made(4, |made| {
        made.absent(0, DType::Float32, &[16], Payload::Stats(stats(2)));
        made.absent(1, DType::Float32, &[16], Payload::Dropped);
        made.absent(2, DType::Float32, &[16], Payload::Overwritten);
        made.tensor(Role::Input, 3, DType::Int32, &[4], &i32s([1, 2]));
    });
    for (index, part) in [
        (0, "payload       none: level hash records only hash and statistics"),
        (0, "min -1.5  max 2.5  mean 0.25  std 1.0\nzeros 3  NaN 2  Inf 0  of 16"),
        (1, "payload       dropped: there was no room"),
        (2, "payload       overwritten in device memory"),
        (3, "payload       the first 8 of 16 bytes"),
        (3, "of the 2 stored elements"),
        (3, "[1 2 ? ?]"),
    ] {
        let shown = folder.good(&format!("show d {index}")).stdout;
        assert!(shown.contains(part), "{index}: {shown}");
    }
    let shown = document(&folder.good("show d 0 --json"));
    assert_eq!((&shown["stats"]["nan"], &shown["values"]), (&2.into(), &Value::Null));
    assert_eq!(document(&folder.good("show d 3 --json"))["values"]["elements"], json!([1, 2, null, null]));
    let found = document(&folder.good("list d --nan --json"));
    assert_eq!(found["records"][0]["index"], 0);
}

#[test]
fn reports_a_missing_payload() {
    let folder = vector_example();
    cut(&folder.path("d/tensor_dump.bin"), 65_536);
    let shown = folder.good("show d 0x100000003/after/2 --slice 0").stdout;
    let said = "missing: 65,536 bytes at 393,216 of tensor_dump.bin, which is too short";
    assert!(shown.contains(said), "{shown}");
}

#[test]
fn finds_a_record_by_each_of_its_names() {
    let folder = vector_example();
    let expected = folder.good("show d --func mul --stage after").stdout;
    assert!(expected.starts_with("record "), "{expected}");
    let index = expected.split([' ', ':']).nth(1).unwrap();
    let next = "same content  ";
    assert!(
        expected.contains(next) && expected.contains("0x100000003/before/0"),
        "who read it is named: {expected}"
    );
    for name in [
        &format!("d {index}"),
        &format!("{index} d"),
        &format!("d --index {index}"),
        "d 0x100000002/after/2",
        "d 0x0000000100000002/after/2",
        "d 4294967298/after/2",
        "d 1:2/after/2",
        "1:2/after d",
        "d mul/after/2",
        "d mul --stage after",
        "d/tensor_dump.json mul/after",
    ] {
        assert_eq!(folder.good(&format!("show {name}")).stdout, expected, "{name}");
    }
    let shown = document(&folder.good(&format!("show d {index} --json")));
    assert_eq!(shown["record"]["name"], "0x100000002/after/2");
    assert_eq!(shown["record"]["kernels"], json!(["mul"]));
    let said = folder.manifest("d")["tensors"][index.parse::<usize>().unwrap()].clone();
    for (key, value) in said.as_object().unwrap() {
        assert_eq!(&shown["record"][key], value, "{key}");
    }
}

#[test]
fn rejects_unknown_and_ambiguous_names_with_alternatives() {
    let folder = vector_example();
    for (name, part) in [
        ("99", "there is no record 99; records are 0 to 17"),
        ("0x7/after/2", "tasks are 0x0 … 0x100000003"),
        ("0x0/after/1", "the task has 0x0/before/0, 0x0/before/1, 0x0/after/2"),
        ("mull/after/2", "there is no record mull/after/2"),
        ("0x0/during/1", "a stage is before or after"),
        ("0x0/before/x", "there is no record 0x0/before/x; the task has 0x0/before/0"),
        ("0x0 --stage before", "2 records match; `show` shows one:"),
        ("0x0 --hex", "3 records match; `show` shows one:"),
        ("0x7", "there is no task 0x7"),
        ("mull", "there is no task mull"),
        ("0x0/after/2 --reference", "a record is selected"),
        ("", "18 records match"),
        ("--func mul", "0x100000002/before/1 right  mul  float32 16384"),
        ("3 --task 0x0", "the selectors exclude record 3"),
        (".", "one word too many"),
    ] {
        let outcome = folder.tensortap(&format!("show d {name}"));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{name}: {outcome:?}");
        assert!(outcome.stderr.contains(part), "{name}: {outcome:?}");
    }
    let empty = folder.good("show d --func mul --dtype bool").stdout;
    assert_eq!(empty, "Nothing to show. There is no dtype bool; dtypes are float32, uint32.\n");
    assert_eq!(document(&folder.good("show d --func mul --dtype bool --json"))["record"], Value::Null);
}

#[test]
fn shows_a_task_with_its_neighbors_and_its_label() {
    let folder = vector_example();
    let text = folder.good("show d mul").stdout;
    let without_times: String =
        text.lines().filter(|line| !line.starts_with("  time ")).map(|line| format!("{line}\n")).collect();
    assert_snapshot("show_task", &without_times);
    assert_eq!(folder.good("show d mul").stdout, folder.good("show d 1:2").stdout);
    let page = document(&folder.good("show d mul --json"));
    assert_eq!(page["task_id"], "0x0000000100000002");
    // Producers must have equal hashes.
    let records = document(&folder.good("list d --json"));
    let records = records["records"].as_array().expect("records");
    let of = |task: &str, stage: &str, arg: u64| {
        let is = |r: &&Value| r["task_id"] == task && r["stage"] == stage && r["arg_index"] == arg;
        records.iter().find(is).unwrap_or_else(|| panic!("{task}/{stage}/{arg}"))
    };
    for arg in page["arguments"].as_array().expect("arguments").iter().filter(|arg| arg["kind"] == "tensor") {
        let place = arg["arg_index"].as_u64().expect("a place");
        if arg["role"] == "input" {
            let own = of("0x0000000100000002", "before_dispatch", place);
            assert_eq!(arg["before"]["index"], own["index"]);
            let [from] = &arg["from"].as_array().expect("producers")[..] else { panic!("{arg}") };
            let wrote = |r: &&Value| {
                r["task_id"] == *from && r["stage"] == "after_completion" && r["hash"] == own["hash"]
            };
            assert!(records.iter().any(|record| wrote(&record)), "{arg}");
        } else {
            let own = of("0x0000000100000002", "after_completion", place);
            let [to] = &arg["to"].as_array().expect("consumers")[..] else { panic!("{arg}") };
            let took = |r: &&Value| {
                r["task_id"] == *to && r["stage"] == "before_dispatch" && r["hash"] == own["hash"]
            };
            assert!(records.iter().any(|record| took(&record)), "{arg}");
            let counts = arg["after"]["histogram"]["counts"].as_array().expect("counts");
            let sum: u64 = counts.iter().map(|count| count.as_u64().expect("a count")).sum();
            assert_eq!(sum, 16_384, "{arg}");
        }
    }
    folder.tensortap("run vector_example --dump-tensor --out bad --inject-fault mul=sign");
    for against in ["--golden d", "--reference"] {
        let labelled = document(&folder.good(&format!("show bad mul {against} --json")));
        assert_eq!(labelled["label"]["label"], "wrong_here", "{labelled}");
    }
    check_comparison_with_golden(&folder);
    // A single word is a task of the newest dump.
    folder.good("run vector_example --dump-tensor");
    assert!(folder.good("show mul").stdout.starts_with("task 0x100000002: mul\n"));
    let neither = folder.tensortap("show mull").stderr;
    assert!(
        neither.contains("; there is no file of that name") && neither.contains("did you mean `mul`?"),
        "{neither}"
    );
    // Of several tasks with the same name, the wrong one is shown.
    let several = folder.good("show d add").stdout;
    assert!(several.contains(" with this name: 0x"), "{several}");
}

/// `show` and `blame` agree about the arguments of a task compared with a golden, and both agree with the bytes.
fn check_comparison_with_golden(folder: &Folder) {
    folder.tensortap("run vector_example --dump-tensor --out last --inject-fault mul=last");
    let text = folder.good("show last mul --golden d").stdout;
    let without_times: String =
        text.lines().filter(|line| !line.starts_with("  time ")).map(|line| format!("{line}\n")).collect();
    assert_snapshot("show_task_golden", &without_times);
    let page = document(&folder.good("show last mul --golden d --json"));
    let blame = document(&folder.tensortap("blame last --golden d --json"));
    let culprit = &blame["culprits"][0];
    assert_eq!(page["task_id"], culprit["task_id"]);
    let [left, _, product, _] = &page["arguments"].as_array().expect("arguments")[..] else {
        panic!("{page}")
    };
    let compared = &product["after"]["compared"];
    assert_eq!(
        [&compared["kind"], &compared["detail"]],
        [&culprit["records"][0]["kind"], &culprit["records"][0]["detail"]]
    );
    assert_eq!(
        [&compared["verdict"], &compared["failing"], &compared["elements"]],
        [&json!("fail"), &json!(1), &json!(16_384)]
    );
    assert_eq!(
        [&left["before"]["compared"]["verdict"], &left["before"]["compared"]["kind"]],
        [&json!("pass"), &Value::Null]
    );
    // The worst element is the last one, and both values are in the files.
    let worst = &compared["detail"]["worst"][0];
    let of = |dump: &str| {
        let values = document(&folder.good(&format!("show {dump} mul product --slice -1 --json")));
        values["values"]["elements"][0].as_f64().expect("a number")
    };
    assert_eq!(
        [&worst["coordinate"], &worst["dump"], &worst["golden"]],
        [&json!([16_383]), &json!(of("last")), &json!(of("d"))]
    );
    let itself = folder.good("show last mul --golden last").stdout;
    for words in [
        "label         ok",
        "note          the dump is compared with itself",
        "matches the golden: identical",
    ] {
        assert!(itself.contains(words), "no {words} in {itself}");
    }
}

#[test]
fn shortens_long_names_in_text_but_not_in_json() {
    let name = "kernel_".repeat(40);
    let folder = Folder::new();
    let mut made = DumpMaker::named(&folder.path("d"), 2, WriterOptions::default(), &name);
    made.task(1, 1, AFTER).tensor(Role::Output, 0, DType::Int32, &[2], &i32s(0..2));
    made.task(7, 0, BEFORE).tensor(Role::Input, 0, DType::Int32, &[2], &i32s(0..2));
    made.finish();
    let text = folder.good("show d 0x7").stdout;
    let given = text.lines().find(|line| line.starts_with("  producers")).expect("its producer");
    assert!(given.ends_with("kernel_…") && given.chars().count() == 16 + "0x1 ".len() + 64, "{text}");
    let giver = document(&folder.good("show d 0x7 --json"));
    assert_eq!(giver["producers"][0]["kernels"][0], name);
    assert!(folder.good("show d 0x1").stdout.starts_with(&format!("task 0x1: {name}\n")));
}

#[test]
fn claimed_elements_without_content_cost_nothing() {
    let folder = made(2, |made| {
        made.tensor(Role::Input, 0, DType::Int32, &[1 << 40], &i32s([1, 2]));
        made.tensor(Role::Input, 1, DType::Int32, &[1 << 50, 0], &[]);
    });
    let shown = folder.good("show d 0 --full").stdout;
    assert!(shown.contains("[1 2 ? ... ? ? ?]\ncorners only: most elements are not stored\n"), "{shown}");
    let shown = document(&folder.good("show d 0 --full --json"));
    assert_eq!(shown["values"]["left_out"], (1_u64 << 40) - 1000);
    assert_eq!(values(&folder, "1 --full --slice :"), "[]\n");
}

#[test]
fn escapes_control_characters_in_names() {
    let folder = made(2, |made| {
        made.task(8, 1, BEFORE);
        made.tensor(Role::Input, 0, DType::Int32, &[1], &i32s([3]));
    });
    for line in ["list d", "show d 0", "list d --csv", "list d --func nothing"] {
        let outcome = folder.tensortap(line);
        assert!(!(outcome.stdout + &outcome.stderr).contains('\x1b'), "{line}");
    }
    let csv = folder.good("list d --csv --columns kernel,arg").stdout;
    assert_eq!(csv, "kernels,arg_index\n\"cl\\u{1b}[2Jear,\"\"x\"\"\",0\n");
}

#[test]
fn suggests_the_nearest_name() {
    let folder = vector_example();
    for (line, message, hint) in [
        ("show d mull/after/2", "kernels: add, add_scalar, mul", "did you mean `mul/after/2`?"),
        ("show d mull", "there is no task mull", "did you mean `mul`?"),
        ("show mull", "cannot open mull", "write dumps"),
        ("show d mul/aftr/2", "a stage is before or after", "did you mean `mul/after/2`?"),
        ("show mul/befor", "a stage is before or after", "did you mean `mul/before`?"),
        ("show d -1", "there is no record -1; records are 0 to 17", "its index (17)"),
        ("show -1 d", "there is no record -1; records are 0 to 17", "its index (17)"),
    ] {
        let outcome = folder.tensortap(line);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{line}: {outcome:?}");
        assert!(outcome.stderr.contains(message) && outcome.stderr.contains(hint), "{line}: {outcome:?}");
    }
}
