//! A reader with a byte limit, so that one element of a JSON file cannot use unlimited memory.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

/// Number of bytes that may still be read.
#[derive(Clone)]
pub(super) struct Meter {
    left: Rc<Cell<usize>>,
}

impl Meter {
    pub(super) fn new(bytes: usize) -> Meter {
        Meter { left: Rc::new(Cell::new(bytes)) }
    }

    /// Allows `bytes` from now on, and returns the previous remainder.
    pub(super) fn allow(&self, bytes: usize) -> usize {
        self.left.replace(bytes)
    }
}

/// The reader; see the module documentation.
pub(super) struct MeteredReader<R> {
    inner: R,
    meter: Meter,
}

impl<R: Read> MeteredReader<R> {
    pub(super) fn new(inner: R, meter: &Meter) -> MeteredReader<R> {
        MeteredReader { inner, meter: meter.clone() }
    }
}

impl<R: Read> Read for MeteredReader<R> {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.meter.left.get();
        let wanted = into.len().min(left);
        if wanted == 0 && !into.is_empty() {
            return Err(io::Error::other("an element is too large"));
        }
        let read = self.inner.read(&mut into[..wanted])?;
        self.meter.left.set(left - read);
        Ok(read)
    }
}
