//! Reads tensors of a dead device from its surviving memory.

use tensortap_abi::{MAX_DIMS, TensorDesc, UncapturedReason};
use tensortap_geometry::Layout;
use tensortap_platform::DeviceAccess;
use tensortap_recorder::Gather;

/// Maximum size of data that is copied from a dead device. It limits the memory range and the content of a
/// view, which can be larger than its memory if elements repeat.
const MAX_BYTES: u64 = 1 << 30;

/// The logical contiguous content of a view, or the reason why it is not available.
pub fn gather(device: &dyn DeviceAccess, desc: &TensorDesc) -> Result<Vec<u8>, UncapturedReason> {
    let damaged = UncapturedReason::BadDescriptor;
    let bits = desc.dtype().ok_or(damaged)?.bits();
    if usize::from(desc.ndims) > MAX_DIMS {
        return Err(UncapturedReason::TooManyDimensions);
    }
    let layout =
        Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, bits).map_err(|_| damaged)?;
    layout.fits(desc.buffer_bytes).map_err(|_| damaged)?;
    let range = layout.byte_range();
    let address = desc.buffer_addr.checked_add(range.start).ok_or(damaged)?;
    let mut touched = zeros(range.end - range.start)?;
    device.copy_from(address, &mut touched).map_err(|_| UncapturedReason::Unreadable)?;
    let mut gather = Gather::of_slice(&touched, &layout.trimmed()).map_err(|_| UncapturedReason::TooLarge)?;
    let mut content = zeros(gather.left_bytes())?;
    gather.fill(&mut content);
    Ok(content)
}

fn zeros(bytes: u64) -> Result<Vec<u8>, UncapturedReason> {
    let bytes = usize::try_from(bytes).ok().filter(|_| bytes <= MAX_BYTES);
    bytes.map(|bytes| vec![0; bytes]).ok_or(UncapturedReason::TooLarge)
}

#[cfg(test)]
mod tests {
    use tensortap_abi::{DType, DeviceAddr, DeviceRange};
    use tensortap_platform::{MappedMemory, PlatformError};

    use super::*;

    const BASE: u64 = 0x2000;

    /// The memory of a dead device.
    struct DeadDevice(Vec<u8>);

    impl DeviceAccess for DeadDevice {
        fn memory(&self) -> DeviceRange {
            DeviceRange { addr: BASE, bytes: self.0.len() as u64 }
        }
        fn copy_to(&self, to: DeviceAddr, _: &[u8]) -> Result<(), PlatformError> {
            panic!("nothing is written to a dead device, at {to:#x}")
        }
        fn copy_from(&self, from: DeviceAddr, bytes: &mut [u8]) -> Result<(), PlatformError> {
            let at = usize::try_from(from - BASE).unwrap();
            let there = self.0.get(at..at + bytes.len()).ok_or(PlatformError::OutOfRange {
                addr: from,
                bytes: bytes.len() as u64,
                memory: self.memory(),
            })?;
            bytes.copy_from_slice(there);
            Ok(())
        }
        fn read_u64(&self, addr: DeviceAddr) -> Result<u64, PlatformError> {
            panic!("no word is read at {addr:#x}")
        }
        fn write_u64(&self, addr: DeviceAddr, _: u64) -> Result<(), PlatformError> {
            panic!("nothing is written to a dead device, at {addr:#x}")
        }
        fn mapping(&self) -> Option<MappedMemory<'_>> {
            None
        }
        fn wake(&self) {}
    }

    fn desc(dtype: DType, shape: &[u64], strides: &[i64], start_offset: u64) -> TensorDesc {
        let mut desc = TensorDesc {
            buffer_addr: BASE + 8,
            buffer_bytes: 16,
            start_offset,
            dtype: dtype.tag(),
            ndims: u8::try_from(shape.len()).unwrap(),
            ..TensorDesc::default()
        };
        desc.shape[..shape.len()].copy_from_slice(shape);
        desc.strides[..strides.len()].copy_from_slice(strides);
        desc
    }

    /// Bytes 0x10, 0x32, 0x54, … from the buffer on: 4-bit element `n` has the value `n`.
    fn left() -> DeadDevice {
        let nibbles = (0..16_u8).map(|n| (n % 8) * 0x22 + 0x10);
        DeadDevice([0xff; 8].into_iter().chain(nibbles).collect())
    }

    #[test]
    fn a_views_content_is_read_for_any_element_width() {
        let halves = gather(&left(), &desc(DType::Int4, &[5], &[-2], 11));
        assert_eq!(halves, Ok(vec![0x9b, 0x57, 0x03]));
        let words = gather(&left(), &desc(DType::UInt16, &[2, 2], &[1, 2], 3));
        assert_eq!(words, Ok(vec![0xdc, 0xfe, 0x54, 0x76, 0x10, 0x32, 0x98, 0xba]));
    }

    #[test]
    fn unreadable_tensors_return_a_reason() {
        use UncapturedReason::{BadDescriptor, TooLarge, TooManyDimensions, Unreadable};
        let past_its_buffer = desc(DType::Int8, &[17], &[1], 0);
        let no_dtype = TensorDesc { dtype: 0xee, ..desc(DType::Int8, &[1], &[1], 0) };
        let repeats = desc(DType::Int8, &[1 << 31], &[0], 0);
        let elsewhere = TensorDesc { buffer_addr: BASE + 20, ..desc(DType::Int8, &[16], &[1], 0) };
        for (desc, reason) in [
            (past_its_buffer, BadDescriptor),
            (no_dtype, BadDescriptor),
            (TensorDesc { ndims: 9, ..past_its_buffer }, TooManyDimensions),
            (repeats, TooLarge),
            (elsewhere, Unreadable),
        ] {
            assert_eq!(gather(&left(), &desc), Err(reason), "{desc:?}");
        }
    }
}
