//! Whether code can use variables that lie in memory, as far as its instructions say.
//!
//! Nobody knows where a variable lies before its module is loaded. Then the driver writes the addresses of all of them into a bank of constants, from which code reads those that it needs, or
//! into places of the code, which relocations name. An instruction that reads a bank says which one it is. So code that has no relocations and never reads that bank uses no such variable,
//! whatever else its module has. Of `__constant__` ones the same cannot be said: they are a bank themselves, whose address the driver also tells where it tells of parameters.

/// Bytes of an instruction. The first eight say what it is and where its operands come from.
const INSTRUCTION_BYTES: usize = 16;
/// The bank that has addresses.
const ADDRESSES: u64 = 4;
/// Forms of instructions whose second or third operand may lie in a bank.
const WITH_BANK: [u64; 2] = [3, 5];
/// Barriers are of such a form, and have their number where others have a bank.
const BARRIER: u64 = 0xb1d;
/// Loads from a bank, and from a bank into registers that all threads share, whose forms are its own: with a bank for one value and for eight.
const LOAD: u64 = 0xb82;
const LOAD_SHARED: u64 = 0x1ac;
const LOAD_SHARED_FORMS: [u64; 2] = [0x7ac, 0xdac];

/// Whether code for one of the architectures that instructions are known of may read addresses of variables.
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
    /// It is found when the instruction runs.
    Any,
}

/// Of the two words of an instruction.
fn bank(word: u64, second: u64) -> Bank {
    let operation = word & 0xfff;
    let is_shared = operation & 0x1ff == LOAD_SHARED;
    let has_bank = match is_shared {
        true => LOAD_SHARED_FORMS.contains(&operation),
        false => WITH_BANK.contains(&(operation >> 9)) && operation != BARRIER,
    };
    // By a register: of loads in two of four modes, and of all others where a bit says so.
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

/// Whether instructions of an architecture are known: Volta's and those of its successors.
pub fn is_known(architecture: u32) -> bool {
    matches!(architecture, 70..=90 | 100..=121)
}

#[cfg(test)]
mod tests;
