//! `bgemm`: a batched matrix product in tiles. Matrix cores multiply tiles, and vector cores add the products
//! to the tile of the result. All tiles are strided views, and some right-hand matrices are transposed or
//! reversed in memory.

mod kernels;

use half::f16;
use tensortap_abi::DType;
use tensortap_scene::{
    ArgSpec, Element, GraphError, HostArgs, HostTensor, Orch, ParamSpec, Params, Scene, SceneError, Tensor,
    scene_facts,
};

use crate::inputs::{SEED, dim, fill_uniform, size};
use crate::limits::check_tasks;
use kernels::{GEMM_TILE, TILE_ADD};

/// The scene `bgemm`: `c[b] = a[b] x b[b]`.
pub struct Bgemm;

impl Scene for Bgemm {
    scene_facts! {
        name: "bgemm",
        about: "batched tiled matmul: tile products on AIC, accumulated in place on AIV, over strided views",
        params: &[
            ParamSpec::int("batch", "3", 1, 64, "matrices"),
            ParamSpec::int("m", "128", 1, 4096, "rows of a and c, a multiple of tile"),
            ParamSpec::int("n", "96", 1, 4096, "columns of b and c, a multiple of tile"),
            ParamSpec::int("k", "160", 1, 4096, "columns of a, rows of b, a multiple of tile"),
            ParamSpec::int("tile", "32", 1, 256, "side of a tile"),
            ParamSpec::choice(
                "dtype",
                "f32",
                &["f32", "f16", "i8"],
                "element type of a and b; i8 accumulates in i32",
            ),
            ParamSpec::choice(
                "layout",
                "mixed",
                &["mixed", "plain", "transposed", "reversed"],
                "layout of b in memory; mixed alternates over the batch",
            ),
            SEED,
        ],
        kernels: &[GEMM_TILE, TILE_ADD],
    }

    fn check(&self, params: &Params) -> Result<(), SceneError> {
        let tile = params.int("tile");
        for name in ["m", "n", "k"] {
            if !params.int(name).is_multiple_of(tile) {
                return Err(SceneError::BadParam {
                    scene: self.name(),
                    name: name.into(),
                    value: params.word(name).into(),
                    expected: format!("a multiple of `tile` ({tile}) is expected"),
                });
            }
        }
        check_tasks(self.name(), ("tile", tile), Sizes::new(params).tasks())
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let Sizes { batch, m, n, k, .. } = Sizes::new(params);
        let (operand, result) = dtypes(params);
        vec![
            ArgSpec::input("a", operand, &[batch, m, k]),
            ArgSpec::input("b", operand, &[batch, k, n]),
            ArgSpec::output("c", result, &[batch, m, n]),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        // Sums of k products stay near 1, so that the tolerance of the dtype fits any k.
        let spread = (3.0 / f64::from(u32::try_from(params.int("k")).expect("bounded"))).sqrt();
        match params.word("dtype") {
            "i8" => {
                fill_uniform::<i8>(params, args, "a", -100.0..100.0);
                fill_uniform::<i8>(params, args, "b", -100.0..100.0);
            }
            "f16" => {
                fill_uniform::<f16>(params, args, "a", -1.0..1.0);
                fill_uniform::<f16>(params, args, "b", -spread..spread);
            }
            _ => {
                fill_uniform::<f32>(params, args, "a", -1.0..1.0);
                fill_uniform::<f32>(params, args, "b", -spread..spread);
            }
        }
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let Sizes { batch, m, n, tile, .. } = Sizes::new(params);
        let (a, b, c) = (o.arg("a")?, o.arg("b")?, o.arg("c")?);
        for index in 0..batch {
            let a = a.select(0, index)?;
            let b = Layout::of(params, index).view(&b.select(0, index)?)?;
            let c = c.select(0, index)?;
            for row in (0..m).step_by(tile_step(tile)) {
                for column in (0..n).step_by(tile_step(tile)) {
                    let a = a.slice(0, row, tile)?;
                    let b = b.slice(1, column, tile)?;
                    let c = c.slice(0, row, tile)?.slice(1, column, tile)?;
                    let name = format_args!("batch {index} tile {} {}", row / tile, column / tile);
                    o.scope(name, |o| accumulate_tile(o, &a, &b, &c, tile))?;
                }
            }
        }
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(vec![match params.word("dtype") {
            "i8" => golden_of::<i8, i32>(params, inputs),
            "f16" => golden_of::<f16, f32>(params, inputs),
            _ => golden_of::<f32, f32>(params, inputs),
        }])
    }
}

/// Computes one tile of the result with a chain of products. The first overwrites the tile, and the others
/// are added.
fn accumulate_tile(
    o: &mut Orch<'_>,
    a_rows: &Tensor,
    b_columns: &Tensor,
    c: &Tensor,
    tile: u64,
) -> Result<(), GraphError> {
    let mut last = None;
    for inner in (0..a_rows.shape()[1]).step_by(tile_step(tile)) {
        let (a, b) = (a_rows.slice(1, inner, tile)?, b_columns.slice(0, inner, tile)?);
        let product = o.tensor(c.dtype(), &[tile, tile])?;
        let gemm = o.task(&GEMM_TILE).input(&a).input(&b).output(&product).submit()?;
        let add = o.task(&TILE_ADD).input(&product);
        let add = if last.is_none() { add.output(c) } else { add.inout(c) };
        last = Some(add.scalar(last.is_none()).after(gemm).after_all(last).submit()?);
    }
    Ok(())
}

fn tile_step(tile: u64) -> usize {
    usize::try_from(tile).expect("bounded by the parameter")
}

struct Sizes {
    batch: u64,
    m: u64,
    n: u64,
    k: u64,
    tile: u64,
}

impl Sizes {
    fn new(params: &Params) -> Sizes {
        let [batch, m, n, k, tile] = ["batch", "m", "n", "k", "tile"].map(|name| params.int(name));
        Sizes { batch, m, n, k, tile }
    }

