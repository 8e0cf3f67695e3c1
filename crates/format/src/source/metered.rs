//! A reader that gives out no more bytes than was agreed, so that one element of a JSON file cannot take memory without
//! bound.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

/// How many bytes may still be read.
#[derive(Clone)]
pub(super) struct Meter {
    left: Rc<Cell<usize>>,
}

impl Meter {
    pub(super) fn new(bytes: usize) -> Meter {
        Meter { left: Rc::new(Cell::new(bytes)) }
    }

    /// Allows `bytes` from here on and returns what was left.
    pub(super) fn allow(&self, bytes: usize) -> usize {
        self.left.replace(bytes)
    }
}

/// See the module.
pub(super) struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl<R: Read> Metered<R> {
    pub(super) fn new(inner: R, meter: &Meter) -> Metered<R> {
        Metered { inner, meter: meter.clone() }
    }
}

impl<R: Read> Read for Metered<R> {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.meter.left.get();
        let wanted = into.len().min(left);
        if wanted == 0 && !into.is_empty() {
            return Err(io::Error::other("an element is larger than any that makes sense"));
        }
        let read = self.inner.read(&mut into[..wanted])?;
        self.meter.left.set(left - read);
        Ok(read)
    }
}
