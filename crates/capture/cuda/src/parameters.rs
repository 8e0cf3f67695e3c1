//! Finds the pointers and the values among the parameters of a launch.

/// Offset and size of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterLayout {
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// One argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument<'p> {
    /// A parameter that points into allocated memory, or a number that looks like such a pointer.
    Pointer {
        /// Position of the parameter.
        arg: u16,
        /// Its value.
        address: u64,
    },
    /// A word inside of a larger parameter that points into allocated memory.
    Inside {
        /// A position after those of all parameters.
        arg: u16,
        /// The parameter that contains the word, and the offset of the word.
        of: (u16, usize),
        /// Its value.
        address: u64,
    },
    /// A parameter passed by value.
    Value {
        /// Position of the parameter.
        arg: u16,
        /// Its content.
        bytes: &'p [u8],
    },
}

impl<'p> Argument<'p> {
    /// The address, if it is a pointer.
    pub fn address(&self) -> Option<u64> {
        match *self {
            Argument::Pointer { address, .. } | Argument::Inside { address, .. } => Some(address),
            Argument::Value { .. } => None,
        }
    }

    /// The content, if it is a value.
    pub fn value(&self) -> Option<&'p [u8]> {
        match *self {
            Argument::Value { bytes, .. } => Some(bytes),
            Argument::Pointer { .. } | Argument::Inside { .. } => None,
        }
    }
}

/// At most this many pointers inside of larger parameters are used.
const MAX_INNER: usize = 256;

/// Classifies all parameters by their content. `is_live` returns whether an address is in allocated memory.
pub fn scan<'p>(
    parameters: impl Iterator<Item = &'p [u8]>,
    is_live: impl Fn(u64) -> bool,
) -> Vec<Argument<'p>> {
    // Most kernels have fewer of both.
    let (mut given, mut inside) = (Vec::with_capacity(16), Vec::with_capacity(16));
    let mut count = 0_u16;
    for bytes in parameters {
        let arg = count;
        count = count.saturating_add(1);
        let word = <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes).ok();
        if let Some(address) = word.filter(|&address| is_live(address)) {
            given.push(Argument::Pointer { arg, address });
            continue;
        }
        if bytes.len() > 8 {
            let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let live = words.enumerate().filter(|&(_, address)| is_live(address));
            inside.extend(live.map(|(at, address)| ((arg, at * 8), address)));
        }
        given.push(Argument::Value { arg, bytes });
    }
    let inside = inside.into_iter().take(MAX_INNER);
    let positions = (count..u16::MAX).zip(inside);
    given.extend(positions.map(|(arg, (of, address))| Argument::Inside { arg, of, address }));
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_live(address: u64) -> bool {
        (0x1000..0x2000).contains(&address)
    }

    #[test]
    fn words_that_point_into_memory_are_pointers_also_inside_structs() {
        let pointer = 0x1800_u64.to_le_bytes();
        let number = 0x2000_u64.to_le_bytes();
        let small = 7_u32.to_le_bytes();
        let structure = [number, pointer, 0x1001_u64.to_le_bytes()].concat();
        let all: [&[u8]; 5] = [&pointer, &small, &structure, &number, &[]];
        let value = |arg, bytes| Argument::Value { arg, bytes };
        assert_eq!(
            scan(all.into_iter(), is_live),
            [
                Argument::Pointer { arg: 0, address: 0x1800 },
                value(1, &small[..]),
                value(2, &structure[..]),
                value(3, &number[..]),
                value(4, &[][..]),
                Argument::Inside { arg: 5, of: (2, 8), address: 0x1800 },
                Argument::Inside { arg: 6, of: (2, 16), address: 0x1001 },
            ]
        );
    }

    #[test]
    fn unaligned_words_and_partial_words_are_no_pointers() {
        let mut bytes = vec![0; 4];
        bytes.extend(0x1800_u64.to_le_bytes());
        bytes.push(1);
        assert_eq!(scan([&bytes[..]].into_iter(), is_live).len(), 1, "only the value");
    }

    #[test]
    fn inner_pointers_are_bounded() {
        let many = 0x1000_u64.to_le_bytes().repeat(4000);
        assert_eq!(scan([&many[..]].into_iter(), is_live).len(), 1 + MAX_INNER);
    }
}
