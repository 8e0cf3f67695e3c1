//! Images of modules: they arrive in pieces, like large payloads, and are stored in separate files.

use tensortap_abi::{
    CommitRecord, ImageRecord, ModuleKind, ModuleRecord, PieceRecord, RECORD_HAS_PAYLOAD, RECORD_TRUNCATED,
};
use tensortap_format::{ImageWriter, IndexRecord};

use super::{DrainError, LaneDrain};
use crate::{RecordFault, RegionMemory, Sink, payload::Extent, store::Store};

/// Bytes of a piece that are copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// An image that arrives in pieces.
#[derive(Debug)]
pub(super) struct OpenImage {
    image: ImageRecord,
    /// `None` if the dump does not store images.
    writer: Option<ImageWriter>,
    received: u64,
    overwritten: bool,
}

impl LaneDrain {
    pub(super) fn begin_image<S: Sink>(
        &mut self,
        store: &mut Store<S>,
        image: &ImageRecord,
    ) -> Result<(), DrainError> {
        if !self.unfinished.begins(image.payload_id, self.seen) {
            self.refuse(RecordFault::Order);
            return Ok(());
        }
        let kind = ModuleKind::from_tag(image.image_kind).unwrap_or_default();
        let (hash, place) = (u128::from_le_bytes(image.hash), (self.stream.lane(), self.seen));
        let writer = store.image(kind, hash, image.bytes, place)?;
        let open = OpenImage { image: *image, writer, received: 0, overwritten: false };
        self.unfinished.images.insert(self.seen, open);
        Ok(())
    }

    pub(super) fn image_piece(
        &mut self,
        memory: &impl RegionMemory,
        piece: &PieceRecord,
        extent: Extent,
    ) -> Result<(), DrainError> {
        let overwritten = self.is_overwritten(extent);
        let Some(open) = self
            .unfinished
            .image(piece.payload_id)
            .filter(|open| piece.offset == open.received && extent.bytes <= open.image.bytes - open.received)
        else {
            self.refuse(RecordFault::Order);
            return Ok(());
        };
        open.overwritten |= overwritten;
        if !open.overwritten
            && let Some(writer) = &mut open.writer
        {
            copy(memory, extent, writer)?;
        }
        open.received += extent.bytes;
        self.frame_bytes += extent.bytes;
        Ok(())
    }

    pub(super) fn end_image<S: Sink>(
        &mut self,
        store: &mut Store<S>,
        open: OpenImage,
        commit: &CommitRecord,
    ) -> Result<(), DrainError> {
        let OpenImage { image, writer, received, overwritten } = open;
        let is_whole = commit.flags & RECORD_TRUNCATED == 0
            && received == image.bytes
            && commit.stored_bytes == received
            && commit.hash == image.hash;
        let stored = match writer.filter(|_| is_whole && !overwritten) {
            Some(writer) => writer.finish(store.syncs()).map_err(|error| DrainError::Write(error.into()))?,
            None => false,
        };
        self.last_image = stored.then_some(image.hash);
        self.unfinished_payloads += u64::from(!stored);
        Ok(())
    }

    /// A module keeps its image only if the image arrived right before it and its file is complete.
    pub(super) fn enter_module(&mut self, mut module: ModuleRecord) {
        if self.last_image.take() != Some(module.hash) {
            module.flags &= !RECORD_HAS_PAYLOAD;
        }
        self.records.push(IndexRecord::plain(&module));
    }
}

fn copy(memory: &impl RegionMemory, from: Extent, writer: &mut ImageWriter) -> Result<(), DrainError> {
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < from.bytes {
        let now = (from.bytes - done).min(COPY_BYTES);
        bytes.resize(usize::try_from(now).unwrap_or(0), 0);
        memory.read(from.offset + done, &mut bytes).map_err(DrainError::Memory)?;
        writer.write(&bytes).map_err(|error| DrainError::Write(error.into()))?;
        done += now;
    }
    Ok(())
}
