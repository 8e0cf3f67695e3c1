use std::io;

/// The bytes of an array from any source: little endian, contiguous, last dimension fastest.
pub trait Content: Sync {
    /// Size in bytes.
    fn bytes(&self) -> u64;

    /// Fills `into` with the bytes starting at `offset`. The range is within the content.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Content for [u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let part = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)?.get(..into.len()));
        into.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Content for Vec<u8> {
    fn bytes(&self) -> u64 {
        self.as_slice().bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_at(offset, into)
    }
}
