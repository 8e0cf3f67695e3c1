use std::collections::HashSet;

use tensortap_abi::DType;
use tensortap_scene::{Params, Scene, SceneError};

use super::TinyLlm;
use super::config::Config;
use crate::checks::{self, ParamPairs, params, recorded, ring_use};

const ONE_OF_EACH: ParamPairs<'_> = &[
    ("layers", "1"),
    ("hidden", "2"),
    ("heads", "1"),
    ("kv_heads", "1"),
    ("ffn", "1"),
    ("vocab", "2"),
    ("tokens", "1"),
    ("prompt", "1"),
    ("tile", "1"),
];
const WIDE: ParamPairs<'_> = &[
    ("layers", "3"),
    ("hidden", "384"),
    ("heads", "6"),
    ("kv_heads", "6"),
    ("ffn", "768"),
    ("vocab", "1152"),
    ("tokens", "2"),
    ("prompt", "1"),
    ("tile", "384"),
];
const SMALL: ParamPairs<'_> = &[
    ("hidden", "48"),
    ("heads", "6"),
    ("kv_heads", "2"),
    ("ffn", "32"),
    ("vocab", "64"),
    ("tokens", "5"),
    ("prompt", "3"),
    ("tile", "8"),
    ("seed", "5"),
];

#[test]
fn passes_all_scene_checks() {
    checks::all(&TinyLlm, &[&[], ONE_OF_EACH, WIDE, SMALL]);
}

#[test]
fn a_default_run_has_thousands_of_tasks_and_every_dtype_of_a_decoder() {
    let graph = recorded(&TinyLlm, &[]);
    assert!(graph.len() >= 2000, "{}", graph.len());
    let dtypes: HashSet<_> =
        (0..graph.len()).flat_map(|t| graph.tensors(t)).filter_map(|(desc, _)| desc.dtype()).collect();
    let wanted = [DType::Float32, DType::Float16, DType::BFloat16, DType::Int32, DType::Int8];
    assert_eq!(dtypes, HashSet::from(wanted));
}

#[test]
fn task_counts_are_exact_and_too_many_tasks_are_refused() {
    for given in [&[], ONE_OF_EACH, WIDE, SMALL] {
        let tasks = Config::new(&params(&TinyLlm, given)).tasks();
        assert_eq!(tasks, recorded(&TinyLlm, given).len() as u64, "{given:?}");
    }
    checks::refused(&TinyLlm, &[("tile", "1"), ("layers", "16"), ("tokens", "1024")], "tile");
}

/// The smallest lead of the best logit over the second one, in units of the tolerance of the best logit.
fn least_lead(given: ParamPairs<'_>) -> f64 {
    let params = params(&TinyLlm, given);
    let golden = TinyLlm.golden(&params, &TinyLlm.host_args(&params)).unwrap();
    let logits = golden.iter().find(|t| t.name == "logits").unwrap();
    let vocab = usize::try_from(logits.shape[1]).unwrap();
    let tolerance = TinyLlm.tolerance("logits").unwrap();
    let lead = |row: &[f32]| {
        let mut row: Vec<f64> = row.iter().copied().map(f64::from).collect();
        row.sort_by(|a, b| b.total_cmp(a));
        (row[0] - row[1]) / (tolerance.atol + tolerance.rtol * row[0].abs())
    };
    logits.get::<f32>().chunks_exact(vocab).map(lead).fold(f64::INFINITY, f64::min)
}

#[test]
fn the_best_logit_always_leads_clearly() {
    for seed in ["1", "2", "3", "4", "5", "6", "7", "8"] {
        let lead = least_lead(&[("seed", seed)]);
        assert!(lead > 100.0, "seed {seed}: the best logit leads by {lead} tolerances");
    }
}

#[test]
fn decoded_tokens_vary_within_a_run_and_between_seeds() {
    let tokens = |seed| {
        let params = params(&TinyLlm, &[("seed", seed)]);
        let golden = TinyLlm.golden(&params, &TinyLlm.host_args(&params)).unwrap();
        golden.into_iter().find(|t| t.name == "tokens").unwrap().get::<i32>()
    };
    let decoded = tokens("1");
    assert_eq!(decoded.len(), 24);
    assert!(decoded.iter().collect::<HashSet<_>>().len() > 12, "{decoded:?}");
    assert_ne!(decoded, tokens("2"));
}

#[test]
fn a_small_ring_is_enough_for_any_length() {
    let (short, long) = (ring_use(&TinyLlm, &[]), ring_use(&TinyLlm, &[("tokens", "96")]));
    assert_eq!(long.tasks, short.tasks);
    assert!(long.tasks <= 128 && long.bytes <= 1 << 20, "{long:?}");
}

#[test]
fn sizes_that_do_not_divide_are_refused_with_a_valid_size() {
    let refused = |given: ParamPairs<'_>, name: &str, works: &str| {
        let params = Params::resolve("tiny_llm", TinyLlm.params(), given.iter().copied()).unwrap();
        match TinyLlm.check(&params) {
            Err(SceneError::BadParam { name: named, expected, .. }) => {
                assert_eq!(named, name);
                assert!(expected.contains(works), "{expected}");
            }
            other => panic!("{given:?}: {other:?}"),
        }
    };
    refused(&[("hidden", "130")], "hidden", "the next one is 132");
    refused(&[("kv_heads", "3")], "heads", "the next one is 6");
    refused(&[("hidden", "12")], "hidden", "hidden=16 works");
    refused(&[("tile", "24")], "hidden", "the next one is 144");
    refused(&[("tile", "128")], "tile", "64 does");
    refused(&[("ffn", "250")], "ffn", "the next one is 256");
    refused(&[("vocab", "500")], "vocab", "the next one is 512");
    checks::refused(&TinyLlm, &[("tokens", "0")], "tokens");
    checks::refused(&TinyLlm, &[("layers", "17")], "layers");
}

/// Compares the task names of the first token, in submission order, with a list that was written by hand.
#[test]
fn tasks_are_named_by_token_layer_and_part() {
    let (mut seen, mut tokens) = (Vec::new(), HashSet::new());
    recorded(&TinyLlm, ONE_OF_EACH)
        .run_observed(|step| {
            let kernel = step.kernels[0].name;
            let name = if step.task_name.is_empty() { kernel } else { &step.task_name };
            seen.push(format!("{} / {name}", step.scope.join("/")));
        })
        .unwrap();
    let attention = [
        "attention_norm",
        "k_proj",
        "k_proj",
        "v_proj",
        "v_proj",
        "append_kv",
        "q_proj",
        "q_proj",
        "rope",
        "attention_scores",
        "softmax",
        "attention_values",
        "o_proj",
        "o_proj",
        "add_residual",
    ];
    let feed_forward =
        ["ffn_norm", "gate_proj", "up_proj", "swiglu", "down_proj", "down_proj", "add_residual"];
    let mut expected = vec!["token 0 / embed".to_string()];
    expected.extend(attention.map(|name| format!("token 0/layer 0/attention / {name}")));
    expected.extend(feed_forward.map(|name| format!("token 0/layer 0/feed_forward / {name}")));
    expected.extend(["final_norm", "lm_head", "lm_head", "argmax"].map(|name| format!("token 0 / {name}")));
    assert_eq!(seen, expected);

    recorded(&TinyLlm, SMALL).run_observed(|step| _ = tokens.insert(step.scope.first().cloned())).unwrap();
    assert_eq!(tokens, (0..7).map(|token| Some(format!("token {token}"))).collect());
}
