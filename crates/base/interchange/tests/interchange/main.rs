//! Files of arrays: written and read back, read by other tools, and hostile files.

mod hostile;
mod python;
mod round_trip;

use tensortap_abi::DType;

/// One array of every dtype, with every special value of small dtypes. The bytes follow a fixed rule, so they
/// never change.
pub fn sample(dtype: DType) -> (Vec<u64>, Vec<u8>) {
    let shape: Vec<u64> = if dtype.bits() == 4 { vec![3, 5, 7] } else { vec![4, 8, 8] };
    let numel: u64 = shape.iter().product();
    let bytes = usize::try_from(dtype.packed_bytes(numel).unwrap()).unwrap();
    let mut content: Vec<u8> =
        (0..bytes).map(|at| (at.wrapping_mul(167) >> (at % 3)).to_le_bytes()[0]).collect();
    match dtype {
        DType::Bool => content.iter_mut().for_each(|byte| *byte &= 1),
        _ if dtype.bits() == 8 => content = (0..=255).collect(),
        // The last nibble is not an element.
        _ if dtype.bits() == 4 => *content.last_mut().unwrap() &= 0xf,
        _ => {}
    }
    (shape, content)
}
