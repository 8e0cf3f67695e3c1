//! Tests the symbols of the shared library.

use object::{
    Endianness, Object, ObjectSymbol,
    elf::{DT_SONAME, FileHeader64},
    read::elf::{Dyn, ElfFile64, FileHeader},
};

use crate::compile::library;

#[test]
fn the_library_exports_only_its_table_and_has_a_versioned_soname() {
    let bytes = std::fs::read(library()).unwrap();
    let elf = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let exported: Vec<_> = elf
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().unwrap().to_owned())
        .collect();
    assert_eq!(exported, ["tensortap_record_1"]);

    let (header, endian) = (FileHeader64::<Endianness>::parse(&*bytes).unwrap(), Endianness::Little);
    let sections = header.sections(endian, &*bytes).unwrap();
    let (entries, strings) = sections.dynamic(endian, &*bytes).unwrap().expect("a dynamic section");
    let strings = sections.strings(endian, &*bytes, strings).unwrap();
    let soname = entries.iter().find(|entry| entry.d_tag(endian) == u64::from(DT_SONAME)).expect("a soname");
    let soname = strings.get(u32::try_from(soname.d_val(endian)).unwrap()).unwrap();
    assert_eq!(String::from_utf8_lossy(soname), "libtensortap.so.0");
}
