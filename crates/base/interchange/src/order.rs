//! Converts arrays with another byte order or dimension order.

/// How the bytes of a file differ from little endian with the last dimension fastest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// The first dimension is fastest.
    pub fortran: bool,
    /// The most significant byte of an element comes first.
    pub big_endian: bool,
}

impl Order {
    pub(crate) fn is_ours(self) -> bool {
        self == Order::default()
    }

    /// Converts the whole content of an array to row-major little endian. `width` is the element size in bytes,
    /// and `part_width` that of the parts of a complex number, which are each in the byte order of the file.
    pub(crate) fn to_ours(self, content: Vec<u8>, width: usize, part_width: usize, shape: &[u64]) -> Vec<u8> {
        let mut content = content;
        if self.big_endian {
            content.chunks_exact_mut(part_width).for_each(<[u8]>::reverse);
        }
        if self.fortran && shape.len() > 1 { to_row_major(&content, width, shape) } else { content }
    }
}

/// Converts column-major to row-major order: each element keeps its coordinate.
fn to_row_major(source: &[u8], width: usize, shape: &[u64]) -> Vec<u8> {
    let sizes: Vec<usize> = shape.iter().map(|size| usize::try_from(*size).unwrap_or(usize::MAX)).collect();
    let mut strides = Vec::with_capacity(sizes.len());
    let mut stride = width;
    for size in &sizes {
        strides.push(stride);
        stride = stride.saturating_mul(*size);
    }
    let mut target = Vec::with_capacity(source.len());
    let mut place = vec![0; sizes.len()];
    let mut at = 0;
    for _ in 0..source.len() / width {
        target.extend_from_slice(&source[at..at + width]);
        for dim in (0..sizes.len()).rev() {
            place[dim] += 1;
            at += strides[dim];
            if place[dim] < sizes[dim] {
                break;
            }
            at -= strides[dim] * sizes[dim];
            place[dim] = 0;
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn column_major_content_becomes_row_major() {
        // [[0, 1, 2], [3, 4, 5]] with the first dimension fastest, two bytes each, big endian.
        let content: Vec<u8> = [0_u16, 3, 1, 4, 2, 5].iter().flat_map(|value| value.to_be_bytes()).collect();
        let expected: Vec<u8> = (0_u16..6).flat_map(u16::to_le_bytes).collect();
        let order = Order { fortran: true, big_endian: true };
        assert_eq!(order.to_ours(content, 2, 2, &[2, 3]), expected);
    }

    #[test]
    fn the_parts_of_a_complex_number_keep_their_order() {
        let big: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_be_bytes).concat();
        let little: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
        let order = Order { fortran: false, big_endian: true };
        assert_eq!(order.to_ours(big, 8, 4, &[2]), little);
    }

    #[test]
    fn three_dimensions_are_converted() {
        let at = |i: usize, j: usize, k: usize| u8::try_from(i * 100 + j * 10 + k).unwrap();
        let mut columns = Vec::new();
        let mut rows = Vec::new();
        (0..4).for_each(|k| (0..3).for_each(|j| (0..2).for_each(|i| columns.push(at(i, j, k)))));
        (0..2).for_each(|i| (0..3).for_each(|j| (0..4).for_each(|k| rows.push(at(i, j, k)))));
        let order = Order { fortran: true, big_endian: false };
        assert_eq!(order.to_ours(columns, 1, 1, &[2, 3, 4]), rows);
        assert_eq!(order.to_ours(Vec::new(), 1, 1, &[2, 0, 4]), Vec::<u8>::new());
    }
}