    /// Number of tasks: a product and an addition for each tile of the result and each step along k.
    fn tasks(&self) -> u64 {
        let Sizes { batch, m, n, k, tile } = self;
        2 * batch * (m / tile) * (n / tile) * (k / tile)
    }
}

/// The dtypes of the operands and of the result.
fn dtypes(params: &Params) -> (DType, DType) {
    match params.word("dtype") {
        "i8" => (DType::Int8, DType::Int32),
        "f16" => (DType::Float16, DType::Float32),
        _ => (DType::Float32, DType::Float32),
    }
}

/// The layout of a right-hand matrix in `b`.
#[derive(Clone, Copy)]
enum Layout {
    /// Row by row.
    Plain,
    /// Column by column.
    Transposed,
    /// Row by row, from the last element to the first.
    Reversed,
}

impl Layout {
    fn of(params: &Params, index: u64) -> Layout {
        match (params.word("layout"), index % 3) {
            ("transposed", _) | ("mixed", 1) => Layout::Transposed,
            ("reversed", _) | ("mixed", 2) => Layout::Reversed,
            _ => Layout::Plain,
        }
    }

    /// The matrix as k rows of n elements.
    fn view(self, place: &Tensor) -> Result<Tensor, GraphError> {
        let (k, n) = (place.shape()[0], place.shape()[1]);
        match self {
            Layout::Plain => Ok(*place),
            Layout::Transposed => place.reshape(&[n, k])?.transpose(0, 1),
            Layout::Reversed => place.slice_step(0, k - 1, k, -1)?.slice_step(1, n - 1, n, -1),
        }
    }

