use std::fmt;

use tensortap_abi::DeviceRange;
use tensortap_scene::KernelDef;

/// A touched byte outside of a tensor argument. Finding and printing it allocates nothing, because a signal
/// handler does both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// Index of the argument.
    pub arg_index: usize,
    /// Name of the argument, if the kernel is known.
    pub name: Option<&'static str>,
    /// Distance in bytes. From the end of the argument: 0 is the first byte after it. Negative values count
    /// from its start.
    pub distance: i64,
}

impl Overrun {
    /// The argument nearest to an address. `None` if the address is inside an argument, or if there are no
    /// arguments.
    pub fn nearest(addr: u64, tensors: impl Iterator<Item = (usize, DeviceRange)>) -> Option<Overrun> {
        let mut found: Option<Overrun> = None;
        for (arg_index, tensor) in tensors {
            let distance = match (addr.checked_sub(tensor.addr), addr.checked_sub(tensor.end())) {
                (None, _) => i64::try_from(tensor.addr - addr).ok().map(|before| -before),
                (Some(_), Some(past)) => i64::try_from(past).ok(),
                (Some(_), None) => return None,
            };
            let Some(distance) = distance else { continue };
            if found.is_none_or(|other| distance.unsigned_abs() < other.distance.unsigned_abs()) {
                found = Some(Overrun { arg_index, name: None, distance });
            }
        }
        found
    }

    /// Adds the name that the kernel declares for the argument.
    #[must_use]
    pub fn named(self, kernels: &'static [KernelDef], func_id: u32) -> Overrun {
        let kernel = kernels.iter().find(|kernel| kernel.func_id == func_id);
        let name = kernel.and_then(|kernel| kernel.signature.get(self.arg_index)).map(|arg| arg.name());
        Overrun { name, ..self }
    }
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overrun { arg_index, name, distance } = self;
        let bytes = distance.unsigned_abs();
        let plural = if bytes == 1 { "" } else { "s" };
        let side = if *distance < 0 { "before the start" } else { "past the end" };
        write!(f, "{bytes} byte{plural} {side} of argument {arg_index}")?;
        name.map_or(Ok(()), |name| write!(f, " (`{name}`)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_the_closest_argument_unless_the_address_is_inside_one() {
        let tensors = [DeviceRange { addr: 1000, bytes: 28 }, DeviceRange { addr: 5000, bytes: 100 }];
        let at = |addr| Overrun::nearest(addr, tensors.into_iter().enumerate());
        let found = |addr| at(addr).map(|o| (o.arg_index, o.distance));
        assert_eq!(found(1028), Some((0, 0)));
        assert_eq!(found(999), Some((0, -1)));
        assert_eq!((found(1000), found(1027), found(5050)), (None, None, None));
        assert_eq!((found(3000), found(3100)), (Some((0, 1972)), Some((1, -1900))));
        assert_eq!(found(u64::MAX), None, "the distance does not fit");
        assert_eq!(Overrun::nearest(7, std::iter::empty()), None);
        assert_eq!(at(999).unwrap().to_string(), "1 byte before the start of argument 0");
        let named = Overrun { name: Some("sum"), ..at(1028).unwrap() };
        assert_eq!(named.to_string(), "0 bytes past the end of argument 0 (`sum`)");
    }
}
