use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::assert_layout;

/// Tensors that a task of a scene may have.
pub const MAX_TENSORS: usize = 16;
/// Scalars that a payload may hold.
pub const MAX_SCALARS: usize = 32;
/// Tensors that a payload may hold. A replayed task of another project may have this many.
pub const MAX_PASSED_TENSORS: usize = 32;
/// Index in `args[]` of the address of a [`BlockContext`].
pub const BLOCK_CONTEXT_SLOT: usize = MAX_TENSORS + MAX_SCALARS;
/// Index in `args[]` of the address of a [`SubtaskContext`].
pub const SUBTASK_CONTEXT_SLOT: usize = BLOCK_CONTEXT_SLOT + 1;
/// Length of the `args[]` array every kernel receives.
pub const ARG_SLOTS: usize = SUBTASK_CONTEXT_SLOT + 1;
const _: () = assert!(BLOCK_CONTEXT_SLOT == 48 && ARG_SLOTS == 50);

/// Whether `args[]` has room for these arguments before the contexts.
pub const fn can_be_passed(tensors: usize, scalars: usize) -> bool {
    tensors <= MAX_PASSED_TENSORS && scalars <= MAX_SCALARS && tensors + scalars <= BLOCK_CONTEXT_SLOT
}

/// Subtask slots of a task, and cores of a block.
pub const SLOTS_PER_TASK: usize = 3;

/// Entry point of a kernel: `args` points to [`ARG_SLOTS`] words.
pub type KernelEntry = unsafe extern "C" fn(args: *mut u64);

/// The two kinds of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoreType {
    /// Matrix core; one per block.
    Aic,
    /// Vector core; two per block.
    Aiv,
}

impl CoreType {
    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            CoreType::Aic => "AIC",
            CoreType::Aiv => "AIV",
        }
    }

    /// Core type of a subtask slot, and of the same position in a block.
    pub const fn of_slot(slot: usize) -> CoreType {
        if slot == 0 { CoreType::Aic } else { CoreType::Aiv }
    }
}

impl fmt::Display for CoreType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a kernel's signature declares for one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgKind {
    /// A tensor that is read.
    In,
    /// A tensor whose elements are all written.
    Out,
    /// A tensor that is read and written, or only partly written.
    InOut,
    /// A raw 64-bit value with a dtype tag.
    Scalar,
}

impl ArgKind {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ArgKind::In => "IN",
            ArgKind::Out => "OUT",
            ArgKind::InOut => "INOUT",
            ArgKind::Scalar => "SCALAR",
        }
    }
}

/// Direction of a tensor argument, as submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// Read.
    Input = 1,
    /// Written.
    Output = 2,
    /// Read and written.
    InOut = 3,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Input, Role::Output, Role::InOut];

    /// The role of a tag; `None` if the tag is damaged.
    pub const fn from_tag(tag: u8) -> Option<Role> {
        match tag {
            1 => Some(Role::Input),
            2 => Some(Role::Output),
            3 => Some(Role::InOut),
            _ => None,
        }
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Output => "output",
            Role::InOut => "inout",
        }
    }

    /// The role with this name in JSON.
    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Tag in task slots and records. Bit 0: reads, bit 1: writes; a union is a bitwise or.
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// Whether the task reads the previous content.
    pub const fn reads(self) -> bool {
        self.tag() & 1 != 0
    }

    /// Whether the task changes the content.
    pub const fn writes(self) -> bool {
        self.tag() & 2 != 0
    }

    /// The role of an argument that two kernels of one mix task share.
    pub const fn union(self, other: Role) -> Role {
        match self.tag() | other.tag() {
            1 => Role::Input,
            2 => Role::Output,
            _ => Role::InOut,
        }
    }
}

/// The context that `args[48]` points to: the block of an SPMD task that this dispatch runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BlockContext {
    /// This block.
    pub block_idx: u32,
    /// Blocks of the task.
    pub block_num: u32,
}
assert_layout!(BlockContext, size 8, align 4, block_idx @ 0, block_num @ 4);

/// The context that `args[49]` points to: the subtask of a mix task that this dispatch runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SubtaskContext {
    /// Subtask slot: 0 AIC, 1 AIV0, 2 AIV1.
    pub subtask_id: u32,
    /// Active slots of the task.
    pub subtask_count: u32,
}
assert_layout!(SubtaskContext, size 8, align 4, subtask_id @ 0, subtask_count @ 4);

/// A kernel as it is passed to the device: by name, never by pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelName {
    /// Number by which tasks refer to it.
    pub func_id: u32,
    /// Bytes of `name` in use.
    pub name_len: u32,
    /// UTF-8, padded with zeros.
    pub name: [u8; KernelName::MAX_BYTES],
}
assert_layout!(KernelName, size 64, align 4, func_id @ 0, name_len @ 4, name @ 8);

impl KernelName {
    /// Maximum length of a name.
    pub const MAX_BYTES: usize = 56;

    /// Returns `None` if the name is too long.
    pub fn new(func_id: u32, name: &str) -> Option<KernelName> {
        let mut bytes = [0; KernelName::MAX_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(KernelName { func_id, name_len: u32::try_from(name.len()).ok()?, name: bytes })
    }

    /// The name; `None` if it is damaged.
    pub fn as_str(&self) -> Option<&str> {
        let len = usize::try_from(self.name_len).ok()?;
        core::str::from_utf8(self.name.get(..len)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DumpStage;

    #[test]
    fn in_and_out_of_a_mix_task_make_inout() {
        assert_eq!(Role::Input.union(Role::Output), Role::InOut);
        assert_eq!(Role::Input.union(Role::Input), Role::Input);
    }

    #[test]
    fn roles_and_stages_have_tags_and_names() {
        for role in Role::ALL {
            assert_eq!((Role::from_tag(role.tag()), Role::parse(role.name())), (Some(role), Some(role)));
        }
        for stage in DumpStage::ALL {
            let found = (DumpStage::from_tag(stage as u8), DumpStage::parse(stage.name()));
            assert_eq!(found, (Some(stage), Some(stage)));
        }
        assert_eq!((Role::parse("INPUT"), DumpStage::parse("before")), (None, None));
    }

    #[test]
    fn kernel_names_round_trip_unless_too_long() {
        assert_eq!(KernelName::new(7, "qk").unwrap().as_str(), Some("qk"));
        let long = core::str::from_utf8(&[b'x'; KernelName::MAX_BYTES + 1]).unwrap();
        assert_eq!(KernelName::new(7, long), None);
    }
}
