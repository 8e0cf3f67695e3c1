//! Names of the kernels in an image of code: an ELF file that has a section `.text.NAME` for each.

/// Sections that are looked at at most.
const MOST_SECTIONS: usize = 1 << 20;

/// What the kernels of an image are called. Images that are none, or damaged, have none.
pub fn kernels(image: &[u8]) -> Vec<String> {
    names(image).unwrap_or_default()
}

fn names(image: &[u8]) -> Option<Vec<String>> {
    // 64 bits, little endian.
    image.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let start = word(image, 40)?;
    let (size, count, names_at) = (half(image, 58)?, half(image, 60)?, half(image, 62)?);
    let header = |number: usize| image.get(start.checked_add(number.checked_mul(size)?)?..);
    // A file with more sections than fit says how many in its first.
    let count = if count == 0 { word(header(0)?, 32)? } else { count };
    let names_at = if names_at == 0xffff { half(header(0)?, 40)? } else { names_at };
    let names = header(names_at)?;
    let names = image.get(word(names, 24)?..)?.get(..word(names, 32)?)?;
    let name = |number| {
        let at = u32::from_le_bytes(header(number)?.get(..4)?.try_into().ok()?);
        let name = names.get(usize::try_from(at).ok()?..)?.split(|&byte| byte == 0).next()?;
        let kernel = std::str::from_utf8(name).ok()?.strip_prefix(".text.")?;
        Some(kernel.to_owned())
    };
    Some((0..count.min(MOST_SECTIONS)).filter_map(name).collect())
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = u64::from_le_bytes(bytes.get(at..)?.first_chunk::<8>().copied()?);
    usize::try_from(word).ok()
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_le_bytes(bytes.get(at..)?.first_chunk::<2>().copied()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with sections of these names.
    fn image(names: &[&str]) -> Vec<u8> {
        let texts: Vec<u8> = names.iter().flat_map(|name| name.bytes().chain([0])).collect();
        let mut image = vec![0; 64];
        image[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let sections = image.len() + texts.len();
        image[40..48].copy_from_slice(&(sections as u64).to_le_bytes());
        image[58] = 64;
        image[60] = u8::try_from(names.len()).unwrap();
        image.extend(&texts);
        let mut at = 0_u32;
        for name in names {
            let mut section = [0; 64];
            section[..4].copy_from_slice(&at.to_le_bytes());
            section[24..32].copy_from_slice(&64_u64.to_le_bytes());
            section[32..40].copy_from_slice(&(texts.len() as u64).to_le_bytes());
            image.extend(section);
            at += u32::try_from(name.len()).unwrap() + 1;
        }
        image
    }

    #[test]
    fn sections_of_code_name_kernels() {
        assert_eq!(
            kernels(&image(&[".shstrtab", ".text.add", ".nv.info.add", ".text._Z3mulPf"])),
            ["add", "_Z3mulPf"]
        );
    }

    #[test]
    fn what_is_no_image_has_no_kernels_however_it_is_damaged() {
        assert!(kernels(b"").is_empty() && kernels(b"//\n.version 8.0\n").is_empty());
        let whole = image(&[".shstrtab", ".text.add"]);
        for at in 0..whole.len() {
            kernels(&whole[..at]);
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            kernels(&damaged);
        }
    }
}
