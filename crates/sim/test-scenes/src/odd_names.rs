//! A hidden scene with difficult names: commas, quotes, control characters, 255 bytes, nested scopes.

use tensortap_abi::DType;
use tensortap_scene::{
    ArgSpec, GraphError, HostArgs, HostTensor, MAX_NAME_BYTES, Orch, Params, Scene, scene_facts,
};
use tensortap_scenes::inputs::{SEED, fill_uniform};

use crate::odd_views::COPY;

const ELEMENTS: u64 = 16;
/// A control sequence of terminals.
const CONTROL: &str = "red \u{1b}[31m\nnext line";

/// A chain of copies by tasks with difficult names.
pub struct OddNames;

impl Scene for OddNames {
    scene_facts! {
        name: "odd_names",
        about: "copies whose scopes and tasks have names with commas, control characters and 255 bytes",
        hidden: true,
        params: &[SEED],
        kernels: &[COPY],
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        let arg = |name| ArgSpec::output(name, DType::Float32, &[ELEMENTS]);
        vec![ArgSpec::input("x", DType::Float32, &[ELEMENTS]), arg("first"), arg("second"), arg("last")]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        fill_uniform::<f32>(params, args, "x", -1.0..1.0);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, _params: &Params) -> Result<(), GraphError> {
        let (x, first, second, last) = (o.arg("x")?, o.arg("first")?, o.arg("second")?, o.arg("last")?);
        let long = "é".repeat(MAX_NAME_BYTES / 2) + "!";
        o.scope("heads 0,1", |o| {
            let one = o.task(&COPY).task_name(CONTROL).input(&x).output(&first).submit()?;
            o.scope(&long, |o| {
                let two = o.task(&COPY).task_name(&long).input(&first).output(&second).after(one).submit()?;
                o.task(&COPY).task_name("say \"a,b\"").input(&second).output(&last).after(two).submit()
            })
        })?;
        Ok(())
    }

    fn golden(&self, _params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let x = inputs.get("x").get::<f32>();
        Some(["first", "second", "last"].map(|name| HostTensor::new(name, &[ELEMENTS], &x)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks;

    #[test]
    fn graph_golden_and_references_agree() {
        checks::graph_equals_golden(&OddNames, &[]);
        checks::tasks_equal_references(&OddNames, &[]);
    }
}
