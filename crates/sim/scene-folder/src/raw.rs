//! The content of `scene.toml` as written: keys with their positions. Only their types are checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawScene {
    pub name: Option<Spanned<String>>,
    #[serde(default)]
    pub about: String,
    pub runtimes: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    pub params: BTreeMap<Spanned<String>, RawParam>,
    #[serde(default)]
    pub build: RawBuild,
    #[serde(default)]
    pub tensor: Vec<Spanned<RawTensor>>,
    #[serde(default)]
    pub scalar: Vec<Spanned<RawScalar>>,
    #[serde(default)]
    pub kernel: Vec<Spanned<RawKernel>>,
    pub orchestration: Option<RawOrchestration>,
    #[serde(default)]
    pub task: Vec<Spanned<RawTask>>,
    pub golden: Option<Spanned<RawGolden>>,
    #[serde(default)]
    pub case: Vec<Spanned<RawCase>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawParam {
    pub default: Spanned<Value>,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub choices: Option<Vec<String>>,
    #[serde(default)]
    pub about: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawBuild {
    pub cflags: Vec<String>,
    pub cxxflags: Vec<String>,
    pub ldflags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTensor {
    pub name: Spanned<String>,
    pub dtype: Spanned<String>,
    pub shape: Spanned<Vec<Spanned<Value>>>,
    pub role: Spanned<String>,
    pub fill: Option<Spanned<RawFill>>,
    pub tolerance: Option<RawTolerance>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFill {
    pub uniform: Option<[f64; 2]>,
    pub normal: Option<[f64; 2]>,
    pub range: Option<[f64; 2]>,
    pub constant: Option<f64>,
    pub file: Option<Spanned<String>>,
    pub seed: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTolerance {
    pub rtol: f64,
    pub atol: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawScalar {
    pub name: Spanned<String>,
    pub dtype: Spanned<String>,
    pub value: Spanned<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawKernel {
    pub name: Spanned<String>,
    pub func_id: Option<Spanned<u32>>,
    pub source: Option<Spanned<String>>,
    pub library: Option<Spanned<String>>,
    pub symbol: Option<Spanned<String>>,
    pub core: Option<Spanned<String>>,
    pub args: Vec<Spanned<String>>,
    pub tolerance: Option<RawTolerance>,
    pub reference: Option<Spanned<String>>,
    pub faults: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawOrchestration {
    pub source: Spanned<String>,
    pub symbol: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTask {
    pub kernel: Option<Spanned<String>>,
    pub kernels: Option<Vec<Spanned<String>>>,
    pub name: Option<String>,
    pub scope: Option<String>,
    #[serde(default)]
    pub args: Vec<Spanned<Value>>,
    pub blocks: Option<Spanned<Value>>,
    pub dump: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGolden {
    pub files: Option<BTreeMap<Spanned<String>, Spanned<String>>>,
    pub source: Option<Spanned<String>>,
    pub symbol: Option<Spanned<String>>,
    pub command: Option<Spanned<Vec<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCase {
    pub name: Spanned<String>,
    #[serde(default)]
    pub params: BTreeMap<Spanned<String>, Spanned<Value>>,
    pub seed: Option<u64>,
    #[serde(default)]
    pub tolerances: BTreeMap<Spanned<String>, RawTolerance>,
}
