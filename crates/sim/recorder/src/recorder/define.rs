//! Definitions: names, scopes, kernels and everything else that records refer to by number.
//!
//! A definition is never lost while the host is alive, under any policy. In a case where another record
//! would be dropped, it waits. Only a device in batch mode, which the host reads after the run, cannot
//! wait.

use tensortap_abi::{
    CommitRecord, DumpRecord, INLINE_TEXT_BYTES, ImageRecord, KernelRecord, MAX_TEXT_BYTES, ModuleKind,
    PieceRecord, RECORD_TRUNCATED, RecordLayout, SMALL_PAYLOAD_ALIGN, ScopeRecord, StringRecord,
};
use zerocopy::IntoBytes;

use super::{LaneRecorder, Outcome, payload::OpenPayload};
use crate::lane::SpaceRequest;
use crate::{DropReason, HostLink, KernelDefinition};

impl<H: HostLink> LaneRecorder<'_, H> {
    /// Defines a string. Text longer than [`MAX_TEXT_BYTES`] or a quarter of the arena is truncated.
    pub fn define_string(&mut self, id: u32, text: &str) -> Outcome {
        let most = usize::try_from(self.lane.largest_whole()).unwrap_or(usize::MAX).min(MAX_TEXT_BYTES);
        let text = &text[..text.floor_char_boundary(most.max(INLINE_TEXT_BYTES))];
        let text_bytes = u32::try_from(text.len()).expect("cut above");
        let mut record = StringRecord { id, text_bytes, ..StringRecord::default() };
        match record.text.get_mut(..text.len()) {
            Some(inline) => {
                inline.copy_from_slice(text.as_bytes());
                self.define(record)
            }
            None => self.define_with(text.as_bytes(), |text_pos| StringRecord { text_pos, ..record }),
        }
    }

    /// Defines a scope by the string id of its name and its enclosing scope; 0 for none.
    pub fn define_scope(&mut self, id: u32, name: u32, parent: u32) -> Outcome {
        self.define(ScopeRecord { id, name, parent, ..ScopeRecord::default() })
    }

    /// Defines a kernel. If its arguments need more than a quarter of the arena, it is dropped and counted.
    pub fn define_kernel(&mut self, kernel: &KernelDefinition<'_>) -> Outcome {
        let &KernelDefinition { func_id, name, module, core_type, args } = kernel;
        let bytes = size_of_val(args) as u64;
        let Some(arg_count) = u16::try_from(args.len()).ok().filter(|_| bytes <= self.lane.largest_whole())
        else {
            self.ledger.dropped(DropReason::NoSpace, bytes);
            return Outcome::Dropped(DropReason::NoSpace);
        };
        let core_type = KernelRecord::core_tag(core_type);
        let mut record =
            KernelRecord { func_id, name, module, arg_count, core_type, ..KernelRecord::default() };
        match record.args.get_mut(..args.len()) {
            Some(inline) => {
                inline.copy_from_slice(args);
                self.define(record)
            }
            None => self.define_with(args.as_bytes(), |args_pos| KernelRecord { args_pos, ..record }),
        }
    }

    /// Records a definition that uses no arena space.
    ///
    /// ```compile_fail
    /// # use tensortap_recorder::{HostLink, LaneRecorder};
    /// fn not_a_definition<H: HostLink>(recorder: &mut LaneRecorder<'_, H>) {
    ///     recorder.define(tensortap_abi::TensorRecord::default());
    /// }
    /// # fn main() { not_a_definition::<NoHost>; }
    /// ```
    pub fn define<D: RecordLayout>(&mut self, definition: D) -> Outcome {
        const { assert!(D::KIND.is_definition()) };
        self.timed(|recorder| recorder.record_definition(None, |_, _| definition.into()))
    }

    /// Sends the image of a module, whose definition must follow in this lane. It waits like a definition.
    pub fn send_image(&mut self, kind: ModuleKind, hash: u128, image: &[u8]) -> Outcome {
        self.timed(|recorder| match recorder.record_image(kind, hash, image) {
            Ok(()) => Outcome::Recorded,
            Err(reason) => Outcome::Dropped(reason),
        })
    }

    fn record_image(&mut self, kind: ModuleKind, hash: u128, image: &[u8]) -> Result<(), DropReason> {
        let (bytes, waits) = (image.len() as u64, !self.rules.batch);
        let reservation =
            self.reserve_waiting(None, waits).inspect_err(|&reason| self.ledger.dropped(reason, bytes))?;
        let payload = OpenPayload::image(reservation.seq(), bytes);
        let hash = hash.to_le_bytes();
        let (payload_id, image_kind) = (payload.id, kind as u8);
        self.commit(
            reservation,
            ImageRecord { payload_id, bytes, hash, image_kind, ..ImageRecord::default() },
        );
        let mut sent = 0;
        let mut align = self.lane.first_piece_align(bytes);
        let mut ended = Ok(());
        while let Some(rest) = image.get(sent..).filter(|rest| !rest.is_empty() && ended.is_ok()) {
            let need = self.lane.next_piece(rest.len() as u64, align);
            match self.reserve_waiting(Some(need), waits) {
                Ok(reservation) => {
                    let space = self.lane.payload(&reservation);
                    let piece = &rest[..space.len()];
                    space.write_copy_of_slice(piece);
                    let (payload_pos, offset) = (reservation.position(), sent as u64);
                    self.ledger.captured(need.bytes);
                    self.commit(
                        reservation,
                        PieceRecord { payload_pos, offset, bytes: need.bytes, ..payload.piece() },
                    );
                    sent += piece.len();
                    align = SMALL_PAYLOAD_ALIGN;
                }
                Err(reason) => ended = Err(reason),
            }
        }
        // Also for a truncated image, so that the host does not wait for the rest.
        let end = self.reserve_waiting(None, waits);
        let ended = ended.and(end.as_ref().map(|_| ()).map_err(|&reason| reason));
        if let Err(reason) = ended {
            self.ledger.dropped(reason, bytes - sent as u64);
        }
        if let Ok(reservation) = end {
            let mut commit = CommitRecord { hash, ..payload.commit(sent as u64) };
            commit.flags |= if ended.is_err() { RECORD_TRUNCATED } else { 0 };
            self.commit(reservation, commit);
        }
        ended
    }

    fn define_with<D: RecordLayout>(&mut self, content: &[u8], record: impl FnOnce(u64) -> D) -> Outcome {
        let need = SpaceRequest::whole(content.len() as u64, SMALL_PAYLOAD_ALIGN);
        self.timed(|recorder| {
            recorder.record_definition(Some(need), |space, position| {
                space.write_copy_of_slice(content);
                record(position).into()
            })
        })
    }

    fn record_definition(
        &mut self,
        need: Option<SpaceRequest>,
        fill: impl FnOnce(&mut [core::mem::MaybeUninit<u8>], u64) -> DumpRecord,
    ) -> Outcome {
        match self.reserve_waiting(need, !self.rules.batch) {
            Ok(reservation) => {
                let record = match need {
                    Some(_) => fill(self.lane.payload(&reservation), reservation.position()),
                    None => fill(&mut [], 0),
                };
                self.commit(reservation, record);
                Outcome::Recorded
            }
            Err(reason) => {
                self.ledger.dropped(reason, need.map_or(0, |need| need.bytes));
                Outcome::Dropped(reason)
            }
        }
    }
}
