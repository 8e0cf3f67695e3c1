//! The documents of `--json`: every key, its type, and nothing else on standard output.

use serde_json::Value;

use crate::{Outcome, tensortap};

/// The one document on standard output.
pub fn document(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

const RUN_KEYS: [&str; 14] = [
    "blocks",
    "dispatches",
    "dump",
    "failure",
    "golden",
    "outputs",
    "platform",
    "runtime",
    "scene",
    "schedulers",
    "status",
    "tasks",
    "tasks_per_s",
    "wall_s",
];
const FAILURE_KEYS: [&str; 6] = ["core", "kernel", "kind", "message", "signal", "task_id"];

fn run_document(outcome: &Outcome) -> Value {
    let run = document(outcome);
    assert_eq!(keys(&run), RUN_KEYS);
    for key in ["scene", "platform", "runtime", "status", "golden"] {
        assert!(run[key].is_string(), "{key}: {run}");
    }
    assert!(run["tasks"].is_u64() && run["dispatches"].is_u64() && run["schedulers"].is_u64(), "{run}");
    assert!(run["wall_s"].is_f64() && run["tasks_per_s"].is_f64() && run["outputs"].is_array(), "{run}");
    assert!(run["dump"].is_null(), "{run}");
    run
}

#[test]
fn a_run_has_the_complete_document() {
    let outcome = tensortap("run mixed_example --json --platform a5sim --blocks 3");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let run = run_document(&outcome);
    assert_eq!((&run["scene"], &run["platform"]), (&"mixed_example".into(), &"a5sim".into()));
    assert_eq!(run["runtime"], "tensormap_and_ringbuffer");
    assert_eq!((&run["status"], &run["golden"]), (&"complete".into(), &"pass".into()));
    assert_eq!((&run["tasks"], &run["dispatches"], &run["blocks"]), (&20.into(), &100.into(), &3.into()));
    assert!(run["wall_s"].as_f64() > Some(0.0) && run["tasks_per_s"].as_f64() > Some(0.0), "{run}");
    assert!(run["failure"].is_null(), "{run}");
    let outputs = run["outputs"].as_array().unwrap();
    let names: Vec<&str> = outputs.iter().map(|output| output["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["state", "counts", "half"]);
    for output in outputs {
        assert_eq!(
            keys(output),
            [
                "elements",
                "first_outside",
                "max_abs_err",
                "max_finite_err",
                "name",
                "outside",
                "unmatched_nan",
                "verdict",
            ]
        );
        assert!(output["max_abs_err"].is_f64(), "{output}");
        assert_eq!((&output["verdict"], &output["elements"]), (&"pass".into(), &4096.into()));
        assert_eq!((&output["outside"], &output["first_outside"]), (&0.into(), &Value::Null));
    }
}

#[test]
fn a_wrong_output_is_in_the_document_and_nan_is_a_word() {
    let outcome = tensortap("run vector_example --json --inject-fault mul=nan");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let run = run_document(&outcome);
    assert_eq!((&run["status"], &run["golden"]), (&"complete".into(), &"fail".into()));
    let output = &run["outputs"][0];
    assert_eq!((&output["verdict"], &output["max_abs_err"]), (&"fail".into(), &"NaN".into()));
    assert_eq!(output["first_outside"]["actual"], "NaN");
    assert!(output["first_outside"]["expected"].is_f64(), "{output}");

    let outcome = tensortap("run vector_example --json --inject-fault mul=overflow");
    assert_eq!(run_document(&outcome)["outputs"][0]["max_abs_err"], "Infinity");
}

#[test]
fn a_crash_is_in_the_document() {
    let outcome = tensortap("run crash_segv --json");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let run = run_document(&outcome);
    assert_eq!((&run["status"], &run["golden"]), (&"crashed".into(), &"none".into()));
    assert_eq!(run["outputs"], Value::Array(Vec::new()));
    let failure = &run["failure"];
    assert_eq!(keys(failure), FAILURE_KEYS);
    assert_eq!((&failure["kind"], &failure["kernel"]), (&"signal".into(), &"segv".into()));
    assert_eq!((&failure["signal"], &failure["task_id"]), (&11.into(), &"0x0000000100000003".into()));
    assert!(
        failure["core"].is_u64() && failure["message"].as_str().unwrap().contains("SIGSEGV"),
        "{failure}"
    );
}

#[test]
fn a_hang_is_in_the_document() {
    let outcome = tensortap("run hang --json --stall-timeout 500ms");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let run = run_document(&outcome);
    assert_eq!((&run["status"], &run["failure"]["kind"]), (&"stalled".into(), &"stall".into()));
    assert_eq!((&run["failure"]["kernel"], &run["failure"]["signal"]), (&"hang".into(), &Value::Null));
}

#[test]
fn a_run_that_cannot_start_has_a_document() {
    let outcome = tensortap("run bgemm --json --device-memory 2MiB");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let run = run_document(&outcome);
    assert_eq!((&run["tasks"], &run["failure"]["kind"]), (&0.into(), &"not_started".into()));
    assert_eq!(keys(&run["failure"]), FAILURE_KEYS);
    let message = run["failure"]["message"].as_str().unwrap();
    assert!(message.contains("--device-memory") && outcome.stderr.contains(message), "{outcome:?}");
}

#[test]
fn scenes_are_listed_with_all_their_keys() {
    let outcome = tensortap("scenes --json");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let scenes = document(&outcome);
    let registry = tensortap_cli::scenes();
    let listed: Vec<&str> = registry.scenes().iter().filter(|s| !s.hidden()).map(|s| s.name()).collect();
    let named: Vec<&str> = scenes.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(named, listed);
    for scene in scenes.as_array().unwrap() {
        assert_eq!(keys(scene), ["about", "kernels", "name", "params", "platforms", "runtimes"]);
        assert!(scene["runtimes"].as_array().unwrap().iter().all(Value::is_string), "{scene}");
        assert_eq!(scene["platforms"], serde_json::json!(["a2a3sim", "a5sim"]));
        for kernel in scene["kernels"].as_array().unwrap() {
            assert_eq!(keys(kernel), ["args", "core_type", "faults", "func_id", "name"]);
            assert!(kernel["func_id"].is_u64() && kernel["faults"].is_array(), "{kernel}");
            assert!(kernel["core_type"] == "AIC" || kernel["core_type"] == "AIV", "{kernel}");
        }
        for param in scene["params"].as_object().unwrap().values() {
            assert!(param["default"].is_string() && param["about"].is_string(), "{param}");
            assert!(param["choices"].is_array() != (param["min"].is_string() && param["max"].is_string()));
        }
    }
}

#[test]
fn one_scene_has_the_same_form_as_all() {
    let all = document(&tensortap("scenes --json"));
    let one = document(&tensortap("scenes bgemm --json"));
    let bgemm = all.as_array().unwrap().iter().find(|scene| scene["name"] == "bgemm");
    assert_eq!((one.as_array().map(Vec::len), one.get(0)), (Some(1), bgemm));
    let args: Vec<_> = one[0]["kernels"][1]["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|arg| (&arg["arg_name"], &arg["kind"]))
        .collect();
    let [product, c, first] = ["product", "c", "first"].map(Value::from);
    let [read, both, scalar] = ["IN", "INOUT", "SCALAR"].map(Value::from);
    assert_eq!(args, [(&product, &read), (&c, &both), (&first, &scalar)]);
    assert_eq!(one[0]["params"]["dtype"]["choices"], serde_json::json!(["f32", "f16", "i8"]));
    // Larger than a JSON number can represent exactly.
    assert_eq!(one[0]["params"]["seed"]["max"], "18446744073709551615");
}
