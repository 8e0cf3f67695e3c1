use object::LittleEndian as LE;

use super::super::{File, Kernel, contents};
use super::*;
use crate::nvrtc;

const SOURCE: &str = include_str!("../../../tests/uses.cu");
const ARCHITECTURES: [u32; 9] = [75, 80, 86, 89, 90, 100, 103, 120, 121];

/// Code with these instructions. The second word of each is zero.
fn code(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| [word.to_le_bytes(), [0; 8]].concat()).collect()
}

#[test]
fn decodes_the_bank_of_an_instruction() {
    // IADD3 R4, P0, R4, c[0x4][0x8], RZ; ULDC.64 UR4, c[0x4][0x70]; LDC.64 R2, c[0x4][0x68]; LDCU.64 UR6, c[0x4][0x8]
    for word in [0x0100_0200_0404_7a10, 0x0100_1c00_0004_7ab9, 0x0100_1a00_ff02_7b82, 0x0100_0100_ff06_77ac] {
        let other_bank = word & !(0x1f << 54) | 3 << 54;
        assert!(reads_addresses(&code(&[0, word, other_bank])), "{word:#x}");
        assert!(!reads_addresses(&code(&[0, other_bank])), "{word:#x}");
    }
    // MOV R1, c[0x0][0x28]; LDG.E R4, desc[UR6][R4.64]; BAR.SYNC 0x4, 0x100
    let without = [0x0000_0a00_0001_7a02, 0x0000_0006_0404_7981, 0x0104_0000_0000_1b1d];
    assert!(!reads_addresses(&code(&without)));
    // LDCU.256 UR10, UR12, c[0x4][0x358], 0x0, and the same of bank 0
    assert!(
        reads_addresses(&code(&[0x0100_6b00_ff0c_7dac])) && !reads_addresses(&code(&[0x0000_6b00_ff0c_7dac]))
    );
}

#[test]
fn a_bank_in_a_register_may_be_any() {
    let reads =
        |word: u64, second: u64| reads_addresses(&[word.to_le_bytes(), second.to_le_bytes()].concat());
    // LDC.64 R2, c[0x0][0x68] in its four modes, of which two take the bank from a register
    assert_eq!([0, 1, 2, 3].map(|mode| reads(0x1a00_ff02_7b82, mode << 14)), [false, false, true, true]);
    // ULDC.64 UR6, c[0x0][0x70], then cx[UR0][0x70]; LDCU.64, which always has that bit, and in forms without a bank
    assert_eq!([0, 1].map(|bit| reads(0x1c00_0006_7ab9, bit << 27)), [false, true]);
    assert!(!reads(0x0100_ff06_77ac, 1 << 27) && reads(0x0100_ff06_75ac, 0) && reads(0x0100_ff06_7bac, 0));
}

#[test]
fn incomplete_code_may_read_anything() {
    assert!(reads_addresses(&[]) && reads_addresses(&[0; 24]));
    assert!(is_known(90) && is_known(120) && !is_known(61) && !is_known(130));
}

/// Checks that the kernels of `uses.cu` use what their names begin with. False if the compiler lacks the architecture.
fn checks(compiler: &nvrtc::Compiler, architecture: u32) -> bool {
    let image = match compiler.compile(SOURCE, &[format!("--gpu-architecture=sm_{architecture}")]) {
        Ok(image) => image,
        Err(log) if log.contains("gpu-architecture") => return false,
        Err(log) => panic!("{log}"),
    };
    let contents = contents(&image);
    assert_eq!(contents.kernels.len(), SOURCE.matches("__global__").count(), "sm_{architecture}");
    for Kernel { name, uses_memory } in contents.kernels {
        assert_eq!(uses_memory, name.starts_with("memory"), "{name}, sm_{architecture}");
    }
    true
}

/// Made from `variables.cu` for `sm_90`.
const IMAGE: &[u8] = include_bytes!("../../../tests/variables.cubin");

/// The kernels of an image that use variables in memory.
fn using(image: &[u8]) -> Vec<String> {
    let kernels = contents(image).kernels.into_iter().filter(|kernel| kernel.uses_memory);
    let mut names: Vec<String> = kernels.map(|kernel| kernel.name).collect();
    names.sort_unstable();
    names
}

/// The image with some bytes replaced.
fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut image = IMAGE.to_vec();
    image[at..at + bytes.len()].copy_from_slice(bytes);
    image
}

#[test]
fn kernels_use_memory_unless_the_image_proves_otherwise() {
    let certain = ["asserts", "by_call", "uses", "uses_other"];
    let all = ["asserts", "by_call", "plain", "uses", "uses_other"];
    assert_eq!(using(IMAGE), certain);
    assert_eq!(using(&changed(18, &[62])), all, "a different machine");
    assert_eq!(using(&changed(49, &[130])), all, "an unknown architecture");
    let file = File::parse(IMAGE).unwrap();
    let named =
        |name: &str| (0..file.sections.len()).find(|number| file.name(*number) == Some(name)).unwrap();
    let first_header = usize::try_from(file.header.e_shoff.get(LE)).unwrap();
    let header = |number: usize| first_header + number * 64;
    // Code with relocations of its own may contain any address.
    let debug = named(".rela.debug_frame");
    let relocates =
        |section: usize| changed(header(debug) + 44, &u32::try_from(section).unwrap().to_le_bytes());
    assert_eq!(using(&relocates(named(".text.plain"))), all);
    assert_eq!(using(&relocates(named(".text.uses"))), certain);
    assert_eq!(using(&relocates(named(".nv.constant3"))), all, "constants with relocations may be addresses");
    assert_eq!(using(&relocates(named(".nv.constant4"))), certain);
    // Any kernel may call code without a name.
    let unnamed = changed(header(named(".text.uses")), &u32::MAX.to_le_bytes());
    assert_eq!(using(&unnamed), ["asserts", "by_call", "plain", "uses_other"]);
    // Any kernel may call a function that is not a kernel.
    let (symbols, section) = (named(".symtab"), named(".text.uses"));
    let start = usize::try_from(file.sections[symbols].sh_offset.get(LE)).unwrap();
    let count = file.content(symbols).unwrap().len() / 24;
    let is_its = |symbol: &usize| IMAGE[symbol + 4] & 0xf == 2 && usize::from(IMAGE[symbol + 6]) == section;
    let symbol = (0..count).map(|number| start + 24 * number).find(is_its).unwrap();
    assert_eq!(using(&changed(symbol + 5, &[0])), all);
}

#[test]
fn decides_correctly_for_every_architecture() {
    let compiler = match nvrtc::Compiler::find() {
        Ok(compiler) => compiler,
        Err(reason) => {
            let notice =
                format!("what kernels use: {reason}; install it with `pip install nvidia-cuda-nvrtc`");
            assert!(std::env::var_os("TENSORTAP_SKIP_NOTHING").is_none(), "{notice}");
            eprintln!("SKIPPED: {notice}");
            return;
        }
    };
    let checked: Vec<u32> = ARCHITECTURES.into_iter().filter(|one| checks(&compiler, *one)).collect();
    assert!(checked.contains(&80) && checked.contains(&90), "{checked:?}");
}
