//! What a launch is given: which of its parameters point into memory, and which are values.

/// Where a parameter lies among all, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes before it.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

/// One thing that a launch is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given<'p> {
    /// A parameter that points into live memory, or a number that looks like it.
    Pointer {
        /// Position of the parameter.
        arg: u16,
        /// What it holds.
        address: u64,
    },
    /// A word inside of a larger parameter that does.
    Inside {
        /// Position that stands for it, behind those of all parameters.
        arg: u16,
        /// Parameter that it lies in, and where.
        of: (u16, usize),
        /// What it holds.
        address: u64,
    },
    /// A parameter as it is.
    Value {
        /// Position of the parameter.
        arg: u16,
        /// It.
        bytes: &'p [u8],
    },
}

impl<'p> Given<'p> {
    /// Where it points.
    pub fn address(&self) -> Option<u64> {
        match *self {
            Given::Pointer { address, .. } | Given::Inside { address, .. } => Some(address),
            Given::Value { .. } => None,
        }
    }

    /// What it holds, where that points nowhere.
    pub fn value(&self) -> Option<&'p [u8]> {
        match *self {
            Given::Value { bytes, .. } => Some(bytes),
            Given::Pointer { .. } | Given::Inside { .. } => None,
        }
    }
}

/// More pointers inside of larger parameters are not looked at.
const MOST_INSIDE: usize = 256;

/// Looks at all parameters, each by its bytes. `is_live` says of an address whether memory is there.
pub fn scan<'p>(parameters: impl Iterator<Item = &'p [u8]>, is_live: impl Fn(u64) -> bool) -> Vec<Given<'p>> {
    // Most kernels have fewer of both.
    let (mut given, mut inside) = (Vec::with_capacity(16), Vec::with_capacity(16));
    let mut count = 0_u16;
    for bytes in parameters {
        let arg = count;
        count = count.saturating_add(1);
        let word = <[u8; 8]>::try_from(bytes).map(u64::from_le_bytes).ok();
        if let Some(address) = word.filter(|&address| is_live(address)) {
            given.push(Given::Pointer { arg, address });
            continue;
        }
        if bytes.len() > 8 {
            let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let live = words.enumerate().filter(|&(_, address)| is_live(address));
            inside.extend(live.map(|(at, address)| ((arg, at * 8), address)));
        }
        given.push(Given::Value { arg, bytes });
    }
    let inside = inside.into_iter().take(MOST_INSIDE);
    let behind = (count..u16::MAX).zip(inside);
    given.extend(behind.map(|(arg, (of, address))| Given::Inside { arg, of, address }));
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_live(address: u64) -> bool {
        (0x1000..0x2000).contains(&address)
    }

    #[test]
    fn words_that_point_into_memory_are_pointers_wherever_they_stand() {
        let pointer = 0x1800_u64.to_le_bytes();
        let number = 0x2000_u64.to_le_bytes();
        let small = 7_u32.to_le_bytes();
        let structure = [number, pointer, 0x1001_u64.to_le_bytes()].concat();
        let all: [&[u8]; 5] = [&pointer, &small, &structure, &number, &[]];
        let value = |arg, bytes| Given::Value { arg, bytes };
        assert_eq!(
            scan(all.into_iter(), is_live),
            [
                Given::Pointer { arg: 0, address: 0x1800 },
                value(1, &small[..]),
                value(2, &structure[..]),
                value(3, &number[..]),
                value(4, &[][..]),
                Given::Inside { arg: 5, of: (2, 8), address: 0x1800 },
                Given::Inside { arg: 6, of: (2, 16), address: 0x1001 },
            ]
        );
    }

    #[test]
    fn words_that_are_not_aligned_are_none_and_a_rest_is_passed_over() {
        let mut bytes = vec![0; 4];
        bytes.extend(0x1800_u64.to_le_bytes());
        bytes.push(1);
        assert_eq!(scan([&bytes[..]].into_iter(), is_live).len(), 1, "the value alone");
    }

    #[test]
    fn pointers_inside_are_bounded() {
        let many = 0x1000_u64.to_le_bytes().repeat(4000);
        assert_eq!(scan([&many[..]].into_iter(), is_live).len(), 1 + MOST_INSIDE);
    }
}
