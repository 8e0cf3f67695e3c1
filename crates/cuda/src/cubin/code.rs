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

/// Whether code for one of the architectures that instructions are known of may read addresses of variables.
pub fn reads_addresses(code: &[u8]) -> bool {
    let (instructions, rest) = code.as_chunks::<INSTRUCTION_BYTES>();
    let word = |instruction: &[u8; INSTRUCTION_BYTES]| {
        instruction.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    };
    instructions.is_empty()
        || !rest.is_empty()
        || instructions.iter().any(|instruction| bank(word(instruction)) == Some(ADDRESSES))
}

/// The bank that an instruction reads.
fn bank(word: u64) -> Option<u64> {
    let operation = word & 0xfff;
    let reads = WITH_BANK.contains(&(operation >> 9)) && operation != BARRIER;
    reads.then_some(word >> 54 & 0x1f)
}

/// Whether instructions of an architecture are known: Volta's and those of its successors.
pub fn is_known(architecture: u32) -> bool {
    matches!(architecture, 70..=90 | 100..=121)
}

#[cfg(test)]
mod tests;
