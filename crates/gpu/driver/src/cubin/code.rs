//! Decides from the instructions of a code section whether it can use variables in memory.
//!
//! The address of a variable is unknown until its module is loaded. The driver then writes the addresses of all variables
//! to a bank of constants, from which code reads them, or into the code itself, at places that relocations name. Each
//! instruction names the bank it reads. So code without relocations that never reads the address bank uses no variable,
//! whatever else the module contains. This does not hold for `__constant__` variables: they are in a bank themselves, and
//! the driver passes the address of that bank next to the parameters.

/// Size of an instruction. The first eight bytes have the operation and the sources of its operands.
const INSTRUCTION_BYTES: usize = 16;
/// The bank with addresses.
const ADDRESSES: u64 = 4;
/// Instruction forms whose second or third operand may be in a bank.
const WITH_BANK: [u64; 2] = [3, 5];
/// Barriers have one of these forms, with their number in place of the bank.
const BARRIER: u64 = 0xb1d;
/// Loads from a bank. Loads into uniform registers have their own forms: one value or eight values from a bank.
const LOAD: u64 = 0xb82;
const LOAD_SHARED: u64 = 0x1ac;
const LOAD_SHARED_FORMS: [u64; 2] = [0x7ac, 0xdac];

/// Whether code may read addresses of variables. The architecture must be a known one.
pub fn reads_addresses(code: &[u8]) -> bool {
    let (instructions, rest) = code.as_chunks::<INSTRUCTION_BYTES>();
    let reads = |instruction: &[u8; INSTRUCTION_BYTES]| {
        let (words, _) = instruction.as_chunks();
        matches!(
            bank(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])),
            Bank::One(ADDRESSES) | Bank::Any
        )
    };
    instructions.is_empty() || !rest.is_empty() || instructions.iter().any(reads)
}

/// The bank that an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bank {
    None,
    One(u64),
    /// A register has the number of the bank.
    Any,
}

/// Decodes the bank from the two words of an instruction.
fn bank(word: u64, second: u64) -> Bank {
    let operation = word & 0xfff;
    let is_shared = operation & 0x1ff == LOAD_SHARED;
    let has_bank = match is_shared {
        true => LOAD_SHARED_FORMS.contains(&operation),
        false => WITH_BANK.contains(&(operation >> 9)) && operation != BARRIER,
    };
    // Loads take the bank from a register in two of four modes, other instructions if a bit is set.
    let by_register = match operation {
        LOAD => second >> 15 & 1 != 0,
        _ => !is_shared && second >> 27 & 1 != 0,
    };
    match has_bank {
        false if is_shared => Bank::Any,
        false => Bank::None,
        true if by_register => Bank::Any,
        true => Bank::One(word >> 54 & 0x1f),
    }
}

/// Whether the instructions of an architecture are known: Volta and later.
pub fn is_known(architecture: u32) -> bool {
    matches!(architecture, 70..=90 | 100..=121)
}

#[cfg(test)]
mod tests;
