//! The content of tensors before a run, and tensors in `.npy` files.

use std::path::Path;

use fastrand::Rng;
use tensortap_abi::DType;
use tensortap_interchange::{NamedArrays, numpy_storage};
use tensortap_scene::HostTensor;
use tensortap_values::encode_block;

use crate::definition::Fill;

/// Reads a tensor from a file with exactly one array of this dtype and shape.
pub fn read(path: &Path, dtype: DType, shape: &[u64]) -> Result<Vec<u8>, String> {
    let arrays = NamedArrays::open(path).map_err(|error| error.to_string())?;
    let [array] = arrays.arrays() else {
        return Err(format!("{} has {} arrays, but one is expected", path.display(), arrays.arrays().len()));
    };
    // A dtype that numpy lacks is stored as its bits, in another dtype.
    let stored = numpy_storage(dtype, shape);
    let is_same = (array.dtype, array.shape.as_slice()) == (dtype, shape);
    if !is_same && (array.dtype, &array.shape) != (stored.dtype, &stored.shape) {
        let (is, sizes) = (array.dtype, &array.shape);
        return Err(format!("{} holds {is} {sizes:?}, but {dtype} {shape:?} is expected", path.display()));
    }
    array.content().map_err(|error| error.to_string())
}

/// Fills a tensor. Each tensor has its own generator, so a change to one tensor does not change the others.
pub fn fill(tensor: &mut HostTensor, fill: &Fill, folder: &Path, seed: u64) -> Result<(), String> {
    let numel = usize::try_from(tensor.shape.iter().product::<u64>()).map_err(|error| error.to_string())?;
    let rng = |own: u64| {
        let name = xxhash_rust::xxh3::xxh3_64(tensor.name.as_bytes());
        Rng::with_seed(
            name ^ own.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd6e8_feb8_6659_fd93),
        )
    };
    #[expect(clippy::cast_precision_loss, reason = "indices are much smaller than 2^53")]
    let values: Vec<f64> = match fill {
        Fill::Zero => return Ok(()),
        Fill::File(path) => {
            tensor.bytes = read(&folder.join(path), tensor.dtype, &tensor.shape)?;
            return Ok(());
        }
        Fill::Constant(value) => vec![*value; numel],
        Fill::Range(start, step) => (0..numel).map(|place| start + step * place as f64).collect(),
        Fill::Uniform(from, to, own) => {
            let mut rng = rng(*own);
            (0..numel).map(|_| from + (to - from) * rng.f64()).collect()
        }
        Fill::Normal(mean, deviation, own) => {
            let mut rng = rng(*own);
            (0..numel).map(|_| mean + deviation * normal(&mut rng)).collect()
        }
    };
    encode_block(tensor.dtype, &values, &mut tensor.bytes);
    Ok(())
}

/// A number from the standard normal distribution (Box-Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}