    /// The position of element (p, j), for the golden.
    fn place(self, (k, n): (usize, usize), p: usize, j: usize) -> usize {
        match self {
            Layout::Plain => p * n + j,
            Layout::Transposed => j * k + p,
            Layout::Reversed => k * n - 1 - (p * n + j),
        }
    }
}

fn golden_of<T: Element, R: Element>(params: &Params, inputs: &HostArgs) -> HostTensor {
    let [batch, m, n, k] = ["batch", "m", "n", "k"].map(|name| size(params, name));
    let a: Vec<f64> = inputs.get("a").get::<T>().into_iter().map(T::to_f64).collect();
    let b: Vec<f64> = inputs.get("b").get::<T>().into_iter().map(T::to_f64).collect();
    let mut c = Vec::with_capacity(batch * m * n);
    for index in 0..batch {
        let layout = Layout::of(params, dim(index));
        let columns: Vec<f64> = (0..n)
            .flat_map(|j| (0..k).map(move |p| layout.place((k, n), p, j)))
            .map(|place| b[index * k * n + place])
            .collect();
        for row in a[index * m * k..][..m * k].chunks_exact(k) {
            for column in columns.chunks_exact(k) {
                c.push(R::from_f64(row.iter().zip(column).map(|(a, b)| a * b).sum()));
            }
        }
    }
    HostTensor::new("c", &[dim(batch), dim(m), dim(n)], &c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, params, recorded, ring_use};
    use proptest::prelude::*;

    const SMALL: [(&str, &str); 4] = [("m", "6"), ("n", "4"), ("k", "8"), ("tile", "2")];

    #[test]
    fn passes_all_scene_checks() {
        checks::all(&Bgemm, &[&[], &SMALL]);
    }

    #[test]
    fn every_dtype_and_layout_gives_the_golden() {
        for dtype in ["f32", "f16", "i8"] {
            for layout in ["plain", "transposed", "reversed", "mixed"] {
                let given = [SMALL.as_slice(), &[("dtype", dtype), ("layout", layout)]].concat();
                checks::graph_equals_golden(&Bgemm, &given);
                checks::tasks_equal_references(&Bgemm, &given);
            }
        }
    }

    #[test]
    fn the_longest_sums_stay_within_the_tolerance() {
        let given = [("batch", "1"), ("m", "256"), ("n", "256"), ("k", "4096"), ("tile", "256")];
        checks::graph_equals_golden(&Bgemm, &given);
        checks::tasks_equal_references(&Bgemm, &given);
    }

    #[test]
    fn operands_and_results_are_strided_views() {
        let graph = recorded(&Bgemm, &[]);
        let backwards = |t: usize| graph.tensors(t).iter().any(|(d, _)| d.dim_strides().contains(&-1));
        let transposed = |t: usize| graph.tensors(t).iter().any(|(d, _)| d.dim_strides() == [1, 160]);
        assert!((0..graph.len()).any(backwards) && (0..graph.len()).any(transposed));
    }

    #[test]
    fn a_scope_holds_the_chain_of_one_tile() {
        assert_eq!(ring_use(&Bgemm, &[]).tasks, 10);
    }

    #[test]
    fn sizes_that_are_not_multiples_of_the_tile_are_refused() {
        checks::refused(&Bgemm, &[("k", "33")], "k");
        checks::refused(&Bgemm, &[("dtype", "f64")], "dtype");
        checks::refused(&Bgemm, &[("tile", "0")], "tile");
    }

    #[test]
    fn the_tasks_of_a_graph_are_counted_and_too_many_refused() {
        for given in [&[][..], &SMALL] {
            let tasks = Sizes::new(&params(&Bgemm, given)).tasks();
            assert_eq!(tasks, dim(recorded(&Bgemm, given).len()), "{given:?}");
        }
        checks::refused(&Bgemm, &[("tile", "1")], "tile");
        params(&Bgemm, &[("tile", "2")]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_sizes_give_the_golden(
            batch in 1_u64..4, m in 1_u64..4, n in 1_u64..4, k in 1_u64..5, tile in 1_u64..6, seed: u64,
        ) {
            let text = [batch, m * tile, n * tile, k * tile, tile, seed].map(|v| v.to_string());
            let names = ["batch", "m", "n", "k", "tile", "seed"];
            let given: Vec<_> = names.into_iter().zip(text.iter().map(String::as_str)).collect();
            checks::graph_equals_golden(&Bgemm, &given);
        }
    }
}
