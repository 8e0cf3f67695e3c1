//! Definitions: names, scopes, kernels and what else records refer to by number.
//!
//! A definition is not lost while the host lives, whatever the policy: where another record would be dropped, it waits. Only a
//! device that is read once, after its run, has nobody to wait for.

use tensortap_abi::{
    DumpRecord, INLINE_TEXT_BYTES, KernelRecord, KindOfRecord, MAX_TEXT_BYTES, SMALL_PAYLOAD_ALIGN,
    ScopeRecord, StringRecord,
};
use zerocopy::IntoBytes;

use super::{LaneRecorder, Outcome};
use crate::lane::Need;
use crate::{DropReason, HostLink, KernelDefinition};

impl<H: HostLink> LaneRecorder<'_, H> {
    /// Defines a string. A text of more than [`MAX_TEXT_BYTES`], or of more than a quarter of the arena, is cut.
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

    /// Defines a scope by the string id of its name and the scope it lies in, 0 for none.
    pub fn define_scope(&mut self, id: u32, name: u32, parent: u32) -> Outcome {
        self.define(ScopeRecord { id, name, parent, ..ScopeRecord::default() })
    }

    /// Defines a kernel. One whose arguments are more than a quarter of the arena takes is dropped, and counted.
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

    /// Records any definition that has nothing in the arena.
    ///
    /// ```compile_fail
    /// # use tensortap_recorder::{HostLink, LaneRecorder};
    /// fn not_a_definition<H: HostLink>(recorder: &mut LaneRecorder<'_, H>) {
    ///     recorder.define(tensortap_abi::TensorRecord::default());
    /// }
    /// # fn main() { not_a_definition::<NoHost>; }
    /// ```
    pub fn define<D: KindOfRecord>(&mut self, definition: D) -> Outcome {
        const { assert!(D::KIND.is_definition()) };
        self.timed(|recorder| recorder.record_definition(None, |_, _| definition.into()))
    }

    fn define_with<D: KindOfRecord>(&mut self, content: &[u8], record: impl FnOnce(u64) -> D) -> Outcome {
        let need = Need::whole(content.len() as u64, SMALL_PAYLOAD_ALIGN);
        self.timed(|recorder| {
            recorder.record_definition(Some(need), |space, position| {
                space.write_copy_of_slice(content);
                record(position).into()
            })
        })
    }

    fn record_definition(
        &mut self,
        need: Option<Need>,
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
