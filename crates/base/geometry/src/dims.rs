//! Short lists of (count, stride) pairs: the sets `{ i_1 * s_1 + i_2 * s_2 + ... : 0 <= i_k < n_k }`.

/// `count` positions, `stride` apart. In a list the count is at least 2 and the stride at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim {
    pub count: i64,
    pub stride: i64,
}

impl Dim {
    /// Distance from the first position to the last.
    pub fn extent(self) -> i64 {
        (self.count - 1) * self.stride
    }

    /// Whether repeating `inner` along `self` leaves a single progression with `inner`'s stride.
    fn extends(self, inner: &Self) -> bool {
        self.stride % inner.stride == 0 && self.stride / inner.stride <= inner.count
    }
}

/// A list of at most `N` dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dims<const N: usize> {
    // Entries past `len` are `UNUSED`, so that derived equality compares lists.
    items: [Dim; N],
    len: usize,
}

const UNUSED: Dim = Dim { count: 1, stride: 0 };

impl<const N: usize> Dims<N> {
    pub const EMPTY: Self = Self { items: [UNUSED; N], len: 0 };

    pub fn as_slice(&self) -> &[Dim] {
        &self.items[..self.len]
    }

    /// Adds a dimension, unless it has a single position and so adds nothing.
    pub fn push(&mut self, dim: Dim) {
        if dim.count > 1 {
            self.items[self.len] = dim;
            self.len += 1;
        }
    }

    /// Distance from the lowest position to the highest.
    pub fn extent(&self) -> i64 {
        self.as_slice().iter().map(|dim| dim.extent()).sum()
    }

    /// The same set with strides ascending.
    pub fn sorted(mut self) -> Self {
        self.items[..self.len].sort_unstable_by_key(|dim| dim.stride);
        self
    }

    /// The same set with strides ascending and dimensions fused where they make one progression. A dimension
    /// extends another one if it steps by `m` times the smaller stride, and `m` is at most the other one's count.
    pub fn fused(self) -> Self {
        let mut fused = Self::EMPTY;
        for &dim in self.sorted().as_slice() {
            match fused.items[..fused.len].iter_mut().rev().find(|inner| dim.extends(inner)) {
                Some(inner) => inner.count += dim.extent() / inner.stride,
                None => fused.push(dim),
            }
        }
        fused
    }
}
