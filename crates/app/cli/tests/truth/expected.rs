//! The expected content of a full dump, computed by the sequential executor.

use std::collections::BTreeMap;

use tensortap::RunConfig;
use tensortap::scene::{Params, SequentialGraph};

/// Identifies one captured argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub task_id: u64,
    pub before: bool,
    pub arg_index: u64,
}

/// The content of a captured argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Tensor { dtype: String, shape: Vec<u64>, bytes: Vec<u8> },
    Scalar { dtype: String, bits: u64 },
}

/// Number of rings of `tensormap_and_ringbuffer`; the depth of a scope chooses one.
const RINGS: usize = 4;

/// Every argument of every task.
pub fn contents(config: &RunConfig, runtime: &str) -> BTreeMap<Key, Content> {
    let scene = config.registry.find(&config.scene).expect("a scene");
    let pairs = config.params.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let params = Params::resolve(scene.name(), scene.params(), pairs).expect("valid parameters");
    let mut graph =
        SequentialGraph::record(scene, &params, &scene.host_args(&params)).expect("the graph builds");
    let mut next_in_ring = [0_u64; RINGS];
    let mut all = BTreeMap::new();
    graph
        .run_observed(|step| {
            let task_id = if runtime == "tensormap_and_ringbuffer" {
                let ring = step.scope.len().min(RINGS - 1);
                let local = next_in_ring[ring];
                next_in_ring[ring] += 1;
                (ring as u64) << 32 | local
            } else {
                step.index as u64
            };
            let mut add = |before, arg_index: usize, content| {
                let key = Key { task_id, before, arg_index: arg_index as u64 };
                assert!(all.insert(key, content).is_none());
            };
            for (index, role) in step.roles.iter().enumerate() {
                for (before, tensor) in
                    [(true, &step.before.tensors[index]), (false, &step.after.tensors[index])]
                {
                    if if before { role.reads() } else { role.writes() } {
                        let shape = tensor.shape.iter().map(|&d| d as u64).collect();
                        let dtype = tensor.dtype.name().to_string();
                        add(before, index, Content::Tensor { dtype, shape, bytes: tensor.bytes.clone() });
                    }
                }
            }
            for (index, scalar) in step.before.scalars.iter().enumerate() {
                let content = Content::Scalar { dtype: scalar.dtype.name().to_string(), bits: scalar.bits };
                add(true, step.roles.len() + index, content);
            }
        })
        .expect("the graph runs");
    all
}
