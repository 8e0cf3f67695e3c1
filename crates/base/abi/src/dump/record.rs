//! The layout of a dump record.
//!
//! Every record has 192 bytes (three cache lines) and starts with the same head. Each kind has its own
//! fields after the head. Bytes that a kind does not use are zero.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::assert_layout;

/// Tensors and scalars that one task may have in a dump. Scenes may submit fewer.
pub const MAX_RECORD_ARGS: u32 = u16::MAX as u32;

macro_rules! record_kinds {
    ($($(#[$doc:meta])* $kind:ident = $tag:literal),+ $(,)?) => {
        /// Kind of a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum RecordKind {
            $($(#[$doc])* $kind = $tag),+
        }

        impl RecordKind {
            /// Every kind.
            pub const ALL: &[RecordKind] = &[$(RecordKind::$kind),+];

            /// The kind of a tag; `None` if the tag is damaged.
            #[inline]
            pub const fn from_tag(tag: u8) -> Option<RecordKind> {
                match tag {
                    $($tag => Some(RecordKind::$kind),)+
                    _ => None,
                }
            }
        }
    };
}

record_kinds! {
    /// A tensor argument: a [`TensorRecord`].
    Tensor = 1,
    /// A scalar argument: a [`ScalarRecord`].
    Scalar = 2,
    /// A task at one of its stages: a [`TaskRecord`].
    Task = 3,
    /// A dispatch: a [`DispatchRecord`].
    Dispatch = 4,
    /// A tensor argument whose payload follows in pieces: a [`BeginRecord`].
    Begin = 5,
    /// A piece of an open payload: a [`PieceRecord`].
    Piece = 6,
    /// The end of an open payload: a [`CommitRecord`].
    Commit = 7,
    /// An argument that could not be captured: an [`UncapturedRecord`].
    Uncaptured = 8,
    /// A dependency: an [`EdgeRecord`].
    Edge = 9,
    /// One of the orchestration's own arguments: an [`OrchestrationArgRecord`].
    OrchestrationArg = 10,
    /// A payload that arrived after its record: a [`FilledRecord`].
    Filled = 11,
    /// A [`StringRecord`](crate::StringRecord).
    String = 12,
    /// A [`ScopeRecord`](crate::ScopeRecord).
    Scope = 13,
    /// A [`KernelRecord`](crate::KernelRecord).
    Kernel = 14,
    /// A [`QueueRecord`](crate::QueueRecord).
    Queue = 15,
    /// A [`LaneRecord`](crate::LaneRecord).
    Lane = 16,
    /// A [`StepRecord`](crate::StepRecord).
    Step = 17,
    /// A [`ModuleRecord`](crate::ModuleRecord).
    Module = 18,
    /// An [`AllocationRecord`](crate::AllocationRecord).
    Allocation = 19,
    /// Time and core of a finished dispatch: a [`FinishedRecord`].
    Finished = 20,
    /// The image of a module, which follows in pieces: an [`ImageRecord`](crate::ImageRecord).
    Image = 21,
    /// Values of an attribute of a task: an [`AttributeRecord`](crate::AttributeRecord).
    Attribute = 22,
    /// What a task is in a collective operation: a [`CollectiveRecord`](crate::CollectiveRecord).
    Collective = 23,
}

impl RecordKind {
    /// Whether records of this kind define something that other records refer to by number.
    pub const fn is_definition(self) -> bool {
        matches!(
            self,
            RecordKind::String
                | RecordKind::Scope
                | RecordKind::Kernel
                | RecordKind::Queue
                | RecordKind::Lane
                | RecordKind::Step
                | RecordKind::Module
                | RecordKind::Allocation
        )
    }
}

/// Flag of a record: its payload is in the arena.
pub const RECORD_HAS_PAYLOAD: u32 = 1 << 0;
/// Flag: a [`TensorStats`] is in the arena at `payload_pos`.
pub const RECORD_HAS_STATS: u32 = 1 << 1;
/// Flag: `hash` is the hash of the content.
pub const RECORD_HAS_HASH: u32 = 1 << 2;
/// Flag: the task had not completed, so the content may be partial.
pub const RECORD_IN_FLIGHT: u32 = 1 << 3;
/// Flag: the payload was dropped; only the metadata is kept.
pub const RECORD_PAYLOAD_DROPPED: u32 = 1 << 4;
/// Flag: a filter or cap excluded the payload.
pub const RECORD_PAYLOAD_FILTERED: u32 = 1 << 5;
/// Flag: the payload is already stored under this hash and size, so the arena contains nothing for it.
pub const RECORD_ALREADY_STORED: u32 = 1 << 6;
/// Flag of a [`CommitRecord`]: only the first bytes of the payload were sent.
pub const RECORD_TRUNCATED: u32 = 1 << 7;
/// Flag: the payload comes later; a [`FilledRecord`] announces it.
pub const RECORD_FILLED_LATER: u32 = 1 << 8;
/// Flag: the orchestration marked the argument.
pub const RECORD_MARKED: u32 = 1 << 9;
/// Flag: the element type is not known; `dtype` is only an unsigned type of a plausible width.
pub const RECORD_DTYPE_UNKNOWN: u32 = 1 << 10;
/// Flag: whether the argument is read or written is not known.
pub const RECORD_ROLE_UNKNOWN: u32 = 1 << 11;
/// Flag: the extent of the argument is a guess.
pub const RECORD_EXTENT_GUESSED: u32 = 1 << 12;
/// Flag of a [`TaskRecord`]: `parent_task` is the task that submitted it.
pub const RECORD_HAS_PARENT: u32 = 1 << 13;
/// Flag of a [`TaskRecord`], a [`ModuleRecord`](crate::ModuleRecord) or an
/// [`AllocationRecord`](crate::AllocationRecord): the extended fields are in use. Without the flag they are
/// zero.
pub const RECORD_EXTENDED: u32 = 1 << 14;
/// Flag of a [`ScalarRecord`]: the argument is not a value but memory local to each work group; `bits` is
/// its size in bytes.
pub const RECORD_LOCAL_MEMORY: u32 = 1 << 15;

/// Flag of a [`TaskRecord`](crate::TaskRecord): shared memory, cluster and flags of its launch are in use.
/// Without the flag they are zero.
pub const RECORD_LAUNCH_DETAILS: u32 = 1 << 16;

/// Flag of a [`TaskRecord`](crate::TaskRecord): it is a region, which contains the tasks whose parent it is.
pub const RECORD_REGION: u32 = 1 << 17;

/// Declares a record: the head of every kind, then the kind's own fields with their offsets.
macro_rules! dump_record {
    ($(#[$doc:meta])* $name:ident = $kind:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty = $offset:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C, align(64))]
        pub struct $name {
            /// [`RecordKind`](crate::RecordKind) tag.
            pub kind: u8,
            /// [`DumpStage`](crate::DumpStage) tag; 0 if the kind has no stage.
            pub stage: u8,
            /// Position of the argument among those of its task: tensors, then scalars. 0 if the kind has
            /// no argument.
            pub arg_index: u16,
            /// `RECORD_…` flags.
            pub flags: u32,
            /// The task that the record belongs to; 0 if the kind has no task.
            pub task_id: u64,
            $($(#[$field_doc])* pub $field: $ty,)+
        }
        crate::assert_layout!($name, size 192, align 64,
            kind @ 0, stage @ 1, arg_index @ 2, flags @ 4, task_id @ 8, $($field @ $offset),+);

        impl Default for $name {
            /// A record of this kind with all other bytes zero.
            fn default() -> $name {
                let mut record: $name = zerocopy::FromZeros::new_zeroed();
                record.kind = <$name as crate::RecordLayout>::KIND as u8;
                record
            }
        }

        impl crate::RecordLayout for $name {
            const KIND: crate::RecordKind = crate::RecordKind::$kind;
        }

        impl From<$name> for crate::DumpRecord {
            fn from(record: $name) -> crate::DumpRecord {
                zerocopy::transmute!(record)
            }
        }
    };
}
pub(crate) use dump_record;

/// A record type with the fields of one kind.
pub trait RecordLayout: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Into<DumpRecord> {
    /// The kind.
    const KIND: RecordKind;
}

/// A record of any kind: the head, and bytes whose meaning depends on the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DumpRecord {
    /// [`RecordKind`] tag.
    pub kind: u8,
    /// [`DumpStage`] tag; 0 if the kind has no stage.
    pub stage: u8,
    /// Position of the argument among those of its task: tensors, then scalars. 0 if the kind has no
    /// argument.
    pub arg_index: u16,
    /// `RECORD_…` flags.
    pub flags: u32,
    /// The task that the record belongs to; 0 if the kind has no task.
    pub task_id: u64,
    /// Fields of the kind.
    pub body: [u8; 176],
}
assert_layout!(DumpRecord, size 192, align 64, kind @ 0, stage @ 1, arg_index @ 2, flags @ 4, task_id @ 8, body @ 16);

impl Default for DumpRecord {
    /// All zero, which is not a valid kind.
    fn default() -> DumpRecord {
        DumpRecord::new_zeroed()
    }
}

impl DumpRecord {
    /// The fields, if the record is of that kind.
    ///
    /// ```
    /// use tensortap_abi::{DumpRecord, EdgeRecord, ScalarRecord};
    /// let record = DumpRecord::from(ScalarRecord { task_id: 7, bits: 1, ..ScalarRecord::default() });
    /// assert_eq!(record.get::<ScalarRecord>().map(|scalar| scalar.bits), Some(1));
    /// assert_eq!(record.get::<EdgeRecord>(), None);
    /// ```
    pub fn get<T: RecordLayout>(&self) -> Option<&T> {
        if self.kind != T::KIND as u8 {
            return None;
        }
        T::ref_from_bytes(self.as_bytes()).ok()
    }

    /// The fields for writing, if the record is of that kind.
    pub fn get_mut<T: RecordLayout>(&mut self) -> Option<&mut T> {
        if self.kind != T::KIND as u8 {
            return None;
        }
        T::mut_from_bytes(self.as_mut_bytes()).ok()
    }

    /// The kind of the record; `None` if it is damaged.
    #[inline]
    pub const fn kind(&self) -> Option<RecordKind> {
        RecordKind::from_tag(self.kind)
    }

    /// Whether every byte that its kind does not use is zero. `in_use` is the number of used bytes at the
    /// end for data without a fixed length (dimensions, a text, arguments).
    pub fn has_zero_rest(&self, in_use: usize) -> bool {
        let Some(kind) = self.kind() else { return false };
        let HeadUse { stage, arg_index, task_id } = kind.head_use();
        let head = (stage || self.stage == 0)
            && (arg_index || self.arg_index == 0)
            && (task_id || self.task_id == 0);
        let bytes = self.as_bytes();
        // No branch per byte: every record that is read passes through here.
        let is_zero = |part: &[u8]| part.iter().fold(0, |bits, byte| bits | byte) == 0;
        head && kind.gap().is_none_or(|(from, to)| is_zero(&bytes[from..to]))
            && bytes.get(kind.fixed_bytes() + in_use..).is_some_and(is_zero)
    }
}

/// Which head fields a kind uses.
struct HeadUse {
    stage: bool,
    arg_index: bool,
    task_id: bool,
}

impl RecordKind {
    /// Size of the fields that every record of this kind has. Dimensions, a text or arguments may follow.
    pub const fn fixed_bytes(self) -> usize {
        match self {
            RecordKind::Tensor | RecordKind::Begin | RecordKind::OrchestrationArg => 64,
            RecordKind::Scalar | RecordKind::Edge | RecordKind::Scope => 32,
            RecordKind::Lane | RecordKind::Step | RecordKind::String | RecordKind::Collective => 32,
            RecordKind::Uncaptured | RecordKind::Queue => 24,
            RecordKind::Task => 136,
            RecordKind::Dispatch => 96,
            RecordKind::Piece | RecordKind::Commit | RecordKind::Finished => 48,
            RecordKind::Filled | RecordKind::Image => 56,
            RecordKind::Module | RecordKind::Allocation | RecordKind::Attribute => 48,
            RecordKind::Kernel => 40,
        }
    }

    /// Size of the additional fields that a record with these flags has.
    pub const fn extended_bytes(self, flags: u32) -> usize {
        match self {
            RecordKind::Task if flags & RECORD_LAUNCH_DETAILS != 0 => 56,
            RecordKind::Task if flags & RECORD_EXTENDED != 0 => 48,
            RecordKind::Module if flags & RECORD_EXTENDED != 0 => 16,
            RecordKind::Allocation if flags & RECORD_EXTENDED != 0 => 32,
            _ => 0,
        }
    }

    /// Reserved bytes between the fields.
    const fn gap(self) -> Option<(usize, usize)> {
        match self {
            RecordKind::Begin | RecordKind::OrchestrationArg => Some((24, 40)),
            RecordKind::Scalar => Some((29, 32)),
            RecordKind::Uncaptured => Some((22, 24)),
            RecordKind::Edge => Some((26, 32)),
            RecordKind::Dispatch => Some((76, 80)),
            RecordKind::Finished => Some((28, 32)),
            RecordKind::Scope => Some((28, 32)),
            RecordKind::Kernel => Some((31, 32)),
            RecordKind::Allocation => Some((42, 48)),
            RecordKind::Image => Some((49, 56)),
            RecordKind::Attribute => Some((30, 32)),
            RecordKind::Collective => Some((29, 32)),
            _ => None,
        }
    }

    const fn head_use(self) -> HeadUse {
        let argument = matches!(
            self,
            RecordKind::Tensor
                | RecordKind::Scalar
                | RecordKind::Begin
                | RecordKind::Piece
                | RecordKind::Commit
                | RecordKind::Filled
                | RecordKind::Uncaptured
        );
        HeadUse {
            stage: argument || matches!(self, RecordKind::Dispatch),
            arg_index: argument || matches!(self, RecordKind::Edge | RecordKind::OrchestrationArg),
            task_id: !self.is_definition() && !matches!(self, RecordKind::OrchestrationArg),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::*;

    /// For each kind, a record whose bytes are all 0xff.
    fn full(kind: RecordKind) -> DumpRecord {
        let mut record = DumpRecord::read_from_bytes(&[0xff; 192]).unwrap();
        record.kind = kind as u8;
        record
    }

    #[test]
    fn nonzero_unused_bytes_are_detected() {
        for &kind in RecordKind::ALL {
            assert_eq!(RecordKind::from_tag(kind as u8), Some(kind));
            let empty = DumpRecord { kind: kind as u8, ..DumpRecord::default() };
            assert!(empty.has_zero_rest(0), "{kind:?}");
            let fixed = kind.fixed_bytes();
            assert!(fixed.is_multiple_of(8) && fixed <= 192, "{kind:?}");
            for at in fixed..192 {
                let mut record = empty;
                record.as_mut_bytes()[at] = 1;
                assert!(!record.has_zero_rest(0), "{kind:?} {at}");
                assert!(record.has_zero_rest(at + 1 - fixed), "{kind:?} {at}");
            }
            assert!(!full(kind).has_zero_rest(193) && !empty.has_zero_rest(193), "{kind:?}");
        }
        assert!(RecordKind::from_tag(0).is_none() && RecordKind::from_tag(24).is_none());
    }

    /// Every used field is outside the bytes that must be zero, and every reserved field is inside.
    #[test]
    fn reserved_fields_must_be_zero_and_used_fields_need_not() {
        fn rests<T: RecordLayout>(record: T) -> bool {
            record.into().has_zero_rest(192 - T::KIND.fixed_bytes())
        }
        let zero = |reserved: bool| assert!(!reserved);
        zero(rests(BeginRecord { reserved: [1; 16], ..BeginRecord::default() }));
        zero(rests(OrchestrationArgRecord { reserved: [1; 16], ..OrchestrationArgRecord::default() }));
        zero(rests(ScalarRecord { reserved0: [0, 0, 1], ..ScalarRecord::default() }));
        zero(rests(UncapturedRecord { reserved0: [0, 1], ..UncapturedRecord::default() }));
        zero(rests(EdgeRecord { reserved0: [0, 0, 0, 0, 0, 1], ..EdgeRecord::default() }));
        zero(rests(ImageRecord { reserved0: [1; 7], ..ImageRecord::default() }));
        zero(rests(DispatchRecord { reserved0: 1, ..DispatchRecord::default() }));
        zero(rests(FinishedRecord { reserved0: 1, ..FinishedRecord::default() }));
        zero(rests(FinishedRecord { stage: 1, ..FinishedRecord::default() }));
        zero(rests(ScopeRecord { reserved0: 1, ..ScopeRecord::default() }));
        zero(rests(KernelRecord { reserved0: 1, ..KernelRecord::default() }));
        zero(rests(AllocationRecord { reserved0: [1; 6], ..AllocationRecord::default() }));
        zero(rests(ScopeRecord { task_id: 1, ..ScopeRecord::default() }));
        zero(rests(TaskRecord { stage: 1, ..TaskRecord::default() }));
        assert!(rests(TaskRecord {
            parent_task: 1,
            operation: 1,
            source_line: 1,
            core: u16::MAX,
            work_dims: 3,
            ..TaskRecord::default()
        }));
        assert!(rests(FinishedRecord {
            core_id: 1,
            started_ns: 1,
            completed_ns: 1,
            ..FinishedRecord::default()
        }));
        assert!(rests(EdgeRecord { cause: 0xffff, producer: 1, ..EdgeRecord::default() }));
        assert!(rests(ScalarRecord { dtype: 0xff, bits: 1, name: 1, ..ScalarRecord::default() }));
        assert!(rests(UncapturedRecord { role: 1, reason: 1, name: 1, ..UncapturedRecord::default() }));
    }
}
