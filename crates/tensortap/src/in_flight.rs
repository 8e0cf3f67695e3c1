//! Tensors of a dead device, read from its surviving memory.

use tensortap_abi::TensorDesc;
use tensortap_geometry::Layout;
use tensortap_platform::DeviceAccess;

/// Buffers larger than this are not copied from a dead device.
const MAX_BUFFER_BYTES: u64 = 1 << 30;

/// The logical contiguous content of a view; `None` when the descriptor is damaged or the memory cannot be read.
pub fn gather(device: &dyn DeviceAccess, desc: &TensorDesc) -> Option<Vec<u8>> {
    let bits = desc.dtype()?.bits();
    if bits < 8 {
        return None;
    }
    let layout = Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, bits).ok()?;
    layout.fits(desc.buffer_bytes).ok()?;
    let range = layout.byte_range();
    if range.end - range.start > MAX_BUFFER_BYTES {
        return None;
    }
    let mut touched = vec![0; usize::try_from(range.end - range.start).ok()?];
    device.copy_from(desc.buffer_addr.checked_add(range.start)?, &mut touched).ok()?;
    let width = u64::from(bits / 8);
    let mut content = Vec::with_capacity(touched.len());
    for run in layout.runs() {
        let at = usize::try_from(run.offset * width - range.start).ok()?;
        content.extend_from_slice(touched.get(at..at + usize::try_from(run.len * width).ok()?)?);
    }
    Some(content)
}
