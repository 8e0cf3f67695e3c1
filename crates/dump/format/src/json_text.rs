//! Writes JSON directly into a buffer. A dump has one line per record, and a field-by-field serializer took
//! longer than everything else that closing a dump does. The text equals the output of `serde_json` for the
//! same values; tests check that.

use serde::Serialize;

/// Every pair of decimal digits.
#[expect(clippy::cast_possible_truncation, reason = "a digit fits")]
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// The two hex digits of every byte.
const HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [[0; 2]; 256];
    let mut n = 0;
    while n < 256 {
        hex[n] = [DIGITS[n >> 4], DIGITS[n & 15]];
        n += 1;
    }
    hex
};

fn pair(below_100: u64) -> [u8; 2] {
    usize::try_from(below_100).map_or([b'0'; 2], |place| PAIRS[place])
}

/// A buffer for JSON text. `raw` is for text that is valid JSON already: keys, punctuation and fixed words.
pub(crate) struct JsonText<'b>(pub(crate) &'b mut Vec<u8>);

impl JsonText<'_> {
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// A fixed word that needs no escaping.
    pub(crate) fn word(&mut self, word: &str) -> &mut Self {
        self.0.push(b'"');
        self.raw(word);
        self.0.push(b'"');
        self
    }

    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.raw(if value { "true" } else { "false" })
    }

    pub(crate) fn number(&mut self, value: impl Into<u64>) -> &mut Self {
        let mut value: u64 = value.into();
        let mut text = [0; 20];
        let mut at = text.len();
        while value >= 100 {
            at -= 2;
            text[at..at + 2].copy_from_slice(&pair(value % 100));
            value /= 100;
        }
        let [tens, ones] = pair(value);
        at -= 1;
        text[at] = ones;
        if tens != b'0' {
            at -= 1;
            text[at] = tens;
        }
        self.0.extend_from_slice(&text[at..]);
        self
    }

    pub(crate) fn signed(&mut self, value: i64) -> &mut Self {
        if value < 0 {
            self.0.push(b'-');
        }
        self.number(value.unsigned_abs())
    }

    /// A number as a string, for values that JSON numbers would round.
    pub(crate) fn decimal(&mut self, value: u64) -> &mut Self {
        self.0.push(b'"');
        self.number(value);
        self.0.push(b'"');
        self
    }

    pub(crate) fn hex64(&mut self, value: u64) -> &mut Self {
        self.hex(value.to_be_bytes())
    }

    pub(crate) fn hex128(&mut self, value: u128) -> &mut Self {
        self.hex(value.to_be_bytes())
    }

    fn hex<const BYTES: usize>(&mut self, big_endian: [u8; BYTES]) -> &mut Self {
        self.raw("\"0x");
        let start = self.0.len();
        self.0.resize(start + 2 * BYTES, 0);
        for (place, byte) in self.0[start..].chunks_exact_mut(2).zip(big_endian) {
            place.copy_from_slice(&HEX[usize::from(byte)]);
        }
        self.raw("\"")
    }

    /// Elements separated by commas.
    pub(crate) fn list<T>(
        &mut self,
        elements: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.0.push(b'[');
        for (place, element) in elements.into_iter().enumerate() {
            if place > 0 {
                self.0.push(b',');
            }
            each(self, element);
        }
        self.0.push(b']');
        self
    }

    /// A value that is rare or needs escaping.
    pub(crate) fn value(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        serde_json::to_writer(&mut *self.0, value).expect("a buffer takes everything, and keys are strings");
        self
    }

    /// A text of the dump, or `null`.
    pub(crate) fn text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => self.value(text),
            None => self.raw("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_equal_serde_output(value: u64, shift in 0_u32..64, wide: u128) {
            let value = value >> shift;
            let mut written = Vec::new();
            let mut text = JsonText(&mut written);
            text.number(value).raw(" ").signed(value.cast_signed()).raw(" ").decimal(value);
            text.raw(" ").hex64(value).raw(" ").hex128(wide);
            let signed = value.cast_signed();
            let expected = format!("{value} {signed} \"{value}\" \"{value:#018x}\" \"{wide:#034x}\"");
            prop_assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }

    #[test]
    fn lists_and_texts_equal_serde_output() {
        let mut written = Vec::new();
        let mut text = JsonText(&mut written);
        text.list([0_u64, 99, 100], |text, n| {
            text.number(n);
        });
        text.list(<[u64; 0]>::default(), |text, n| {
            text.number(n);
        });
        text.text(Some("a \"b\"\n")).text(None).bool(true).word("x");
        assert_eq!(written, b"[0,99,100][]\"a \\\"b\\\"\\n\"nulltrue\"x\"");
    }
}
