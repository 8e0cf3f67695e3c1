//! Checks before a run whether a scene of this size fits into memory.

use tensortap_scene::{ArgSpec, Params, Scene};

use crate::Error;

/// Number of copies of a scene's arguments that the host holds at once: inputs, results, golden.
const HOST_COPIES: u64 = 3;

/// Rejects a scene whose own arguments do not fit into device or host memory.
pub fn check(scene: &dyn Scene, params: &Params, device_memory: Option<u64>) -> Result<(), Error> {
    let specs = scene.args(params);
    let needed =
        specs.iter().try_fold(0_u64, |sum, spec| sum.checked_add(bytes_of(spec)?)).unwrap_or(u64::MAX);
    let refuse = |what, available| Err(Error::TooLarge { scene: scene.name(), needed, what, available });
    if let Some(available) = device_memory.filter(|&available| needed > available) {
        return refuse("device memory, as --device-memory sets it", available);
    }
    match available_bytes() {
        Some(available) if needed.saturating_mul(HOST_COPIES) > available => {
            refuse("host memory, which must hold three copies", available)
        }
        _ => Ok(()),
    }
}

fn bytes_of(spec: &ArgSpec) -> Option<u64> {
    let numel = spec.shape.iter().try_fold(1_u64, |n, &size| n.checked_mul(size))?;
    spec.dtype.packed_bytes(numel)
}

/// Memory that the system can provide without swapping; `None` if it is not known.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_larger_than_memory_are_rejected_before_they_are_created() {
        let registry = tensortap_scenes::builtin();
        let stream = registry.find("stream").expect("built in");
        let params =
            |bytes| Params::resolve("stream", stream.params(), [("bytes", bytes)]).expect("in range");
        assert!(check(stream, &params("1048576"), None).is_ok());
        assert!(check(stream, &params("1048576"), Some(1 << 20)).is_err());
        let refusal = check(stream, &params("8589934592"), Some(1 << 40)).map_err(|e| e.to_string());
        if available_bytes().is_some_and(|available| available < 96 << 30) {
            assert!(refusal.is_err_and(|e| e.contains("host memory")));
        }
    }
}
